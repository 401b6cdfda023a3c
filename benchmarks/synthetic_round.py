"""Synthetic(1,1) under the shadow adversary: noshow against a plain loop over clients, in one run.

    python benchmarks/synthetic_round.py            (or: make bench)

The loops are what most people write: client after client, step after step, in NumPy, and in PyTorch where it is
installed. All play the same responders and must end at the same model before anything is timed. Then they take
turns, several times, so that noise on the machine hits all alike.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from rich.console import Console
from rich.table import Table

import noshow as ns
from noshow.display import display_for
from noshow.run import run
from noshow.spec_file import load
from noshow.store import RunFolder

RATE, STEPS, SAMPLED, EPSILON = 0.01, 25, 10, 0.9


def numpy_loop(federation: ns.Federation, responders: list[list[int]]) -> np.ndarray:
    """FedAvg variant, client after client, in float32 NumPy."""
    theta = np.zeros((10, 61), np.float32)
    gain = federation.clients / SAMPLED
    data = [federation.of_client(i) for i in range(federation.clients)]
    inputs = [np.hstack([x, np.ones((len(x), 1), np.float32)]) for x, _ in data]
    targets = [np.eye(10, dtype=np.float32)[y] for _, y in data]
    for clients in responders:
        total = np.zeros_like(theta)
        for i in clients:
            z = theta.copy()
            for _ in range(STEPS):
                logits = inputs[i] @ z.T
                shares = np.exp(logits - logits.max(axis=1, keepdims=True))
                shares /= shares.sum(axis=1, keepdims=True)
                z -= RATE * ((shares - targets[i]).T @ inputs[i]) / len(inputs[i])
            total += federation.weights[i] * (z - theta)
        theta = theta + gain * total
    return np.concatenate([theta[:, 60], theta[:, :60].ravel()])


def torch_loop(federation: ns.Federation, responders: list[list[int]]) -> np.ndarray:
    """FedAvg variant, client after client, with PyTorch's modules and optimiser."""
    import copy

    import torch

    server = torch.nn.Linear(60, 10)
    torch.nn.init.zeros_(server.weight)
    torch.nn.init.zeros_(server.bias)
    data = [tuple(map(torch.from_numpy, federation.of_client(i))) for i in range(federation.clients)]
    gain = federation.clients / SAMPLED
    for clients in responders:
        total = [torch.zeros_like(p) for p in server.parameters()]
        for i in clients:
            x, y = data[i]
            model = copy.deepcopy(server)
            optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
            for _ in range(STEPS):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y.long()).backward()
                optimiser.step()
            for t, new, old in zip(total, model.parameters(), server.parameters(), strict=True):
                t += float(federation.weights[i]) * (new.detach() - old.detach())
        with torch.no_grad():
            for p, t in zip(server.parameters(), total, strict=True):
                p += gain * t
    return np.concatenate([server.bias.detach().numpy(), server.weight.detach().numpy().ravel()])


def noshow_rounds(federation: ns.Federation, adversary: ns.Adversary, rounds: int) -> ns.History:
    variant = ns.algorithms.fedavg_variant(RATE, steps=STEPS)
    return ns.simulate(
        federation,
        ns.models.logistic(),
        variant,
        adversary,
        sampled=SAMPLED,
        epsilon=EPSILON,
        rounds=rounds,
        evaluate_every=rounds,
    )


def a_round(call: Callable[[], object], rounds: int) -> float:
    """Milliseconds a round."""
    begun = time.perf_counter()
    result = call()
    whole = time.perf_counter() - begun
    compiling = result.seconds_preparing if isinstance(result, ns.History) else 0.0
    return 1000 * (whole - compiling) / rounds


def versus(console: Console, rounds: int, repeats: int) -> None:
    federation = ns.datasets.synthetic(1, 1)
    shadow = ns.adversaries.shadow(ns.algorithms.fedavg(RATE, steps=STEPS), ns.algorithms.cclip(RATE))
    history = noshow_rounds(federation, shadow, rounds)
    responders = [history.roll_call.responders(0, t).tolist() for t in range(rounds)]
    contestants: dict[str, Callable[[], object]] = {
        "noshow": lambda: noshow_rounds(federation, shadow, rounds),
        "NumPy, client after client": lambda: numpy_loop(federation, responders),
    }
    try:
        import torch

        contestants[f"PyTorch {torch.__version__}, client after client"] = lambda: torch_loop(federation, responders)
    except ImportError:
        console.print("PyTorch is not installed here: its loop is left out")

    ours = np.asarray(ravel_pytree(history.models[0])[0], np.float64)
    for name, call in contestants.items():
        theirs = call()
        if isinstance(theirs, np.ndarray):
            apart = float(np.linalg.norm(theirs - ours) / np.linalg.norm(ours))
            console.print(f"{name}: the same model to {apart:.1e}")
            if apart > 1e-3:
                raise SystemExit(f"{name} does other work than noshow: nothing was timed")

    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, call in contestants.items():
            times[name].append(a_round(call, rounds))
    table = Table("", "ms a round", "lowest – highest", "times noshow", title="FedAvg variant, training only")
    for name, values in times.items():
        ratios = [value / own for value, own in zip(values, times["noshow"], strict=True)]
        table.add_row(
            name,
            f"{statistics.median(values):.2f}",
            f"{min(values):.2f} – {max(values):.2f}",
            f"{statistics.median(ratios):.1f} ({min(ratios):.1f} – {max(ratios):.1f})",
        )
    console.print(table)


def whole(console: Console) -> None:
    spec = load("synthetic-0.9")
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        with display_for(console) as display:
            histories = run(spec, RunFolder.of(spec, Path(folder) / "run"), display)
        seconds = time.perf_counter() - begun
    table = Table("algorithm", "ms a round, evaluation included", "seconds")
    for history in histories:
        ms = 1000 * (history.seconds - history.seconds_preparing) / spec.rounds
        table.add_row(history.algorithm, f"{ms:.2f}", f"{history.seconds:.1f}")
    console.print(table)
    console.print(
        f"synthetic-0.9 whole, {spec.rounds} rounds, nine algorithms, auxiliary runs included: {seconds:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--skip-whole", action="store_true", help="leave out the whole preset, over a minute")
    arguments = parser.parse_args()
    console = Console()
    described = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    commit = described.stdout.strip() or "no git"
    now = datetime.now(UTC).isoformat(timespec="minutes")
    console.print(f"{now}, commit {commit}, {platform.machine()}, {os.cpu_count()} cores, JAX {jax.__version__}")
    versus(console, arguments.rounds, arguments.repeats)
    if not arguments.skip_whole:
        whole(console)


if __name__ == "__main__":
    main()
