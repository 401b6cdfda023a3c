"""What an aggregator makes of a server's memory: one step, in the simulator and on a live federation."""

from __future__ import annotations

from noshow.contracts import Aggregator, Key, Memory, Vector, Weights
from noshow.errors import require
from noshow.width import reads_narrow, widen


def recalled(aggregator: Aggregator, state: Memory, weights: Weights, key: Key) -> Vector:
    """The aggregate of what all clients said last [M, d], as it is kept.

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> last = jnp.array([[0.0, 4.0], [4.0, 0.0]])
        >>> recalled(ns.aggregators.mean(), last, jnp.array([0.5, 0.5]), jax.random.key(0)).tolist()
        [2.0, 2.0]
    """
    points = state if reads_narrow(aggregator) else widen(state)
    point = aggregator(points, weights, key)
    found, wanted = getattr(point, "shape", None), points.shape[1:]
    require(
        found == wanted,
        f"the aggregator returned {'no array' if found is None else f'shape {list(found)}'}: it must return one "
        f"point {list(wanted)} for points {list(points.shape)} and weights {list(points.shape[:1])}",
    )
    return point
