"""One process with two devices against two processes with one device each: rounds a second, on one machine.

    python benchmarks/processes.py

FedAvg of `synthetic-0.9` (setting `published`, whose adversary needs no auxiliary runs): 10 of 100 clients sampled, 25
full-batch steps each. Both sides use the same two cores, take turns several times, and must end at the same model.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime

import jax
import numpy as np

import noshow as ns

WARM, CHUNK = 30, 15


def measure(rounds: int) -> tuple[float, float]:
    """Rounds a second after some to warm up, and the length of the final model."""
    from noshow import spec_file
    from noshow.spec import realise

    spec = spec_file.load("synthetic-0.9", [f"rounds={WARM + rounds}"], "published")
    parts = realise(spec)
    run = ns.Simulation(
        parts.federation,
        parts.model,
        parts.algorithms[spec.labels.index("fedavg")],
        parts.adversary,
        **spec.run_settings("fedavg") | {"evaluate_every": CHUNK},
    )
    while run.t < WARM:
        run.advance()
    begun = time.perf_counter()
    while not run.done:
        run.advance()
    return rounds / (time.perf_counter() - begun), float(np.linalg.norm(run.thetas))


def work(rounds: int, coordinator: str, processes: int, process: int) -> None:
    """One process of a turn."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    own = cores if processes == 1 else [cores[process % len(cores)]]
    os.sched_setaffinity(0, own)
    jax.config.update("jax_num_cpu_devices", len(own))
    if processes > 1:
        ns.distributed.join(coordinator, processes, process)
    print(json.dumps(measure(rounds)))


def turn(processes: int, rounds: int) -> tuple[float, float]:
    """What the first of so many processes measures."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--work", str(rounds), coordinator, str(processes), str(process)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for process in range(processes)
    ]
    said = [process.communicate()[0] for process in started]
    speed, length = json.loads(said[0].splitlines()[-1])
    return speed, length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=600, help="rounds that are timed")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        rounds, coordinator, processes, process = asked.work
        work(int(rounds), coordinator, int(processes), int(process))
        return
    print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    turns = [(turn(1, asked.rounds), turn(2, asked.rounds)) for _ in range(asked.turns)]
    for one, two in turns:
        np.testing.assert_allclose(one[1], two[1], rtol=1e-4)
    one, two = (statistics.median(speeds) for speeds in zip(*((a[0], b[0]) for a, b in turns), strict=True))
    ratio = statistics.median(b[0] / a[0] for a, b in turns)
    print(f"one process, two devices:          {one:7.1f} rounds/s")
    print(f"two processes, one device each:    {two:7.1f} rounds/s, {ratio:.2f} times as many")


if __name__ == "__main__":
    main()
