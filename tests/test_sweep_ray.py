"""A sweep on a Ray cluster of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweeping import check_all_done, kill_workers, prepare, sweeping

pytest.importorskip("ray")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("seeds", "deaths"), [(1, 1), (4, 2)])
def test_workers_killed_on_the_way(seeds: int, deaths: int, tmp_path: Path) -> None:
    """6 cells and one worker, or 24 and two."""
    rates = "rate = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]"
    prepare(tmp_path, f'[[grid]]\n{rates}\n"data.seed" = {list(range(seeds))}\n')
    with sweeping(tmp_path, "ray", 2) as running:
        killed = kill_workers(tmp_path, deaths)
        said, _ = running.communicate(timeout=500)
    assert running.returncode == 0, said
    check_all_done(tmp_path, 6 * seeds, killed)
