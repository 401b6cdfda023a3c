"""How good a model is: train loss F(theta) = sum w_i F_i(theta), test loss and test accuracy."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow.contracts import Array, Batch, Model, Numbers, Vector
from noshow.devices import AXIS
from noshow.federation import Federation, aligned
from noshow.local import Drawing, Holdings, share_of_rows, sum_over_tiles
from noshow.parameters import Unravel
from noshow.precision import weighted_sum


class Metrics(NamedTuple):
    """One evaluation; numbers, or arrays of one entry a seed."""

    train_loss: Numbers
    test_loss: Numbers
    test_accuracy: Numbers


class Exam(NamedTuple):
    """What models are evaluated on: the clients' data (all of them if `train` is None), each example's share in F,
    and the test data."""

    train: Batch
    shares: Numbers
    test: Batch


def exam(federation: Federation, most: int | None = None) -> Exam:
    """All train and test examples, or at most `most` of each, spread evenly over the clients' and over the test data.

    A train example of client i counts w_i / (examples of client i in the exam). Where there are more clients than
    `most`, so many examples are spread over the weights w_i instead, and count alike: what an exam costs then does not
    follow the number of clients.
    """
    if most is None:
        return Exam(None, aligned(np.repeat(federation.weights / federation.held, federation.held)), federation.test)
    rows, shares = _of_every_client(federation, most) if most >= federation.clients else _by_weight(federation, most)
    tested = len(jax.tree.leaves(federation.test)[0])
    return Exam(
        jax.tree.map(lambda leaf: aligned(leaf[rows]), federation.data),
        aligned(shares),
        jax.tree.map(lambda leaf: aligned(leaf[_spread(tested, min(most, tested))]), federation.test),
    )


def _of_every_client(federation: Federation, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The same number of rows of each client, or all it holds, evenly spread, and what each counts."""
    each = np.minimum(federation.held, most // federation.clients).astype(np.int64)
    within = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
    rows = np.repeat(federation.offsets, each) + within * np.repeat(federation.held, each) // np.repeat(each, each)
    return rows, np.repeat(federation.weights / each, each)


def _by_weight(federation: Federation, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows at evenly spread places of the clients' weights laid end to end; all count alike."""
    ends = np.cumsum(federation.weights, dtype=np.float64)
    places = (np.arange(most) + 0.5) / most * ends[-1]
    client = np.searchsorted(ends, places, side="right")
    along = 1.0 - (ends[client] - places) / federation.weights[client]  # how far into its client's stretch a place lies
    held = federation.held[client]
    return federation.offsets[client] + np.clip((along * held).astype(np.int64), 0, held - 1), np.full(most, 1 / most)


def _spread(count: int, chosen: int) -> np.ndarray:
    """`chosen` of the numbers 0 … count - 1, evenly spread."""
    return np.arange(chosen, dtype=np.int64) * count // chosen


def evaluate(
    model: Model, unravel: Unravel, drawing: Drawing, holdings: Holdings, exam: Exam, theta: Vector, devices: int
) -> Metrics:
    """Metrics of one model; each device reads every `devices`-th tile."""
    params = unravel(theta)
    tile = drawing.tile

    def measure(stored: Batch) -> tuple[Array, Array]:
        return model.measure(params, drawing.read(holdings.shared, stored))

    def train(batch: tuple[Batch, Array], inside: Array) -> Array:
        examples, shares = batch
        losses, _ = measure(examples)
        return weighted_sum(inside * shares, losses)

    def test(batch: Batch, inside: Array) -> Array:
        losses, correct = measure(batch)
        return jnp.stack([weighted_sum(inside, losses), weighted_sum(inside, correct)])

    tested = jax.tree.leaves(exam.test)[0].shape[0]
    rows = share_of_rows(0, exam.shares.shape[0], tile, devices)
    data = holdings.data if exam.train is None else exam.train
    train_loss = sum_over_tiles(train, (data, exam.shares), rows, tile)
    sums = sum_over_tiles(test, exam.test, share_of_rows(0, tested, tile, devices), tile) / tested
    if devices > 1:
        train_loss, sums = lax.psum((train_loss, sums), AXIS)
    return Metrics(train_loss, sums[0], sums[1])
