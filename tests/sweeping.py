"""What tests of sweeps share: a small experiment, a sweep in a process of its own, and the killing of its workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from noshow.progress import progress_of

TINY = """
name = "tiny"
rounds = 8000
sampled = 4
epsilon = 0.5
evaluate_every = 50

[data]
name = "synthetic"
clients = 8
sizes = 20

[model]
name = "logistic"

[adversary]
name = "largest_reply"

[[algorithms]]
name = "mifa"
rate = 0.1
steps = 2
"""

SWEEP = """
import signal, sys
from pathlib import Path
from rich.console import Console
from noshow.sweep import sweep
from noshow.sweep_display import PlainCells
from noshow.sweep_grid import load_grid

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    on, workers = sys.argv[1], int(sys.argv[2])
    swept = sweep(load_grid("grid.toml"), on, workers, Path("store"), PlainCells(Console()), seconds_between=0.0)
    sys.exit(0 if swept.complete else 130)
"""


def prepare(folder: Path, grid: str) -> None:
    """The experiment, the grid and the program that sweeps it, in a folder."""
    (folder / "tiny.toml").write_text(TINY, "utf-8")
    (folder / "grid.toml").write_text('experiment = "tiny.toml"\n' + grid, "utf-8")
    (folder / "sweeps.py").write_text(SWEEP, "utf-8")


@contextmanager
def sweeping(folder: Path, on: str, workers: int) -> Iterator[subprocess.Popen[str]]:
    """The sweep, running; it never outlives its test."""
    command = [sys.executable, "-u", "sweeps.py", on, str(workers)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def cells(folder: Path) -> list[Path]:
    return sorted((folder / "store").glob("*-????????"))


def in_progress(folder: Path, besides: set[str] = frozenset()) -> tuple[Path, int]:
    """A cell that is being run and has a checkpoint, and its worker's process."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        for cell in cells(folder):
            if cell.name not in besides and (cell / "unfinished" / "mifa.npz").exists():
                who = re.fullmatch(r"process (\d+) on .*", progress_of(cell)["starts"][-1]["who"])
                assert who is not None
                return cell, int(who[1])
        time.sleep(0.01)
    raise AssertionError("no cell was in progress for four minutes")


def kill_workers(folder: Path, how_many: int) -> dict[str, int]:
    """Kill the workers of so many cells in progress; the cells, and the rounds that were safe in a checkpoint."""
    killed: dict[str, int] = {}
    missed: set[str] = set()
    while len(killed) < how_many:
        cell, process = in_progress(folder, missed | set(killed))
        safe = _rounds_kept(cell)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        if (cell / "mifa").exists():
            missed.add(cell.name)  # it had just come to its end
        else:
            killed[cell.name] = safe
    return killed


def _rounds_kept(cell: Path) -> int:
    for name in ("mifa.npz", "mifa.npz.before"):
        with suppress(OSError), np.load(cell / "unfinished" / name) as kept:
            return int(kept["t"])
    return 0


def check_all_done(folder: Path, number: int, killed: dict[str, int]) -> None:
    """Nothing lost, nothing run twice: a killed cell was started once more, from its checkpoint, and no other."""
    assert len(cells(folder)) == number
    for cell in cells(folder):
        told = progress_of(cell)
        rounds = np.asarray(pq.read_table(cell / "mifa" / "roll_call.parquet")["round"])
        assert rounds.tolist() == list(range(8000))
        assert not (cell / "unfinished").exists()
        starts = [start["round"] for start in told["starts"]]
        if cell.name in killed:
            assert len(starts) == 2
            assert killed[cell.name] <= starts[1] < 8000
            assert 8000 <= told["played"]["mifa"] < 16000 - starts[1]
        else:
            assert starts == [0]
            assert told["played"] == {"mifa": 8000}
    table = pq.read_table(folder / "store" / "grid.parquet")
    assert table.num_rows == number
    assert len(set(table["cell"].to_pylist())) == number
