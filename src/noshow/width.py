"""How wide the numbers are that clients and servers remember between rounds; what is computed with them is float32.

Narrow numbers are bfloat16, kept as their bits in uint16: XLA's CPU compiler widens a whole array of bfloat16 before it
reads or writes a few rows of it, and the wide copy would take more memory than being narrow saves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar, get_args

import jax
import jax.numpy as jnp
from jax import lax

from noshow.contracts import Aggregator, Array, Points, Weights
from noshow.devices import on_cpu
from noshow.errors import require
from noshow.marks import mark, marked

Width = Literal["float32", "bfloat16"]
"""Not float16: a gradient above 65504 would become infinite."""
Rule = TypeVar("Rule", bound=Aggregator)
Sums = TypeVar("Sums")


def check_width(memory: Width | None) -> None:
    """Raise unless numbers can be kept so; no array is made, so that JAX need not start yet.

    Example:
        >>> check_width("bfloat16")
    """
    require(
        memory is None or memory in get_args(Width),
        f"memory is {memory!r}: give 'bfloat16', or leave it out for float32",
    )


def remembered(shape: tuple[int, ...], memory: Width | None) -> Array:
    """Zeros to remember numbers in, float32 if `memory` is left out.

    Example:
        >>> remembered((3, 4), None).nbytes, remembered((3, 4), "bfloat16").nbytes
        (48, 24)
    """
    check_width(memory)
    return jnp.zeros(shape, jnp.uint16 if memory == "bfloat16" else jnp.float32)


def is_narrow(kept: Array) -> bool:
    """Whether these are the bits of narrow numbers."""
    return bool(kept.dtype == jnp.uint16)


def widen(kept: Array) -> Array:
    """Remembered numbers as float32.

    Example:
        >>> import jax.numpy as jnp
        >>> widen(as_kept(jnp.array([1.0, 1.001, -3.0]), remembered((3,), "bfloat16"))).tolist()
        [1.0, 1.0, -3.0]
    """
    return lax.bitcast_convert_type(kept.astype(jnp.uint32) << 16, jnp.float32) if is_narrow(kept) else kept


def as_kept(values: Array, kept: Array) -> Array:
    """Float32 numbers, rounded to be kept beside the others in `kept`."""
    return lax.bitcast_convert_type(values.astype(jnp.bfloat16), jnp.uint16) if is_narrow(kept) else values


BLOCK = 2**18
"""Numbers that are read at once: what a CPU's second-level cache holds."""


def over_rows(function: Callable[[Points, Weights], Sums], points: Points, weights: Weights) -> Sums:
    """function(points, weights), where it adds up over rows: a block of rows at a time, while it is in the cache.

    An accelerator takes all rows at once, except narrow ones: those are widened block by block.

    Example:
        >>> import jax.numpy as jnp
        >>> over_rows(lambda x, w: w @ x, jnp.array([[1.0], [2.0]]), jnp.array([3.0, 4.0])).tolist()
        [11.0]
    """
    m, d = points.shape
    rows = min(m, max(1, BLOCK // d))
    if rows == m or not (is_narrow(points) or on_cpu()):
        return function(widen(points), weights)

    def add(block: Array, so_far: Sums) -> Sums:
        start = jnp.minimum(block * rows, m - rows)
        new = start + jnp.arange(rows) >= block * rows  # the last block repeats rows of the one before
        x = widen(lax.dynamic_slice_in_dim(points, start, rows))
        w = jnp.where(new, lax.dynamic_slice_in_dim(weights, start, rows), 0.0)
        return jax.tree.map(jnp.add, so_far, function(x, w))

    shapes = jax.eval_shape(function, jnp.zeros((rows, d)), jnp.zeros(rows))
    return lax.fori_loop(0, -(-m // rows), add, jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes))


def reading_narrow(rule: Rule) -> Rule:
    """Mark a rule that widens narrow points itself."""
    return mark(rule, "reads_narrow", True)


def reads_narrow(rule: Aggregator) -> bool:
    """Whether this rule takes narrow points as they are kept.

    Example:
        >>> import noshow as ns
        >>> reads_narrow(ns.aggregators.mean()), reads_narrow(ns.aggregators.krum())
        (True, False)
    """
    return bool(marked(rule, "reads_narrow"))
