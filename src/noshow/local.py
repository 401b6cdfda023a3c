"""A client's own objective in one round: batches are drawn and ragged data are tiled behind two functions.

A client asks for `gradient(theta, step)`; whether that reads one batch kept for the round, a fresh one, or a loop
over its whole data set is settled here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from noshow.contracts import Array, Batch, Key, Model, Numbers, Vector, Weights
from noshow.devices import AXIS
from noshow.federation import Batches, Federation, Shared
from noshow.precision import weighted_sum
from noshow.randomness import without_replacement

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
    """The settings of a federation's drawing that shape the program."""

    batches: Batches
    batch_size: int
    tile: int
    read: Callable[[Shared, Batch], Batch]
    of_round: Callable[[Key, Batch], Batch] | None = None


def drawing(federation: Federation, model: Model, tile: int) -> Drawing:
    """How this federation's clients draw for this model; no batch is longer than the largest client's data."""
    longest = min(federation.batch_size or 0, int(federation.held.max()))

    def read(shared: Shared, rows: Batch) -> Batch:
        return model.prepare(federation.read(shared, rows))

    return Drawing(federation.batches, longest, tile, read, federation.of_round)


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
        self, losses: Losses, drawing: Drawing, holdings: Holdings, client: Array, key: Key, sharers: int = 1
    ) -> None:
        """With `sharers` > 1, so many devices work on this client together, each on its tiles of a full batch."""
        self._losses = losses
        self._drawing = drawing
        self._data = holdings.data
        self._shared = holdings.shared
        self._offset = holdings.offsets[client]
        self._held = holdings.held[client]
        self._key = key
        self._sharers = sharers
        self._batch = self._draw(0) if drawing.batches == "round" else None

    def loss(self, theta: Vector, step: int | Array = 0) -> Array:
        return self._over_batch(self._weighted, theta, step)

    def gradient(self, theta: Vector, step: int | Array = 0) -> Vector:
        return self._over_batch(jax.grad(self._weighted), theta, step)

    def _weighted(self, theta: Vector, batch: Batch, weights: Weights) -> Array:
        return weighted_sum(weights, self._losses(theta, batch))

    def _read(self, rows: Batch) -> Batch:
        return self._drawing.read(self._shared, rows)

    def _over_batch(
        self, function: Callable[[Vector, Batch, Weights], Array], theta: Vector, step: int | Array
    ) -> Array:
        if self._drawing.batches == "full":
            share = 1.0 / self._held.astype(jnp.float32)
            rows = share_of_rows(self._offset, self._offset + self._held, self._drawing.tile, self._sharers)
            total = sum_over_tiles(
                lambda stored, inside: function(theta, self._read(stored), inside * share),
                self._data,
                rows,
                self._drawing.tile,
            )
            return total if self._sharers == 1 else lax.psum(total, AXIS)
        return function(theta, *(self._draw(step) if self._batch is None else self._batch))

    def _draw(self, step: int | Array) -> tuple[Batch, Weights]:
        key = step_key(self._key, self._drawing.batches, step)
        chosen, weights = draw_batch(self._held, self._drawing.batch_size, key)
        rows = self._offset + chosen
        return self._read(jax.tree.map(lambda leaf: leaf[rows], self._data)), weights


class RowRange(NamedTuple):
    """Rows start … stop-1 of the flat data, read every `stride`-th tile."""

    start: Array | int
    stop: Array | int
    stride: int = 1


def share_of_rows(start: Array | int, stop: Array | int, tile: int, sharers: int) -> RowRange:
    """This device's share of the rows, when several devices read every so-manieth tile."""
    return RowRange(start, stop) if sharers == 1 else RowRange(start + lax.axis_index(AXIS) * tile, stop, sharers)


def sum_over_tiles(function: Callable[[Batch, Weights], Array], data: Batch, rows: RowRange, tile: int) -> Array:
    """Sum of function(tile, inside) over the tiles that cover a range of rows, `inside` being 1 on its rows, else 0.

    A loop over the range's own tiles: the cost follows the client's own size, with no padding in memory. Rows of a
    tile outside the range repeat one inside: a neighbour's NaN, even times 0, would be NaN.
    """
    total = jax.tree.leaves(data)[0].shape[0]
    width = min(tile, total)

    def tile_at(first: Array) -> tuple[Batch, Weights]:
        start = jnp.minimum(first, total - width)
        here = start + jnp.arange(width)
        inside = (here >= first) & (here < rows.stop)

        def own_rows(leaf: Array) -> Array:
            block = lax.dynamic_slice_in_dim(leaf, start, width)
            within = inside.reshape(-1, *[1] * (leaf.ndim - 1))
            return jnp.where(within, block, lax.dynamic_index_in_dim(leaf, first))

        return jax.tree.map(own_rows, data), inside.astype(jnp.float32)

    def add(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        first, so_far = carry
        return first + tile * rows.stride, jax.tree.map(jnp.add, so_far, function(*tile_at(first)))

    # Behind a barrier: XLA (JAX 0.10) runs a loop from a constant 0 to a constant 1 in larger steps no times at all.
    stop = lax.optimization_barrier(jnp.asarray(rows.stop, jnp.int32))
    start = jnp.asarray(rows.start, jnp.int32)
    shape = jax.eval_shape(lambda: function(*tile_at(start)))
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shape)
    return lax.while_loop(lambda carry: carry[0] < stop, add, (start, zero))[1]
