"""What a round costs as each size grows alone: clients M, sampled K, parameters d, local steps s, seeds.

    python benchmarks/growth.py                     (writes docs/growth.json and docs/images/growth.png)

Softmax regression on random data, a few examples a client, FedAvg and the paper's variants under an adversary that
sees all replies. Points of one line take turns, many times, so that noise on the machine hits all alike; a point is the
median of its turns. Only rounds are timed: sampling, silencing, training, aggregation, and the record of it. Beside the
time on the clock stands the processor time, of all cores together, which other programs on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

import noshow as ns

DOCS = Path(__file__).parent.parent / "docs"
CLASSES, EXAMPLES, EPSILON, RATE = 10, 2, 0.5, 0.01
ROUNDS = 100_000
"""More than any line plays."""
FEWEST_TURNS, LONGEST_LINE = 5, 40.0
"""A line whose points are slow takes fewer turns: no more begin after so many seconds."""


class Point(NamedTuple):
    """The sizes of one run."""

    algorithm: str = "fedavg"
    clients: int = 1_000
    sampled: int = 10
    features: int = 20
    steps: int = 10
    seeds: int = 1

    @property
    def parameters(self) -> int:
        """d of softmax regression."""
        return CLASSES * (self.features + 1)


MEMORYLESS = ("fedavg", "fedavg_variant", "fedprox", "fedprox_variant")
LINES: dict[str, list[Point]] = {
    **{
        f"M ({name})": [Point(name, clients=10**power) for power in (2, 3, 4, 5, 6)]
        for name in (*MEMORYLESS, "mifa", "mifa, bfloat16")
    },
    "K": [Point(clients=10_000, sampled=sampled) for sampled in (1, 3, 10, 32, 100, 316, 1000)],
    "d": [Point(features=features) for features in (9, 31, 99, 315, 999, 3161, 9999)],
    "s": [Point(steps=steps) for steps in (1, 3, 10, 32, 100, 316)],
    "seeds": [Point(seeds=seeds) for seeds in (1, 2, 4, 8, 16, 32)],
}
LINES["M (mifa)"] = LINES["M (mifa)"][:-1]  # a million times 210 numbers on every core is 1.7 GB


def federation_of(clients: int, features: int) -> ns.Federation:
    """Clients with a few random examples each, made all at once."""
    chance = np.random.default_rng(0)
    x = chance.standard_normal((clients * EXAMPLES, features), np.float32)
    y = chance.integers(0, CLASSES, clients * EXAMPLES).astype(np.int32)
    return ns.Federation((x, y), np.full(clients, EXAMPLES), (x[:100], y[:100]), name="random")


def algorithm_of(name: str, steps: int) -> ns.Algorithm:
    named: dict[str, Callable[[], ns.Algorithm]] = {
        "fedavg": lambda: ns.algorithms.fedavg(RATE, steps),
        "fedavg_variant": lambda: ns.algorithms.fedavg_variant(RATE, steps, beta=10),
        "fedprox": lambda: ns.algorithms.fedprox(RATE, 1.0, steps),
        "fedprox_variant": lambda: ns.algorithms.fedprox_variant(RATE, 1.0, steps, beta=10),
        "mifa": lambda: ns.algorithms.mifa(RATE, steps),
        "mifa, bfloat16": lambda: ns.algorithms.mifa(RATE, steps, memory="bfloat16"),
    }
    return named[name]()


def start(point: Point) -> ns.Simulation:
    """The run of a point, compiled, with a chunk behind it."""
    run = ns.Simulation(
        federation_of(point.clients, point.features),
        ns.models.logistic(point.features, CLASSES),
        algorithm_of(point.algorithm, point.steps),
        ns.adversaries.largest_reply(),
        sampled=point.sampled,
        rounds=ROUNDS,
        epsilon=EPSILON,
        seeds=list(range(point.seeds)),
        evaluate_every=ROUNDS,
        evaluate_on=100,
    )
    run.advance()
    run.advance()
    return run


def a_turn(run: ns.Simulation, seconds: float) -> tuple[float, float]:
    """Seconds a round, on the clock and of the processor, over at least so many seconds."""
    begun, used, before = time.perf_counter(), time.process_time(), run.t
    while time.perf_counter() - begun < seconds:
        run.advance()
    rounds = run.t - before
    return (time.perf_counter() - begun) / rounds, (time.process_time() - used) / rounds


def measure(points: list[Point], turns: int, seconds: float) -> list[dict[str, Any]]:
    runs = [start(point) for point in points]
    times: list[list[tuple[float, float]]] = [[] for _ in points]
    begun = time.perf_counter()
    for turn in range(turns):
        if turn >= FEWEST_TURNS and time.perf_counter() - begun > LONGEST_LINE:
            break
        for run, seen in zip(runs, times, strict=True):
            seen.append(a_turn(run, seconds))
    return [
        point._asdict()
        | {
            "parameters": point.parameters,
            "seconds_a_round": statistics.median(clock for clock, _ in seen),
            "lowest": min(clock for clock, _ in seen),
            "highest": max(clock for clock, _ in seen),
            "processor_seconds_a_round": statistics.median(used for _, used in seen),
            "working_bytes": run._program.working_bytes,
        }
        for point, run, seen in zip(points, runs, times, strict=True)
    ]


def size_of(line: str, row: dict[str, Any]) -> int:
    names = {"M": "clients", "K": "sampled", "d": "parameters", "s": "steps", "seeds": "seeds"}
    return int(row[names[line.split(" ")[0]]])


def draw(lines: dict[str, list[dict[str, Any]]], title: str) -> Figure:
    """A panel each for M, K, d, s and seeds."""
    panels = ("M", "K", "d", "s", "seeds")
    figure = Figure(figsize=(15, 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels))
    for axis, panel in zip(axes, panels, strict=True):
        for line, rows in lines.items():
            if line.split(" ")[0] == panel:
                name = line.partition("(")[2].rstrip(")") or "fedavg"
                sizes = [size_of(line, row) for row in rows]
                axis.plot(sizes, [1000 * row["seconds_a_round"] for row in rows], marker="o", label=name)
        axis.set(xscale="log", yscale="log", xlabel=panel)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("ms a round")
    if axes[0].lines:
        axes[0].legend(fontsize=7)
    figure.suptitle(title, fontsize=9)
    return figure


def tables(lines: dict[str, list[dict[str, Any]]]) -> str:
    """The numbers in Markdown, one table a size."""
    text = ""
    for panel in dict.fromkeys(line.split(" ")[0] for line in lines):
        mine = {line: rows for line, rows in lines.items() if line.split(" ")[0] == panel}
        sizes = sorted({size_of(line, row) for line, rows in mine.items() for row in rows})
        text += f"| {panel} | " + " | ".join(f"{size:,}" for size in sizes) + " |\n|---" * (len(sizes) > 0)
        text += "|---" * len(sizes) + "|\n"
        for line, rows in mine.items():
            for kind, column in (("ms", "seconds_a_round"), ("processor ms", "processor_seconds_a_round")):
                found = {size_of(line, row): f"{1000 * row[column]:.2f}" for row in rows}
                name = line.partition("(")[2].rstrip(")") or "fedavg"
                text += f"| {name}, {kind} | " + " | ".join(found.get(size, "") for size in sizes) + " |\n"
        text += "\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=0.05, help="how long a turn lasts at least")
    parser.add_argument("--only", nargs="*", help="these sizes, of M K d s seeds; the others stay")
    parser.add_argument("--out", type=Path, default=DOCS, help="where growth.json and images/growth.png go")
    arguments = parser.parse_args()
    console = Console()
    described = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    where = (
        f"{datetime.now(UTC).date()}, commit {described.stdout.strip() or 'no git'}, {platform.machine()}, "
        f"{len(jax.devices())} x {jax.devices()[0].device_kind} of {os.cpu_count()} cores, JAX {jax.__version__}"
    )
    console.print(where)
    file = arguments.out / "growth.json"
    lines = json.loads(file.read_text("utf-8"))["lines"] if arguments.only and file.exists() else {}
    for line, points in LINES.items():
        if arguments.only is None or line.split(" ")[0] in arguments.only:
            lines[line] = measure(points, arguments.turns, arguments.seconds)
            shown = [
                f"{size_of(line, row):,}: {1000 * row['seconds_a_round']:.2f} "
                f"({1000 * row['processor_seconds_a_round']:.2f})"
                for row in lines[line]
            ]
            console.print(f"{line}, ms a round (of the processor): {', '.join(shown)}", soft_wrap=True)
    (arguments.out / "images").mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"where": where, "lines": lines}, indent=1) + "\n", "utf-8")
    draw(lines, f"noshow: what a round costs as one size grows ({where})").savefig(
        arguments.out / "images" / "growth.png", dpi=110
    )
    print(tables(lines))


if __name__ == "__main__":
    main()
