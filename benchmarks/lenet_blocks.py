"""Milliseconds of a LeNet-5 SGD step on a batch of 100, by layout and block: what `noshow.models.lenet5` chose from.

python benchmarks/lenet_blocks.py [--clients 30] [--fresh]
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import noshow as ns
from noshow.devices import on_cpu
from noshow.models.scores import cross_entropy

lenet5 = importlib.import_module("noshow.models.lenet5")  # the module, which `ns.models.lenet5` hides
STEPS, BATCH, RATE, REPEATS = 25, 100, 0.05, 5
FIRST = (
    ((1, 4), (1, 5)),
    ((2, 4), (2, 2)),
    ((4, 4), (2, 5)),
    ((1, 14), (1, 10)),
    ((1, 28), (1, 10)),
    ((2, 28), (1, 10)),
    ((2, 28), (2, 10)),
    ((4, 28), (2, 10)),
)
LAST = (((2, 2), (2, 2)), ((2, 4), (2, 2)), ((4, 4), (2, 2)), ((2, 14), (2, 2)), ((2, 4), (2, 10)))


def examples_first(params: Any, x: Any, blocks: Any) -> Any:
    return lenet5.logits(params, lenet5.first_windows(x, blocks), blocks)


def examples_last(params: Any, x: Any, blocks: Any) -> Any:
    lenet5.CPU_BLOCKS = blocks
    return lenet5.logits_last(params, x)


def steps(forward: Callable[[Any, Any], Any], params: Any, x: Any, y: Any) -> Any:
    """STEPS steps on the batches x [B, n, 32, 32, 3] in turn; what is made of a single one is made once for all."""
    gradient = jax.grad(lambda params, x, y: cross_entropy(forward(params, x), y)[0].mean())

    def step(k: int, params: Any) -> Any:
        slope = gradient(params, x[k % len(x)], y[k % len(x)])
        return jax.tree.map(lambda p, g: p - RATE * g, params, slope)

    return lax.fori_loop(0, STEPS, step, params)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=1 if on_cpu() else 10)
    options.add_argument("--fresh", action="store_true", help="another batch in every step, not one for the round")
    asked = options.parse_args()
    rng = np.random.default_rng(0)
    batches = (asked.clients, 3 if asked.fresh else 1, BATCH)
    x = jnp.asarray(rng.normal(size=(*batches, 32, 32, 3)), jnp.float32)
    y = jnp.asarray(rng.integers(0, 10, batches), jnp.int32)
    params = jax.jit(jax.vmap(ns.models.lenet5().init))(jax.random.split(jax.random.key(0), asked.clients))
    ways = {f"examples first, {blocks}": partial(examples_first, blocks=blocks) for blocks in FIRST}
    ways |= {f"examples last, {blocks}": partial(examples_last, blocks=blocks) for blocks in LAST if on_cpu()}
    programs = {}
    for name, forward in ways.items():
        # One client a core, as noshow has it on a CPU; all at once on an accelerator.
        programs[name] = jax.jit(
            partial(lax.map if on_cpu() else _together, partial(_of_tuple, partial(steps, forward)))
        )
        jax.block_until_ready(programs[name]((params, x, y)))
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(REPEATS):
        for name, program in programs.items():
            begun = time.perf_counter()
            jax.block_until_ready(program((params, x, y)))
            times[name].append(1e3 * (time.perf_counter() - begun) / STEPS)
    print(f"ms a step of {asked.clients} client(s), median (lowest) of {REPEATS}")
    for name, values in sorted(times.items(), key=lambda entry: statistics.median(entry[1])):
        print(f"  {name:36s}{statistics.median(values):9.3f} ({min(values):.3f})")


def _of_tuple(function: Callable[..., Any], arrays: Any) -> Any:
    return function(*arrays)


def _together(function: Callable[[Any], Any], arrays: Any) -> Any:
    return jax.vmap(function)(arrays)


if __name__ == "__main__":
    main()
