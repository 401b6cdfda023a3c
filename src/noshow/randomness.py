"""Where randomness comes from: keys are functions of (seed, round, purpose), never of call order.

So two algorithms with one seed see the same samples, batches and silences.
"""

from __future__ import annotations

from enum import IntEnum

import jax
import jax.numpy as jnp
from jax import lax

from noshow.contracts import Array, Key


class Purpose(IntEnum):
    """What a key is for. The numbers are part of every result: never renumber, only add."""

    SAMPLE = 0
    ADVERSARY = 1
    TIES = 2
    BATCHES = 3
    SERVER = 4
    MODEL = 5
    PREPARE = 6
    ITERATE = 7


def round_key(seed: int | Array, t: int | Array, purpose: Purpose) -> Key:
    """The key of one purpose in round t of the run with this seed."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), t), purpose)


def run_key(seed: int | Array, purpose: Purpose) -> Key:
    """The key of a purpose that comes once a run, before round 0."""
    return jax.random.fold_in(jax.random.key(seed), 2**31 + purpose)


FEISTEL_ROUNDS = 16
"""8 leave a bias on small grids that a chi-square test sees in a million draws of 2 from 5; 16 leave none."""


def without_replacement(key: Key, n: int | Array, k: int) -> Array:
    """k distinct numbers of 0 … n-1 in random order, in time and memory O(k) whatever n is.

    Takes the first k values of a keyed pseudo-random permutation of n numbers: an alternating Feistel network
    on a grid a x b that just covers n, walked again from any cell outside (J. Black and P. Rogaway, *Ciphers
    with arbitrary finite domains*, 2002). No sort, no array of length n, and n may be a traced value.
    Where n < k, the places from n on repeat numbers, and callers mask them.

    Example:
        >>> import jax
        >>> hand = without_replacement(jax.random.key(0), 52, 5)
        >>> len(set(hand.tolist()))
        5
    """
    count = jnp.maximum(jnp.asarray(n, jnp.uint32), 1)
    rows = jnp.maximum(jnp.ceil(jnp.sqrt(count.astype(jnp.float32))).astype(jnp.uint32), 1)
    columns = (count + rows - 1) // rows
    words = jax.random.bits(key, (FEISTEL_ROUNDS,), jnp.uint32)

    def shuffle(cell: Array) -> Array:
        row, column = cell // columns, cell % columns
        for turn in range(0, FEISTEL_ROUNDS, 2):
            row = (row + _mix(column ^ words[turn]) % rows) % rows
            column = (column + _mix(row ^ words[turn + 1]) % columns) % columns
        return row * columns + column

    def walk(cell: Array) -> Array:
        return jnp.where(cell >= count, shuffle(cell), cell)

    start = jnp.arange(k, dtype=jnp.uint32) % count
    drawn = lax.while_loop(lambda cell: jnp.any(cell >= count), walk, shuffle(start))
    return drawn.astype(jnp.int32)


def _mix(word: Array) -> Array:
    """A 32-bit hash: every input bit sways every output bit (the finaliser of MurmurHash3)."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
