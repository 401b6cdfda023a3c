"""What an aggregator makes of a server's memory: one step, in the simulator and on a live federation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from noshow.contracts import Aggregator, Key, Memory, Server, Vector, Weights
from noshow.errors import require
from noshow.marks import mark, marked
from noshow.width import reads_narrow, widen

Step = TypeVar("Step", bound=Callable[..., Any])


def recalling(step: Step, aggregator: Aggregator) -> Step:
    """Mark a server's step that takes rate times this aggregate of what clients said last off theta, and no more.

    The memory is a row [d] a client, its last direction, zeros before. A live federation may then take each reply into
    its row as it comes, instead of all of them at the end of the round.
    """
    return mark(step, "aggregator", aggregator)


def aggregator_of(server: Server) -> Aggregator | None:
    """What a server that is known to move by what clients said last takes of it.

    Example:
        >>> import noshow as ns
        >>> median = ns.aggregators.geometric_median()
        >>> aggregator_of(ns.servers.remember(median)) is median, aggregator_of(ns.servers.average())
        (True, None)
    """
    aggregator: Aggregator | None = marked(server.step, "aggregator")
    return aggregator


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
