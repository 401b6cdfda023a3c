"""Runs that are killed again and again, at random moments and inside a checkpoint's file, end as undisturbed ones."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from noshow.display import PlainLines
from noshow.run import complete
from noshow.spec_file import load
from noshow.store import RunFolder

ROUNDS, CHUNK, SEED = 60, 5, 0
OWN = {
    "fedavg": "steps = 2",
    "fedavg_variant": "steps = 2",
    "fedprox": "steps = 2\nmu = 0.1",
    "fedprox_variant": "steps = 2\nmu = 0.1",
    "mifa": "steps = 2",
    "gm": "",
    "cclip": "",
    "bucketing_gm": "",
    "bucketing_cclip": "",
}
FEW = ("mifa",)
KILLS = {True: 4, False: 2}
"""Nine algorithms killed four times each are 36 times, half of them in the middle of a checkpoint's file."""

SPEC = """
name = "torture"
rounds = {rounds}
sampled = 4
epsilon = 0.5
seeds = [0, 7]
evaluate_every = {chunk}
data = {{ name = "synthetic", clients = 8, sizes = 40, batches = "step", batch_size = 8 }}
model = {{ name = "logistic" }}
adversary = {{ name = "largest_reply" }}
[[algorithms]]
name = "{name}"
rate = 0.01
{own}
"""

# Says where it is after every chunk, and in the middle of every checkpoint's file.
DRIVER = """
import sys, time
from pathlib import Path
from rich.console import Console
from noshow import checkpoint
from noshow.display import PlainLines
from noshow.run import complete
from noshow.spec_file import load
from noshow.store import RunFolder

checkpoint.LARGEST_SHARE = 1e9  # after every chunk, whatever it costs
whole = checkpoint._write

def halting(part, arrays):
    whole(part, arrays)
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    print("writing", flush=True)
    time.sleep(0.01)
    part.write_bytes(content)

checkpoint._write = halting

class Telling(PlainLines):
    def evaluated(self, label, t, metrics):
        print("at", t, flush=True)
        time.sleep(0.002)

spec = load(sys.argv[1])
complete(spec, RunFolder.of(spec, Path(sys.argv[2])), Telling(Console(quiet=True)), seconds_between=0.0)
print("done", flush=True)
"""


def killed(file: Path, out: Path, where: tuple[str, int], nap: float) -> tuple[int, int]:
    """Start it, and kill it a nap after its so many-th line of a kind; the rounds it began and ended at."""
    word, count = where
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(file), str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    seen: list[int] = []
    try:
        for line in process.stdout:
            said, *number = line.split()
            seen += [int(number[0])] if said == "at" else []
            count -= said == word
            if count == 0:
                time.sleep(nap)
                process.kill()
                break
    finally:
        process.kill()
        rest, complained = process.communicate()
    seen += [int(line.split()[1]) for line in rest.splitlines() if line.startswith("at")]
    assert process.returncode in (0, -signal.SIGKILL), complained
    return seen[0], seen[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "thorough"),
    [*((name, False) for name in FEW), *(pytest.param(name, True, marks=pytest.mark.long) for name in OWN)],
)
def test_a_run_killed_again_and_again_ends_as_an_undisturbed_one(name: str, thorough: bool, tmp_path: Path) -> None:
    chance = random.Random(f"{name}{SEED}")
    file = tmp_path / "torture.toml"
    file.write_text(SPEC.format(rounds=ROUNDS, chunk=CHUNK, name=name, own=OWN[name]), "utf-8")
    reached = 0
    for kill in range(KILLS[thorough]):
        where = ("writing", chance.randint(1, 3)) if kill % 2 else ("at", chance.randint(1, 4))
        began, ended = killed(file, tmp_path / "killed", where, chance.uniform(0.0, 0.01))
        assert reached - CHUNK <= began <= reached  # at most one chunk is played again
        reached = ended
    assert 0 < reached < ROUNDS
    began, ended = killed(file, tmp_path / "killed", ("done", 1), 0.0)
    assert reached - CHUNK <= began <= reached
    assert ended == ROUNDS
    spec = load(str(file))
    assert complete(spec, RunFolder.of(spec, tmp_path / "whole"), PlainLines(Console(quiet=True))) is not None
    one, other = tmp_path / "killed" / name, tmp_path / "whole" / name
    for table in ("metrics", "roll_call"):
        assert pq.read_table(one / f"{table}.parquet").equals(pq.read_table(other / f"{table}.parquet")), table
    with np.load(one / "model.npz") as ours, np.load(other / "model.npz") as theirs:
        assert ours.files == theirs.files
        assert all(ours[leaf].tobytes() == theirs[leaf].tobytes() for leaf in ours.files)
    assert not (tmp_path / "killed" / "unfinished").exists()
    assert not list((tmp_path / "killed").glob(".*"))
