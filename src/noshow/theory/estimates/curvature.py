"""How sharply the losses bend where a run has been: L and L_minus of the clients' losses, mu of F.

These are extreme eigenvalues of Hessians, by Lanczos iteration through Hessian-vector products.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from noshow.contracts import Array, Model, Vector
from noshow.errors import require
from noshow.federation import Federation
from noshow.randomness import Purpose, round_key
from noshow.theory.estimates.lanczos import RESOLUTION, Ends, extremes
from noshow.theory.estimates.visited import LEAVE_OUT, Arrays, Thetas, Visited, compiled, require_finite, visit

SETTLED = 1e-3
"""Residuals, as parts of the eigenvalue that is looked for, at which the iteration stops."""


class Curvature(NamedTuple):
    """The smallest and the largest curvature of each client's losses at each visited model [T, M].

    Example:
        >>> found = Curvature(lowest=np.array([[-0.5, 0.0]]), highest=np.array([[2.0, 3.0]]))
        >>> found.L, found.L_minus
        (3.0, 0.5)
    """

    lowest: np.ndarray
    highest: np.ndarray

    @property
    def L(self) -> float:  # noqa: N802 (the paper's letter)
        """The largest absolute curvature: what the assumption on Lipschitz gradients needs at least."""
        return float(max(np.abs(self.lowest).max(), np.abs(self.highest).max()))

    @property
    def L_minus(self) -> float:  # noqa: N802 (the paper's letter)
        """The largest downward curvature, 0 if no more than rounding: what FedProx's assumption needs at least."""
        downwards = float(-self.lowest.min())
        return downwards if downwards > RESOLUTION * self.L else 0.0


def curvature(federation: Federation, model: Model, thetas: Thetas, *, draws: int = 0, seed: int = 0) -> Curvature:
    """The extreme eigenvalues of the clients' Hessians at the visited models.

    The assumption bounds the batch losses l_{i,t} everywhere, so the `L` and `L_minus` found here are lower estimates:
    they hold at the visited models alone, not between them, nor along the clients' local steps. Where clients draw
    batches, the mean loss F_i is flatter than the sharpest batch; `draws` looks at batches as well. The gradient of a
    network with ReLUs or max-pooling jumps, so that no L holds for it; what is found is its curvature between jumps.

    Args:
        federation: the clients.
        model: what they train.
        thetas: the visited models: an array [T, d], or a list of flat vectors or of the model's own parameters.
        draws: how many drawn batches of each client to look at beside all its data, at each model.
        seed: the batches are those of rounds 0, 1, … of the run with this seed.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> model = ns.Model(lambda key: jnp.zeros(2),
        ...                  lambda theta, h: (0.5 * (h * theta**2).sum(-1), jnp.zeros(len(h))))
        >>> steep, bent = np.array([[1.0, 4.0], [3.0, 4.0]]), np.array([[-1.0, 2.0]])
        >>> federation = ns.Federation.from_clients([steep, bent], test=bent)
        >>> found = curvature(federation, model, np.zeros((1, 2)))
        >>> found.highest.round(3).tolist(), found.lowest.round(3).tolist()
        ([[4.0, 2.0]], [[2.0, -1.0]])
        >>> round(found.L, 3), round(found.L_minus, 3)
        (4.0, 1.0)
    """
    require(draws >= 0, f"draws is {draws}: give 0 for all data alone, or more for batches too")
    require(
        draws == 0 or federation.batches != "full",
        f"draws is {draws}, but the clients of {federation.name!r} draw no batches: leave it out, or use `drawing`",
    )
    visited = visit(federation, model, thetas)
    over_all, over_batch = compiled(_client_product(visited)), compiled(_batch_product(visited, seed))

    def looks(theta: np.ndarray, client: int) -> list[Ends]:
        products = [partial(over_all, visited.arrays, theta, client)]
        products += [partial(over_batch, visited.arrays, theta, client, t) for t in range(draws)]
        return [extremes(product, visited.d, _both_settled) for product in products]

    ends = np.array([[looks(theta, client) for client in range(visited.clients)] for theta in visited.thetas])
    found = Curvature(lowest=ends[..., 0].min(-1), highest=ends[..., 1].max(-1))
    require_finite(found.lowest + found.highest, "Hessian")
    return found


def strong_convexity(federation: Federation, model: Model, thetas: Thetas) -> float:
    """mu: the smallest eigenvalue of the Hessian of F = sum_i w_i F_i at any visited model; 0 if it is not positive.

    An upper estimate of the theorem's mu, as F may be flatter elsewhere, but a careful one at the visited models: the
    residual of the eigenvalue is taken off, and what float32 cannot tell from zero, 1e-5 of the largest, is zero.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> model = ns.Model(lambda key: jnp.zeros(2),
        ...                  lambda theta, h: (0.5 * (h * theta**2).sum(-1), jnp.zeros(len(h))))
        >>> steep, bent = np.array([[1.0, 4.0], [3.0, 4.0]]), np.array([[-0.5, 2.0]])
        >>> federation = ns.Federation.from_clients([steep, bent], test=bent)
        >>> round(strong_convexity(federation, model, np.zeros((1, 2))), 3)  # 2/3 of 2.0 and 1/3 of -0.5
        1.167
    """
    visited = visit(federation, model, thetas)
    product = compiled(_global_product(visited))
    smallest = np.inf
    for number, theta in enumerate(visited.thetas):
        ends = extremes(partial(product, visited.arrays, theta), visited.d, _lowest_settled)
        require(np.isfinite(ends.size), f"F has no finite Hessian at theta number {number}: {LEAVE_OUT}")
        smallest = min(smallest, ends.lowest - ends.lowest_doubt)
        if smallest <= 0:  # and no other model can raise it
            return 0.0
    return smallest


def _client_product(visited: Visited) -> Callable[[Arrays, Vector, Array, Vector], Vector]:
    """The Hessian of F_i times v."""
    return lambda arrays, theta, client, v: _along(visited.full_loss(arrays, client).gradient, theta, v)


def _batch_product(visited: Visited, seed: int) -> Callable[[Arrays, Vector, Array, Array, Vector], Vector]:
    """The Hessian of l_{i,t} times v; the batch is drawn as in round t, for its first local step."""

    def product(arrays: Arrays, theta: Vector, client: Array, t: Array, v: Vector) -> Vector:
        key = jax.random.fold_in(round_key(seed, t, Purpose.BATCHES), client)
        return _along(visited.batch_loss(arrays, client, key).gradient, theta, v)

    return product


def _global_product(visited: Visited) -> Callable[[Arrays, Vector, Vector], Vector]:
    """The Hessian of F times v."""
    return lambda arrays, theta, v: _along(partial(visited.gradient, arrays), theta, v)


def _along(gradient: Callable[[Vector], Vector], theta: Vector, v: Vector) -> Vector:
    """The derivative of the gradient along v: the Hessian times v at the cost of a few gradients."""
    return jax.jvp(gradient, (theta,), (v,))[1]


def _both_settled(ends: Ends) -> bool:
    return not max(ends.lowest_doubt, ends.highest_doubt) > SETTLED * ends.size


def _lowest_settled(ends: Ends) -> bool:
    return not (ends.lowest > 0 and ends.lowest_doubt > SETTLED * ends.lowest)
