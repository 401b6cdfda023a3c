"""What compiling leaves behind in JAX itself: many small programs, none of noshow's, and caches cleared after every 20.

First the same shape is compiled again and again, then ever other ones: JAX keeps something of every shape that it sees.

python benchmarks/compile_growth.py
"""

from __future__ import annotations

import argparse
import ctypes
import gc
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import psutil

PROGRAMS_REMEMBERED = 20


def program(rows: int) -> None:
    """A loop of a few steps on arrays of a shape of its own."""

    def step(state: jax.Array, _: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.tanh(state @ state.T @ state), state.sum()

    jax.block_until_ready(jax.jit(lambda x: jax.lax.scan(step, x, jnp.arange(5)))(jnp.ones((rows, 7))))


def held() -> int:
    """Bytes that the process holds once all that can be given back is given back."""
    jax.clear_caches()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


def floors(rows: Sequence[int]) -> tuple[float, float]:
    """MiB that are held after a quarter of the programs, which warms up, and after all of them."""
    seen = []
    for number, count in enumerate(rows, start=1):
        program(count)
        if number % PROGRAMS_REMEMBERED == 0:
            seen.append(held() / 2**20)
    return seen[len(seen) // 4 - 1], seen[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=400)
    asked = parser.parse_args()
    for shapes, rows in (("the same shape", [7] * asked.programs), ("other shapes", range(8, 8 + asked.programs))):
        quarter, whole = floors(rows)
        a_program = (whole - quarter) / (0.75 * asked.programs)
        then = f"{whole:.1f} after {asked.programs}: {1024 * a_program:.0f} KiB a program"
        print(f"{shapes}: {quarter:.1f} MiB after {asked.programs // 4} programs, {then}")


if __name__ == "__main__":
    main()
