"""What a server remembers of its clients, as clients join and leave, and as it is kept on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from noshow.contracts import Memory, Server
from noshow.errors import NoshowError


def by_client(server: Server, d: int) -> list[bool]:
    """For each array of the server's memory, whether it has one row a client.

    Example:
        >>> import noshow as ns
        >>> by_client(ns.servers.remember(ns.aggregators.mean()), 5), by_client(ns.servers.average(), 5)
        ([True], [])
    """
    few, more = (jax.tree.leaves(jax.eval_shape(lambda m=m: server.init(d, m))) for m in (2, 3))
    rows: list[bool] = []
    for small, large in zip(few, more, strict=True):
        if small.shape != large.shape and (small.shape[:1], small.shape[1:]) != ((2,), large.shape[1:]):
            raise NoshowError(
                f"the server's memory grows from {list(small.shape)} to {list(large.shape)} with a client: "
                "give it one row a client, clients first"
            )
        rows.append(small.shape != large.shape)
    return rows


def carried(server: Server, d: int, state: Memory, before: Sequence[int], now: Sequence[int]) -> Memory:
    """The memory for those who are registered `now`: newcomers' rows are as at the start, and leavers' are gone.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> rule = ns.servers.remember(ns.aggregators.mean())
        >>> carried(rule, 1, jnp.array([[1.0], [2.0]]), before=[7, 8], now=[8, 9]).tolist()
        [[2.0], [0.0]]
    """
    places = {number: place for place, number in enumerate(before)}
    stayed = [(place, places[number]) for place, number in enumerate(now) if number in places]
    to, origin = (np.array(ends, int) for ends in (zip(*stayed, strict=True) if stayed else ([], [])))
    fresh, tree = jax.tree.flatten(server.init(d, len(now)))
    moved = [
        new.at[to].set(old[origin]) if rows else old
        for new, old, rows in zip(fresh, jax.tree.leaves(state), by_client(server, d), strict=True)
    ]
    return jax.tree.unflatten(tree, moved)


def pieces(server: Server, d: int, state: Memory, numbers: Sequence[int]) -> dict[tuple[int, int], np.ndarray]:
    """The memory in pieces to keep: (array, client's number) -> row; shared arrays are nobody's, number 0."""
    kept: dict[tuple[int, int], np.ndarray] = {}
    for place, (leaf, rows) in enumerate(zip(jax.tree.leaves(state), by_client(server, d), strict=True)):
        values = np.asarray(leaf)
        if rows:
            kept |= {(place, number): values[row] for row, number in enumerate(numbers)}
        else:
            kept[place, 0] = values
    return kept


def changed(
    before: dict[tuple[int, int], np.ndarray], now: dict[tuple[int, int], np.ndarray]
) -> dict[tuple[int, int], np.ndarray]:
    """The pieces that are not as they were, bit for bit."""
    return {
        key: piece
        for key, piece in now.items()
        if key not in before or not np.array_equal(_bits(before[key]), _bits(piece))
    }


def assembled(server: Server, d: int, kept: Mapping[tuple[int, int], bytes], numbers: Sequence[int]) -> Memory:
    """The memory of pieces that were kept as bytes; where one is missing it is as at the start."""
    fresh, tree = jax.tree.flatten(server.init(d, len(numbers)))
    leaves = []
    for place, (leaf, rows) in enumerate(zip(fresh, by_client(server, d), strict=True)):
        values = np.array(leaf)
        for row, number in enumerate(numbers) if rows else [(..., 0)]:
            if (place, number) in kept:
                values[row] = np.frombuffer(kept[place, number], values.dtype).reshape(values[row].shape)
        leaves.append(jnp.asarray(values))
    return jax.tree.unflatten(tree, leaves)


def raw(values: np.ndarray) -> memoryview:
    """An array's bytes, where they lie: NumPy gives no view of bfloat16.

    Example:
        >>> raw(np.array(jnp.ones(2, jnp.bfloat16))).nbytes
        4
    """
    return np.ascontiguousarray(values).view(np.uint8).data


def _bits(values: np.ndarray) -> np.ndarray:
    """The numbers as whole ones of their width: NaN then equals itself, and 0 is not -0."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
