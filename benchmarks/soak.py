"""Half an hour of mixed runs and sweeps in one process: do memory, open files or threads grow?

    python benchmarks/soak.py                       (writes docs/soak.json and docs/images/soak.png)
    python benchmarks/soak.py --experiments 0       (never the same experiment twice)

Each turn does one thing: a run of one of the nine algorithms, with one seed or several; a run that is put aside and
taken up again; one that diverges; a sweep of a small grid in this process, or in a pool. What a turn wrote is read back
and removed. Turns draw from a dozen experiments, each of another shape: JAX keeps something of every shape that it has
seen (compile_growth.py), and that is not what is looked for here. As a worker of a sweep does, the process lets JAX
forget what it has compiled once in a while. The C library gives back what is free before memory is read, so that what
it keeps for later does not count as held. The first tenth of the time warms up.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import platform
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil
from matplotlib.figure import Figure
from rich.console import Console

from noshow.clock import Clock
from noshow.commit import commit
from noshow.display import PlainLines
from noshow.figure import keep_figure
from noshow.run import run
from noshow.spec_file import load, load_with
from noshow.store import RunFolder
from noshow.sweep import sweep
from noshow.sweep_grid import Cell, Grid
from noshow.workbench import Bench

DOCS = Path(__file__).parent.parent / "docs"
NAMES = load("synthetic-0.9").labels
WARM = 0.1


class Chance(random.Random):
    """What the turns are drawn by: from so many experiments, or from more than will ever be seen if 0 are asked for."""

    def __init__(self, experiments: int) -> None:
        super().__init__(0)
        self.experiments = experiments or 2**32


def spec_for(turns: Chance, **more: object) -> object:
    """A small experiment of one algorithm."""
    chance = random.Random(turns.randrange(turns.experiments))
    name = chance.choice(NAMES)
    changes = {
        "algorithms": [name],
        "rounds": chance.randint(20, 60),
        "sampled": chance.randint(2, 6),
        "evaluate_every": chance.randint(3, 20),
        "seeds": sorted(chance.sample(range(1000), chance.randint(1, 3))),
        "data.clients": chance.randint(8, 30),
        "data.sizes": chance.randint(20, 200),
        "adversary": {"name": chance.choice(["largest_reply", "nobody"])},
        **more,
    }
    return load_with("synthetic-0.9", changes.items(), "published")


def quietly() -> PlainLines:
    return PlainLines(Console(quiet=True))


def plain_run(chance: Chance, folder: Path) -> None:
    spec = spec_for(chance)
    assert run(spec, RunFolder.of(spec, folder / "run"), quietly())
    place = RunFolder.open(folder / "run")
    for label in place.finished:
        str(place.load(label).summary())


def run_put_aside(chance: Chance, folder: Path) -> None:
    spec = spec_for(chance)
    place = RunFolder.of(spec, folder / "run")
    over = Clock(minutes=0.0)
    assert run(spec, place, quietly(), clock=over) is None
    assert run(spec, place, quietly())


def diverging_run(chance: Chance, folder: Path) -> None:
    spec = spec_for(chance, rate=1e30, algorithms=["fedavg"])
    histories = run(spec, RunFolder.of(spec, folder / "run"), quietly())
    assert histories
    assert histories[0].diverged_at[0] is not None


def a_sweep(on: str) -> Callable[[Chance, Path], None]:
    def turn(chance: Chance, folder: Path) -> None:
        cells = [Cell({"seed": k}, spec_for(chance)) for k in range(3)]
        swept = sweep(Grid("soak", "", cells), on, out=folder / "store")
        assert all(entry.status == "done" for entry in swept.entries)

    return turn


TURNS: dict[str, Callable[[Chance, Path], None]] = {
    "run": plain_run,
    "run put aside": run_put_aside,
    "run that diverges": diverging_run,
    "sweep here": a_sweep("here"),
    "sweep in a pool": a_sweep("pool"),
}


def soak(minutes: float, experiments: int) -> list[dict[str, object]]:
    """What the process held after every turn."""
    own, chance, begun = psutil.Process(), Chance(experiments), time.monotonic()
    seen: list[dict[str, object]] = []
    bench = Bench()
    while (passed := time.monotonic() - begun) < 60 * minutes:
        kind = chance.choices(list(TURNS), weights=[8, 3, 2, 3, 1])[0]
        with tempfile.TemporaryDirectory() as folder:
            TURNS[kind](chance, Path(folder))
        bench.tidy()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        held = {
            "memory": own.memory_info().rss,
            "files": own.num_fds(),
            "threads": own.num_threads(),
            "children": len(own.children()),
        }
        seen.append({"seconds": round(passed, 1), "turn": kind, **held})
        if len(seen) % 20 == 0:
            print(f"{passed:6.0f} s, {len(seen)} turns: {held}", flush=True)
    return seen


def growth(seen: list[dict[str, object]], key: str) -> tuple[float, float]:
    """The mean of the first and of the last quarter, after the warming up."""
    kept = np.array([entry[key] for entry in seen][int(WARM * len(seen)) :], float)
    quarter = max(1, len(kept) // 4)
    return float(kept[:quarter].mean()), float(kept[-quarter:].mean())


def draw(seen: list[dict[str, object]]) -> Figure:
    figure = Figure(figsize=(9, 5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    minutes = [float(str(entry["seconds"])) / 60 for entry in seen]
    top.plot(minutes, [int(str(entry["memory"])) / 2**20 for entry in seen], color="#0072b2", linewidth=1)
    top.set_title("memory of the process, MiB", loc="left")
    top.set_ylim(bottom=0)
    for key, colour in (("files", "#d55e00"), ("threads", "#555555")):
        bottom.plot(minutes, [entry[key] for entry in seen], color=colour, linewidth=1, label=f"open {key}")
    bottom.set_ylim(bottom=0)
    bottom.legend(frameon=False)
    bottom.set_xlabel("minutes")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--experiments", type=int, default=12)
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    seen = soak(asked.minutes, asked.experiments)
    facts = {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": commit(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "minutes": asked.minutes,
        "experiments": asked.experiments,
        "turns": len(seen),
        "first and last quarter": {key: growth(seen, key) for key in ("memory", "files", "threads", "children")},
    }
    print(json.dumps(facts, indent=1))
    text = json.dumps(facts | {"seen": seen}) + "\n"
    (asked.out / "soak.json").write_text(text, "utf-8")
    keep_figure(asked.out / "images" / "soak.png", draw(seen), dpi=100)


if __name__ == "__main__":
    main()
