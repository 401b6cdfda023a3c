"""A sweep on a Ray cluster of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweeping import check_all_done, kill_workers, prepare, sweeping

pytest.importorskip("ray")


@pytest.mark.slow
def test_24_cells_with_two_workers_killed_on_the_way(tmp_path: Path) -> None:
    prepare(tmp_path, '[[grid]]\nrate = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]\n"data.seed" = [0, 1, 2, 3]\n')
    with sweeping(tmp_path, "ray", 2) as running:
        killed = kill_workers(tmp_path, 2)
        said, _ = running.communicate(timeout=500)
    assert running.returncode == 0, said
    check_all_done(tmp_path, 24, killed)
