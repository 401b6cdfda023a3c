"""The demonstration of the bias runs as it stands, and shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower_bias.py"


@pytest.mark.slow
@pytest.mark.long
def test_what_is_remembered_outlives_silence(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    environment = os.environ | {"MPLBACKEND": "agg"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    right = {name: float(share) for name, share in re.findall(r"^(.*): (\d\.\d+) of the rare", done.stdout, re.M)}
    assert right["noshow, remember (MIFA)"] > right["Flower's FedAvg"] + 0.2
    assert (tmp_path / "flower-bias.png").stat().st_size > 10_000
