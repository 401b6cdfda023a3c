"""The paper's CIFAR-10 round, 10 clients x 25 steps x batch 100 of LeNet-5: noshow against PyTorch, in one run.

    python benchmarks/lenet_round.py                (all of 10 clients trained; random images, since only speed counts)
    python benchmarks/lenet_round.py --compare      (one step, by convolution and block)

PyTorch, where it is installed, trains client after client, and, on a CPU, also one client a thread. Before anything is
timed, all must end at the same model after a round on the same batches. Then they take turns, several times, so that
noise on the machine hits all alike. Evaluation is left out of noshow's times.
"""

from __future__ import annotations

import argparse
import copy
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import noshow as ns
from noshow.devices import on_cpu
from noshow.models.convolution import Block
from noshow.models.lenet5 import first_windows, lenet5, logits, pool
from noshow.models.scores import cross_entropy

CLIENTS, HELD, SAMPLED, STEPS, BATCH, RATE = 100, 500, 10, 25, 100, 0.05
Sets = list[tuple[Any, Any]]


def normalised(shared: None, rows: tuple[Any, Any]) -> tuple[Any, Any]:
    images, labels = rows
    return (images.astype(jnp.float32) - 127.5) / 64.0, labels


def fake_cifar(held: int) -> ns.Federation:
    rng = np.random.default_rng(0)

    def examples(count: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, 256, (count, 32, 32, 3), np.uint8), rng.integers(0, 10, count, np.int32)

    return ns.Federation(examples(CLIENTS * held), np.full(CLIENTS, held), examples(100), read=normalised)


def play(federation: ns.Federation, rounds: int, **settings: Any) -> ns.History:
    fedavg = ns.algorithms.fedavg(RATE, steps=STEPS)
    return ns.simulate(federation, lenet5(), fedavg, sampled=SAMPLED, rounds=rounds, **settings)


def timed_rounds(federation: ns.Federation, rounds: int) -> float:
    """Seconds a round: `rounds` rounds and an evaluation, less one round and an evaluation."""
    seen: list[float] = []
    play(federation, rounds + 1, evaluate_every=rounds, watch=lambda t, metrics: seen.append(time.perf_counter()))
    many, one = np.diff(seen)
    return float(many - one) / (rounds - 1)


class TorchRounds:
    """FedAvg with PyTorch's modules and optimiser."""

    def __init__(self, params: Any, device: str) -> None:
        import torch

        self.torch, self.device = torch, device
        nn = torch.nn
        # Pool before ReLU: the same numbers, and faster there too.
        self.net = nn.Sequential(
            *(nn.Conv2d(3, 6, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        ).to(device)
        with torch.no_grad():
            for p, ours in zip(self.net.parameters(), _as_torch(params), strict=True):
                p.copy_(torch.from_numpy(ours))

    def tensors(self, x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        pixels = self.torch.from_numpy(x.transpose(0, 3, 1, 2).copy())
        return pixels.to(self.device), self.torch.from_numpy(y).long().to(self.device)

    def client(self, batches: Iterator[tuple[Any, Any]]) -> list[Any]:
        model = copy.deepcopy(self.net)
        optimiser = self.torch.optim.SGD(model.parameters(), lr=RATE)
        for x, y in batches:
            optimiser.zero_grad()
            self.torch.nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
        return [p.detach() for p in model.parameters()]

    def round(self, draws: list[Iterator[tuple[Any, Any]]], threads: int) -> None:
        if threads == 1:
            models = [self.client(batches) for batches in draws]
        else:
            with ThreadPoolExecutor(threads) as workers:
                models = list(workers.map(self.client, draws))
        with self.torch.no_grad():
            for p, *new in zip(self.net.parameters(), *models, strict=True):
                p.copy_(self.torch.stack(new).mean(0))
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def drawn(self, data: tuple[Any, Any], batches: str) -> Iterator[tuple[Any, Any]]:
        x, y = data
        chosen = self.torch.randperm(len(y), device=self.device)[:BATCH]
        for _ in range(STEPS):
            if batches == "step":
                chosen = self.torch.randperm(len(y), device=self.device)[:BATCH]
            yield x[chosen], y[chosen]


def _as_torch(params: Any) -> Iterator[np.ndarray]:
    """Our parameters in PyTorch's order and layout."""
    for name in ("conv1", "conv2", "dense1", "dense2", "dense3"):
        weights = np.asarray(params[name]["weights"])
        if name == "dense1":
            weights = weights.reshape(5, 5, 16, 120).transpose(2, 0, 1, 3).reshape(400, 120)
        yield (weights.transpose(3, 2, 0, 1) if weights.ndim == 4 else weights.T).copy()
        yield np.asarray(params[name]["bias"]).copy()


def check(device: str) -> None:
    """One round on clients of one batch each: PyTorch and noshow must end at the same model, without tf32."""
    import torch

    federation = fake_cifar(BATCH)
    torch.backends.cudnn.allow_tf32 = False
    with jax.default_matmul_precision("highest"):
        history = play(federation, 1)
    start = play(federation, 0).models[0]
    rounds = TorchRounds(start, device)
    ids = history.roll_call.responders(0, 0).tolist()
    sets = [rounds.tensors(*map(np.asarray, federation.of_client(i))) for i in ids]
    rounds.round([iter([data] * STEPS) for data in sets], 1)
    theirs = np.concatenate([p.detach().cpu().numpy().ravel() for p in rounds.net.parameters()])
    ours, first = (np.concatenate([p.ravel() for p in _as_torch(params)]) for params in (history.models[0], start))
    apart = float(np.linalg.norm(theirs - ours) / np.linalg.norm(ours - first))
    print(f"PyTorch's round ends at the same model to {apart:.1e} of the way gone")
    # 25 steps through ReLUs and maxima magnify rounding: PyTorch in double precision is as far from itself in single.
    if apart > 1e-2:
        raise SystemExit("PyTorch does other work than noshow: nothing was timed")


def versus(rounds: int, repeats: int) -> None:
    federation = fake_cifar(HELD)
    contestants: dict[str, Callable[[Any], float]] = {
        "noshow": lambda batches: timed_rounds(federation.drawing(batches, BATCH), rounds)
    }
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed here: its loop is left out")
    else:
        device = "cuda" if not on_cpu() and torch.cuda.is_available() else "cpu"
        check(device)
        torch.backends.cudnn.allow_tf32 = True
        torch.set_float32_matmul_precision("high")  # tf32 on GPUs, as JAX does by default
        cores = torch.get_num_threads()
        loop = TorchRounds(lenet5().init(jax.random.key(0)), device)
        sets = [loop.tensors(*map(np.asarray, federation.of_client(i))) for i in range(SAMPLED)]

        def timed(batches: str, threads: int) -> float:
            torch.set_num_threads(cores if threads == 1 else 1)
            begun = time.perf_counter()
            for _ in range(rounds):
                loop.round([loop.drawn(data, batches) for data in sets], threads)
            return (time.perf_counter() - begun) / rounds

        contestants[f"PyTorch {torch.__version__}, client after client"] = partial(timed, threads=1)
        if device == "cpu" and cores > 1:
            contestants[f"PyTorch {torch.__version__}, a thread a client"] = partial(timed, threads=cores)

    for batches in ("round", "step"):
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(repeats):
            for name, call in contestants.items():
                times[name].append(call(batches))
        print(
            f'\nms a round, batches="{batches}", {rounds} rounds, median (lowest – highest) of {repeats}; times noshow'
        )
        for name, values in times.items():
            ratios = [value / own for value, own in zip(values, times["noshow"], strict=True)]
            middle, low, high = 1e3 * statistics.median(values), 1e3 * min(values), 1e3 * max(values)
            spread = f"{min(ratios):.2f} – {max(ratios):.2f}"
            print(f"  {name:42s}{middle:9.1f} ({low:.1f} – {high:.1f}){statistics.median(ratios):8.2f} ({spread})")


def library_logits(params: Any, x: Any) -> Any:
    """The same network on JAX's own convolution."""
    for name in ("conv1", "conv2"):
        made = lax.conv_general_dilated(
            x, params[name]["weights"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(pool(made) + params[name]["bias"])
    x = x.reshape(x.shape[0], -1)
    for name in ("dense1", "dense2"):
        x = jax.nn.relu(x @ params[name]["weights"] + params[name]["bias"])
    return x @ params["dense3"]["weights"] + params["dense3"]["bias"]


def compare(repeats: int) -> None:
    """Milliseconds of one SGD step, by convolution: clients side by side on an accelerator, one client on a CPU."""
    clients = 1 if on_cpu() else SAMPLED
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(clients, BATCH, 32, 32, 3)), jnp.float32)
    y = jnp.asarray(rng.integers(0, 10, (clients, BATCH)), jnp.int32)
    params = jax.jit(jax.vmap(lenet5().init))(jax.random.split(jax.random.key(0), clients))

    def steps(forward: Callable[[Any, Any], Any], params: Any, x: Any, y: Any) -> Any:
        gradient = jax.grad(lambda params: cross_entropy(forward(params, x), y)[0].mean())
        return lax.fori_loop(
            0, STEPS, lambda k, params: jax.tree.map(lambda p, g: p - RATE * g, params, gradient(params)), params
        )

    blocks: list[tuple[Block, Block]] = [
        *(((1, 4), (1, 5)), ((2, 2), (2, 2)), ((2, 4), (2, 2)), ((4, 4), (2, 2)), ((2, 4), (2, 5)), ((4, 4), (2, 5))),
        *(((1, 14), (1, 10)), ((1, 28), (1, 10)), ((2, 14), (2, 10)), ((2, 28), (2, 10)), ((1, 28), (2, 10))),
    ]

    def blocked(params: Any, x: Any, blocks: tuple[Block, Block]) -> Any:
        return logits(params, first_windows(x, blocks), blocks)

    ways: dict[str, Callable[[Any, Any], Any]] = {f"blocks {b[0]}, {b[1]}": partial(blocked, blocks=b) for b in blocks}
    if not on_cpu():  # 20 times slower there, and no reason to wait for it
        ways["lax.conv_general_dilated"] = library_logits
    programs = {}
    for name, forward in ways.items():
        one = partial(steps, forward)
        programs[name] = jax.jit(jax.vmap(one) if clients > 1 else lambda p, x, y, one=one: one(*_first((p, x, y))))
        jax.block_until_ready(programs[name](params, x, y))
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            begun = time.perf_counter()
            jax.block_until_ready(program(params, x, y))
            times[name].append(1e3 * (time.perf_counter() - begun) / STEPS)
    print(f"ms a step of {clients} client(s), median (lowest) of {repeats}")
    for name, values in sorted(times.items(), key=lambda entry: statistics.median(entry[1])):
        print(f"  {name:32s}{statistics.median(values):9.3f} ({min(values):.3f})")


def _first(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], tree)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=4 if on_cpu() else 50, help="2 or more")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compare", action="store_true", help="time one step by convolution and block instead")
    arguments = parser.parse_args()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{platform.machine()}, {os.cpu_count()} cores{load}, {jax.devices()[0].device_kind}, JAX {jax.__version__}")
    if arguments.compare:
        compare(arguments.repeats)
    else:
        versus(arguments.rounds, arguments.repeats)


if __name__ == "__main__":
    main()
