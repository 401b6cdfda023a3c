"""What compiling leaves behind in JAX itself: many small programs, none of noshow's, and caches cleared after every 20.

python benchmarks/compile_growth.py
"""

from __future__ import annotations

import argparse
import ctypes
import gc

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=200)
    asked = parser.parse_args()
    floors = []
    for number in range(1, asked.programs + 1):
        program(number)
        if number % PROGRAMS_REMEMBERED == 0:
            floors.append(held())
    first, last = floors[0] / 2**20, floors[-1] / 2**20
    a_program = (last - first) / (asked.programs - PROGRAMS_REMEMBERED)
    then = f"{last:.1f} after {asked.programs}: {1024 * a_program:.0f} KiB a program"
    print(f"{first:.1f} MiB after the first {PROGRAMS_REMEMBERED} programs, {then}")


if __name__ == "__main__":
    main()
