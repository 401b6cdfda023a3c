"""How unlike the clients' gradients are: the pairs (B, G) of the assumption on bounded dissimilarity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow.contracts import Array, Model, Vector
from noshow.federation import Federation
from noshow.theory.constants import Numbers, numbers
from noshow.theory.estimates.visited import Arrays, Thetas, Visited, compiled, require_finite, visit


class Dissimilarity(NamedTuple):
    """||grad F_i - grad F||^2 of each client at each visited model [T, M], ||grad F||^2 [T], and the weights w_i [M].

    Example:
        >>> clients = Dissimilarity(np.array([[4.0, 4.0]]), square_norms=np.array([1.0]), weights=np.array([0.5, 0.5]))
        >>> clients.frontier([1.0, 2.0, 3.0]).tolist()
        [2.0, 1.0, 0.0]
    """

    distances: np.ndarray
    square_norms: np.ndarray
    weights: np.ndarray

    def frontier(self, B: Numbers | Sequence[float]) -> Numbers:  # noqa: N803 (the paper's letter)
        """The smallest G with sum_i w_i ||grad F_i||^2 <= B^2 ||grad F||^2 + G^2 at every visited model.

        As sum_i w_i ||grad F_i||^2 = ||grad F||^2 + sum_i w_i ||grad F_i - grad F||^2, that is the largest root of
        sum_i w_i ||grad F_i - grad F||^2 - (B^2 - 1) ||grad F||^2, or 0.
        """
        beyond = np.asarray(numbers("B", B, low=1))[..., None] ** 2 - 1
        return np.sqrt(np.maximum(self.distances @ self.weights - beyond * self.square_norms, 0.0).max(-1))


def dissimilarity(federation: Federation, model: Model, thetas: Thetas) -> Dissimilarity:
    """How unlike the gradients of the clients' mean losses F_i are at the visited models.

    The assumption speaks of all models, so a pair (B, G) of the `frontier` is a lower estimate: elsewhere the clients
    may differ more.

    Args:
        federation: the clients.
        model: what they train.
        thetas: the visited models: an array [T, d], or a list of flat vectors or of the model's own parameters.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> model = ns.Model(lambda key: jnp.zeros(1),
        ...                  lambda theta, z: (0.5 * ((theta - z) ** 2).sum(-1), jnp.zeros(len(z))))
        >>> federation = ns.Federation.from_clients([np.zeros((1, 1)), np.full((1, 1), 4.0)], test=np.zeros((1, 1)))
        >>> found = dissimilarity(federation, model, np.array([[0.0], [3.0]]))  # gradients 0 and -4; 3 and -1
        >>> found.frontier([1.0, 1.25]).round(4).tolist()
        [2.0, 1.854]
    """
    visited = visit(federation, model, thetas)
    compare = compiled(_comparison(visited))
    rows = [compare(visited.arrays, theta) for theta in visited.thetas]
    distances, square_norms = (np.asarray(column, np.float64) for column in zip(*rows, strict=True))
    require_finite(distances, "gradient")
    return Dissimilarity(distances, square_norms, federation.weights.astype(np.float64))


def _comparison(visited: Visited) -> Callable[[Arrays, Vector], tuple[Array, Array]]:
    def compare(arrays: Arrays, theta: Vector) -> tuple[Array, Array]:
        mean = visited.gradient(arrays, theta)

        def distance(client: Array) -> Array:
            return jnp.square(visited.full_loss(arrays, client).gradient(theta) - mean).sum()

        return lax.map(distance, jnp.arange(visited.clients)), jnp.square(mean).sum()

    return compare
