"""How good a model is: train loss F(theta) = sum w_i F_i(theta), test loss and test accuracy."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow.contracts import Array, Batch, Model, Numbers, Vector
from noshow.devices import AXIS
from noshow.federation import Federation
from noshow.local import RowRange, sum_over_tiles
from noshow.parameters import Unravel


class Metrics(NamedTuple):
    """One evaluation; numbers, or arrays of one entry a seed."""

    train_loss: Numbers
    test_loss: Numbers
    test_accuracy: Numbers


class Exam(NamedTuple):
    """What models are evaluated on. `data` carries each train example's share w_i / (examples of client i) in F."""

    data: Batch
    shares: Numbers
    test: Batch


def exam(federation: Federation) -> Exam:
    """The federation's train and test data, ready for `evaluate`."""
    a_share = federation.weights / federation.held
    return Exam(federation.data, np.repeat(a_share, federation.held), federation.test)


def evaluate(model: Model, unravel: Unravel, exam: Exam, theta: Vector, tile: int, devices: int) -> Metrics:
    """Metrics of one model; each device reads every `devices`-th tile."""
    params = unravel(theta)

    def train(batch: tuple[Batch, Array], inside: Array) -> Array:
        data, shares = batch
        losses, _ = model.measure(params, data)
        return jnp.dot(inside * shares, losses)

    def test(batch: Batch, inside: Array) -> Array:
        losses, correct = model.measure(params, batch)
        return jnp.stack([jnp.dot(inside, losses), jnp.dot(inside, correct)])

    tested = jax.tree.leaves(exam.test)[0].shape[0]
    train_loss = sum_over_tiles(train, (exam.data, exam.shares), _my_rows(exam.shares.shape[0], tile, devices), tile)
    sums = sum_over_tiles(test, exam.test, _my_rows(tested, tile, devices), tile) / tested
    if devices > 1:
        train_loss, sums = lax.psum((train_loss, sums), AXIS)
    return Metrics(train_loss, sums[0], sums[1])


def _my_rows(count: int, tile: int, devices: int) -> RowRange:
    return RowRange(lax.axis_index(AXIS) * min(tile, count), count, stride=devices)
