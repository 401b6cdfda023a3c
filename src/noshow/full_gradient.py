"""The gradient of the whole federation's objective, grad F(theta) = sum w_i grad F_i(theta), over everybody's data."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from noshow.contracts import Array, Batch, Vector, Weights
from noshow.devices import AXIS
from noshow.local import Drawing, Holdings, Losses, share_of_rows, sum_over_tiles
from noshow.precision import weighted_sum


def example_shares(holdings: Holdings) -> Weights:
    """What each stored example counts in F: w_i / (examples that client i holds).

    w_i follows what a client draws, n_i, and F_i is the mean over all it holds; so with small batches an example of a
    large client counts less than one of a small client.
    """
    stored = jax.tree.leaves(holdings.data)[0].shape[0]
    return jnp.repeat(holdings.weights / holdings.held, holdings.held, total_repeat_length=stored)


def full_gradient(
    losses: Losses, drawing: Drawing, holdings: Holdings, shares: Weights, theta: Vector, devices: int
) -> Vector:
    """grad F at `theta`, given what each example counts; each of so many `devices` reads every so-manieth tile."""

    def tile_gradient(tile: tuple[Batch, Weights], inside: Array) -> Vector:
        stored, counts = tile
        batch = drawing.read(holdings.shared, stored)
        return jax.grad(lambda theta: weighted_sum(inside * counts, losses(theta, batch)))(theta)

    rows = share_of_rows(0, shares.shape[0], drawing.tile, devices)
    total = sum_over_tiles(tile_gradient, (holdings.data, shares), rows, drawing.tile)
    return total if devices == 1 else lax.psum(total, AXIS)
