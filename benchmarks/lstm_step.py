"""One SGD step of the Shakespeare model on every client: noshow's hoisted LSTM against the plain loop and PyTorch.

    python benchmarks/lstm_step.py

20 clients x batch 500 x 80 characters on an accelerator, side by side; 4 x 50 x 80 on a CPU, clients shared out over
the cores. All must take the same step before anything is timed. Then they take turns, several times, so that noise on
the machine hits all alike.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from noshow.devices import AXIS, mesh_for, on_cpu
from noshow.models.char_lstm import char_lstm, logits
from noshow.models.scores import cross_entropy

VOCABULARY, CHARACTERS, RATE = 80, 80, 1.0


def plain_logits(params: Any, x: Any) -> Any:
    """The textbook loop, input product included, with autodiff's gradient."""

    def layer(weights: Any, inputs: Any) -> Any:
        def step(state: Any, now: Any) -> Any:
            hidden, cell = state
            gates = now @ weights["input"] + hidden @ weights["recurrent"] + weights["bias"]
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        nothing = jnp.zeros((inputs.shape[1], weights["recurrent"].shape[0]))
        return lax.scan(step, (nothing, nothing), inputs)[1]

    states = layer(params["lstm2"], layer(params["lstm1"], params["embedding"][x.T]))
    return states[-1] @ params["dense"]["weights"] + params["dense"]["bias"]


def stepper(forward: Callable[[Any, Any], Any], clients: int) -> Callable[..., Any]:
    """One step of all clients, compiled: side by side on an accelerator, one at a time on each CPU device."""

    def step(params: Any, x: Any, y: Any) -> Any:
        gradient = jax.grad(lambda params: cross_entropy(forward(params, x), y)[0].mean())(params)
        return jax.tree.map(lambda p, g: p - RATE * g, params, gradient)

    if not on_cpu():
        return jax.jit(jax.vmap(step))
    split = PartitionSpec(AXIS)

    def share(*arrays: Any) -> Any:
        return lax.map(lambda one: step(*one), arrays)

    return jax.jit(jax.shard_map(share, mesh=mesh_for(clients), in_specs=split, out_specs=split, check_vma=False))


def torch_step(params: Any, x: np.ndarray, y: np.ndarray, device: str, threads: int) -> Callable[[], list[Any]]:
    """The same step with PyTorch's modules, client after client, or one client a thread."""
    import torch

    nn = torch.nn

    def build(client: int) -> Any:
        own = jax.tree.map(lambda leaf: torch.from_numpy(np.asarray(leaf[client]).copy()), params)
        hidden = own["dense"]["weights"].shape[0]
        net = nn.ModuleList(
            [
                nn.Embedding(*own["embedding"].shape),
                nn.LSTM(own["embedding"].shape[1], hidden, num_layers=2, batch_first=True),
                nn.Linear(hidden, VOCABULARY),
            ]
        )
        layers = [
            tensor
            for name in ("lstm1", "lstm2")
            for tensor in (own[name]["input"].T, own[name]["recurrent"].T, own[name]["bias"], 0 * own[name]["bias"])
        ]
        with torch.no_grad():
            ordered = [own["embedding"], *layers, own["dense"]["weights"].T, own["dense"]["bias"]]
            for p, ours in zip(net.parameters(), ordered, strict=True):
                p.copy_(ours)
        return net.to(device)

    nets = [build(client) for client in range(len(x))]
    start = [[p.detach().clone() for p in net.parameters()] for net in nets]
    data = [
        (torch.from_numpy(a).long().to(device), torch.from_numpy(b).long().to(device))
        for a, b in zip(x, y, strict=True)
    ]

    def one(client: int) -> list[Any]:
        (embedding, lstm, dense), (texts, targets) = nets[client], data[client]
        with torch.no_grad():
            for p, first in zip(nets[client].parameters(), start[client], strict=True):
                p.copy_(first)
        optimiser = torch.optim.SGD(nets[client].parameters(), lr=RATE)
        optimiser.zero_grad()
        nn.functional.cross_entropy(dense(lstm(embedding(texts))[0][:, -1]), targets).backward()
        optimiser.step()
        return [p.detach() for p in nets[client].parameters()]

    def step() -> list[Any]:
        if threads == 1:
            models = [one(client) for client in range(len(x))]
        else:
            with ThreadPoolExecutor(threads) as workers:
                models = list(workers.map(one, range(len(x))))
        if device == "cuda":
            torch.cuda.synchronize()
        return models

    return step


def same(name: str, ours: Any, first: Any, theirs: Any) -> None:
    """Stop unless both have taken the same step."""
    gone, apart = np.linalg.norm(ours - first), np.linalg.norm(theirs - ours)
    print(f"{name}: the same step to {apart / gone:.1e} of its length")
    if apart > (1e-3 if on_cpu() else 5e-2) * gone:  # tf32 on GPUs
        raise SystemExit(f"{name} does other work: nothing was timed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clients", type=int, default=4 if on_cpu() else 20)
    parser.add_argument("--batch", type=int, default=50 if on_cpu() else 500)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    clients, batch = arguments.clients, arguments.batch
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{platform.machine()}, {os.cpu_count()} cores{load}, {jax.devices()[0].device_kind}, JAX {jax.__version__}")

    rng = np.random.default_rng(0)
    x = rng.integers(0, VOCABULARY, (clients, batch, CHARACTERS)).astype(np.int32)
    y = rng.integers(0, VOCABULARY, (clients, batch)).astype(np.int32)
    params = jax.jit(jax.vmap(char_lstm(VOCABULARY).init))(jax.random.split(jax.random.key(0), clients))
    arrays = jax.device_put((params, x, y), NamedSharding(mesh_for(clients), PartitionSpec(AXIS)))

    contestants: dict[str, Callable[[], Any]] = {}
    for name, forward in (("noshow, hoisted", logits), ("plain scan, autodiff", plain_logits)):
        contestants[name] = partial(lambda program: jax.block_until_ready(program(*arrays)), stepper(forward, clients))
    ours = contestants["noshow, hoisted"]()
    weights = [np.asarray(tree["lstm1"]["recurrent"]) for tree in (ours, params)]
    same("plain scan", *weights, np.asarray(contestants["plain scan, autodiff"]()["lstm1"]["recurrent"]))
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed here: it is left out")
    else:
        device = "cuda" if not on_cpu() and torch.cuda.is_available() else "cpu"
        cores = torch.get_num_threads()
        for threads in (1, cores) if device == "cpu" and cores > 1 else (1,):
            step = torch_step(params, x, y, device, threads)
            theirs = np.stack([model[2].T.cpu().numpy() for model in step()])
            name = f"PyTorch {torch.__version__}, " + ("client after client" if threads == 1 else "a thread a client")
            same(name, *weights, theirs)
            contestants[name] = partial(_with_threads, torch, cores if threads == 1 else 1, step)

    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(arguments.repeats):
        for name, call in contestants.items():
            begun = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - begun))
    print(f"ms a step of {clients} clients x {batch} x {CHARACTERS}, median (lowest – highest); times noshow")
    for name, values in times.items():
        ratio = statistics.median(v / own for v, own in zip(values, times["noshow, hoisted"], strict=True))
        print(f"  {name:42s}{statistics.median(values):9.1f} ({min(values):.1f} – {max(values):.1f}){ratio:8.2f}")


def _with_threads(torch: Any, threads: int, step: Callable[[], Any]) -> Any:
    torch.set_num_threads(threads)
    return step()


if __name__ == "__main__":
    main()
