"""A client's own objective in one round: batches are drawn and ragged data are tiled behind two functions.

A client asks for `gradient(theta, step)`; whether that reads one batch kept for the round, a fresh one, or its whole
data set, laid out for the round or in a loop, is settled here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from noshow.contracts import Array, Batch, Key, Model, Numbers, Vector, Weights
from noshow.devices import AXIS
from noshow.federation import Batches, Federation, Shared
from noshow.lengths import Length
from noshow.precision import weighted_sum
from noshow.randomness import without_replacement

CACHE_BYTES = 2**20

Losses = Callable[[Vector, Batch], Array]
"""(theta, batch) -> the loss of each example."""


class Holdings(NamedTuple):
    """A federation's arrays on the device. They are arguments of the compiled program, never constants in it."""

    data: Batch
    shared: Shared
    offsets: Numbers
    held: Numbers
    sizes: Numbers
    weights: Numbers


def holdings(federation: Federation) -> Holdings:
    """The arrays that clients read."""
    return Holdings(
        federation.data,
        federation.shared,
        federation.offsets,
        federation.held,
        federation.sizes,
        federation.weights,
    )


class Drawing(NamedTuple):
    """The settings of a federation's drawing that shape the program; batches that serve more than one gradient are
    `read_often`."""

    batches: Batches
    batch_size: int
    tile: int
    read: Callable[[Shared, Batch], Batch]
    read_often: Callable[[Shared, Batch], Batch]
    of_round: Callable[[Key, Batch], Batch] | None = None


def drawing(federation: Federation, model: Model, tile: int) -> Drawing:
    """How this federation's clients draw for this model; no batch is longer than the largest client's data."""
    longest = min(federation.batch_size or 0, int(federation.held.max()))

    def prepared(shared: Shared, rows: Batch) -> Batch:
        return model.prepare(federation.read(shared, rows))

    once = federation.read if model.brief else prepared
    return Drawing(federation.batches, longest, tile, once, prepared, federation.of_round)


def draw_batch(held: Array, batch_size: int, key: Key) -> tuple[Array, Weights]:
    """Which of its `held` examples a client draws, and their weights in the mean; n_i = min(held, batch_size)."""
    chosen = without_replacement(key, held, batch_size)
    drawn = jnp.minimum(held, batch_size)
    return chosen, (jnp.arange(batch_size) < drawn) / drawn.astype(jnp.float32)


def step_key(key: Key, batches: Batches, step: int | Array) -> Key:
    """The key of a local step's batch: the round's own for `"round"`, a fresh one for `"step"`."""
    return key if batches == "round" else jax.random.fold_in(key, step)


class ClientData:
    """The objective l_{i,t} of client i in round t, as `LocalData` asks for it."""

    def __init__(
        self,
        losses: Losses,
        drawing: Drawing,
        holdings: Holdings,
        client: Array,
        key: Key,
        sharers: int = 1,
        length: Length = None,
    ) -> None:
        """With `sharers` > 1, so many devices work on this client together, each on its share of a full batch.

        With a `length`, a full batch, or this device's share of it, is no longer than that, and is laid out once.
        """
        self._losses = losses
        self._drawing = drawing
        self._data = holdings.data
        self._shared = holdings.shared
        self._offset = holdings.offsets[client]
        self._held = holdings.held[client]
        self._key = key
        self._sharers = sharers
        self._batch = self._draw(0, drawing.read_often) if drawing.batches == "round" else None
        self._parts = None if length is None else self._laid_out(length)

    def loss(self, theta: Vector, step: int | Array = 0) -> Array:
        return self._over_batch(self._weighted, theta, step)

    def gradient(self, theta: Vector, step: int | Array = 0) -> Vector:
        return self._over_batch(jax.grad(self._weighted), theta, step)

    def _weighted(self, theta: Vector, batch: Batch, weights: Weights) -> Array:
        return weighted_sum(weights, self._losses(theta, batch))

    def _over_batch(
        self, function: Callable[[Vector, Batch, Weights], Array], theta: Vector, step: int | Array
    ) -> Array:
        if self._drawing.batches == "full":
            total = self._over_own_rows(function, theta)
            return total if self._sharers == 1 else lax.psum(total, AXIS)
        return function(theta, *(self._draw(step, self._drawing.read) if self._batch is None else self._batch))

    def _over_own_rows(self, function: Callable[[Vector, Batch, Weights], Array], theta: Vector) -> Array:
        share = 1.0 / self._held.astype(jnp.float32)
        if self._parts is not None:
            sums = [function(theta, batch, inside * share) for batch, inside in self._parts]
            return reduce(jnp.add, sums)
        rows = share_of_rows(self._offset, self._offset + self._held, self._drawing.tile, self._sharers)
        return sum_over_tiles(
            lambda stored, inside: function(theta, self._drawing.read(self._shared, stored), inside * share),
            self._data,
            rows,
            self._drawing.tile,
        )

    def _laid_out(self, length: int) -> list[tuple[Batch, Weights]]:
        """This device's share of the full batch, read and prepared, in parts that a core's cache holds."""
        own = -(-self._held // self._sharers)
        first = self._offset + (0 if self._sharers == 1 else lax.axis_index(AXIS) * own)
        stop = jnp.minimum(first + own, self._offset + self._held)
        parts = -(-length // rows_in_cache(self._data))
        width = -(-length // parts)
        tiles = [tile_of(self._data, first + part * width, stop, width) for part in range(parts)]
        return [(self._drawing.read_often(self._shared, stored), inside) for stored, inside in tiles]

    def _draw(self, step: int | Array, read: Callable[[Shared, Batch], Batch]) -> tuple[Batch, Weights]:
        key = step_key(self._key, self._drawing.batches, step)
        chosen, weights = draw_batch(self._held, self._drawing.batch_size, key)
        rows = self._offset + chosen
        return read(self._shared, jax.tree.map(lambda leaf: leaf[rows], self._data)), weights


class RowRange(NamedTuple):
    """Rows start … stop-1 of the flat data, read every `stride`-th tile."""

    start: Array | int
    stop: Array | int
    stride: int = 1


def share_of_rows(start: Array | int, stop: Array | int, tile: int, sharers: int) -> RowRange:
    """This device's share of the rows, when several devices read every so-manieth tile."""
    return RowRange(start, stop) if sharers == 1 else RowRange(start + lax.axis_index(AXIS) * tile, stop, sharers)


def tile_of(data: Batch, first: Array | int, stop: Array | int, width: int) -> tuple[Batch, Weights]:
    """So many rows from `first` on, and 1 where a row comes before `stop`, else 0.

    Rows beyond repeat the last one before: a neighbour's NaN, even times 0, would be NaN.
    """
    total = jax.tree.leaves(data)[0].shape[0]
    width = min(width, total)
    start = jnp.minimum(first, total - width)
    here = start + jnp.arange(width)
    inside = (here >= first) & (here < stop)

    def own_rows(leaf: Array) -> Array:
        block = lax.dynamic_slice_in_dim(leaf, start, width)
        within = inside.reshape(-1, *[1] * (leaf.ndim - 1))
        return jnp.where(within, block, lax.dynamic_index_in_dim(leaf, stop - 1))

    return jax.tree.map(own_rows, data), inside.astype(jnp.float32)


def example_bytes(data: Batch) -> int:
    """Memory that an example takes as it is stored.

    Example:
        >>> import numpy as np
        >>> example_bytes((np.zeros((5, 60), np.float32), np.zeros(5, np.int32)))
        244
    """
    return sum(leaf.nbytes // leaf.shape[0] for leaf in jax.tree.leaves(data))


def rows_in_cache(data: Batch) -> int:
    """Examples that a core's second-level cache holds, one at least."""
    return max(1, CACHE_BYTES // example_bytes(data))


def sum_over_tiles(function: Callable[[Batch, Weights], Array], data: Batch, rows: RowRange, tile: int) -> Array:
    """Sum of function(tile, inside) over the tiles that cover a range of rows, `inside` being 1 on its rows, else 0.

    A loop over the range's own tiles: the cost follows the client's own size, with no padding in memory.
    """

    def tile_at(first: Array) -> tuple[Batch, Weights]:
        return tile_of(data, first, rows.stop, tile)

    def add(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        first, so_far = carry
        return first + tile * rows.stride, jax.tree.map(jnp.add, so_far, function(*tile_at(first)))

    # Behind a barrier: XLA (JAX 0.10) runs a loop from a constant 0 to a constant 1 in larger steps no times at all.
    stop = lax.optimization_barrier(jnp.asarray(rows.stop, jnp.int32))
    start = jnp.asarray(rows.start, jnp.int32)
    shape = jax.eval_shape(lambda: function(*tile_at(start)))
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shape)
    return lax.while_loop(lambda carry: carry[0] < stop, add, (start, zero))[1]
