"""How far a batch's gradient strays from the client's: sigma_i of the assumption on noisy gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow.contracts import Array, Batch, Model, Vector, Weights
from noshow.federation import Federation
from noshow.local import RowRange, sum_over_tiles
from noshow.theory.estimates.visited import Arrays, Thetas, Visited, compiled, require_finite, visit

NUMBERS_AT_ONCE = 2**24
"""Entries of the examples' gradients that are in memory at any time: 64 megabytes of them."""


class Noise(NamedTuple):
    """E ||grad l_{i,t} - grad F_i||^2 of each client at each visited model [T, M], and the weights w_i [M].

    Example:
        >>> noise = Noise(variances=np.array([[1.0, 0.0], [4.0, 9.0]]), weights=np.array([0.75, 0.25]))
        >>> noise.sigmas.tolist(), round(noise.sigma, 4)
        ([2.0, 3.0], 2.2913)
    """

    variances: np.ndarray
    weights: np.ndarray

    @property
    def sigmas(self) -> np.ndarray:
        """sigma_i [M], each at the visited model where it is largest."""
        return np.sqrt(self.variances.max(0))

    @property
    def sigma(self) -> float:
        """The root of sigma^2 = sum_i w_i sigma_i^2."""
        return float(np.sqrt(self.weights @ self.sigmas**2))


def gradient_noise(federation: Federation, model: Model, thetas: Thetas) -> Noise:
    """The variance of each client's batch gradient at the visited models, exactly: no batch is drawn.

    A batch is n_i of the N_i examples that client i holds, without replacement. Its gradient has the variance

        (N_i - n_i) / (n_i (N_i - 1)) * (1/N_i) sum_k ||g_k - grad F_i||^2,   g_k the gradient of example k,

    which is 0 where a batch is all that a client holds. The assumption bounds it at all models that a run can visit;
    this is its largest value at those that were.

    Args:
        federation: the clients, and how they draw.
        model: what they train.
        thetas: the visited models: an array [T, d], or a list of flat vectors or of the model's own parameters.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> model = ns.Model(lambda key: jnp.zeros(1),
        ...                  lambda theta, z: (0.5 * ((theta - z) ** 2).sum(-1), jnp.zeros(len(z))))
        >>> federation = ns.Federation.from_clients([np.array([[0.0], [1.0], [2.0]])], test=np.zeros((1, 1)))
        >>> found = gradient_noise(federation.drawing("round", 2), model, np.zeros((1, 1)))
        >>> found.variances.round(4).tolist()  # the means of two are 0.5, 1 and 1.5
        [[0.1667]]
    """
    visited = visit(federation, model, thetas)
    held, drawn = federation.held.astype(np.float64), federation.sizes.astype(np.float64)
    reduced = (held - drawn) / (drawn * np.maximum(held - 1, 1))
    noisy = np.flatnonzero(reduced).astype(np.int32)
    variances = np.zeros((len(visited.thetas), visited.clients))
    if noisy.size:
        spreads = compiled(_spreads(visited))
        for row, theta in zip(variances, visited.thetas, strict=True):
            row[noisy] = reduced[noisy] * np.asarray(spreads(visited.arrays, noisy, theta), np.float64)
    require_finite(variances, "gradient noise")
    return Noise(variances, federation.weights.astype(np.float64))


def _spreads(visited: Visited) -> Callable[[Arrays, Array, Vector], Array]:
    """(1/N_i) sum_k ||g_k - grad F_i||^2 of some clients, in two passes: the difference of two means would cancel."""
    drawing, losses = visited.drawing, visited.losses
    tile = max(1, min(drawing.tile, NUMBERS_AT_ONCE // visited.d))

    def gradient(theta: Vector, shared: Batch, example: Batch) -> Vector:
        batch = drawing.read(shared, jax.tree.map(lambda leaf: leaf[None], example))
        return jax.grad(lambda theta: losses(theta, batch).sum())(theta)

    def spread(arrays: Arrays, client: Array, theta: Vector) -> Array:
        data, shared, offsets, held, *_ = arrays.holdings
        mean = visited.full_loss(arrays, client).gradient(theta)

        def squares(examples: Batch, inside: Weights) -> Array:
            gradients = jax.vmap(lambda example: gradient(theta, shared, example))(examples)
            return jnp.dot(inside, jnp.square(gradients - mean).sum(1))

        rows = RowRange(offsets[client], offsets[client] + held[client])
        return sum_over_tiles(squares, data, rows, tile) / held[client]

    return lambda arrays, clients, theta: lax.map(lambda client: spread(arrays, client, theta), clients)
