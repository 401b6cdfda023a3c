"""What the constants are estimated of, and where: a federation's losses, at the models that a run has visited."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from noshow import checks, devices
from noshow.adversaries import nobody
from noshow.contracts import Array, Key, Model, Numbers, Params, Vector
from noshow.errors import require
from noshow.evaluate import exam
from noshow.federation import Federation
from noshow.full_gradient import full_gradient
from noshow.local import ClientData, Drawing, Holdings, Losses, drawing, holdings
from noshow.parameters import flat_losses, unraveller

Thetas = Array | np.ndarray | Iterable[Params]
"""Visited models: an array [T, d], or a list of them, each a flat vector [d] or the model's own pytree."""

LEAVE_OUT = "leave out models that have diverged"


class Arrays(NamedTuple):
    """A federation on the device, and each example's share in F. Arguments of the compiled programs, not constants."""

    holdings: Holdings
    shares: Numbers


class Visited(NamedTuple):
    """A federation's losses and the flat models [T, d] at which they are looked at."""

    arrays: Arrays
    losses: Losses
    drawing: Drawing
    thetas: np.ndarray

    @property
    def clients(self) -> int:
        """M, the number of clients."""
        return int(self.arrays.holdings.held.shape[0])

    @property
    def d(self) -> int:
        """The number of parameters."""
        return int(self.thetas.shape[1])

    def full_loss(self, arrays: Arrays, client: Array) -> ClientData:
        """F_i, the mean loss over all that client i holds."""
        whole = self.drawing._replace(batches="full")
        return ClientData(self.losses, whole, arrays.holdings, client, jax.random.key(0))

    def batch_loss(self, arrays: Arrays, client: Array, key: Key) -> ClientData:
        """l_{i,t}, the mean loss over the batch that client i draws with this key."""
        return ClientData(self.losses, self.drawing, arrays.holdings, client, key)

    def gradient(self, arrays: Arrays, theta: Vector) -> Vector:
        """The gradient of F = sum_i w_i F_i, in one pass over all examples."""
        return full_gradient(self.losses, self.drawing, arrays.holdings, arrays.shares, theta, devices=1)


def visit(federation: Federation, model: Model, thetas: Thetas) -> Visited:
    """Put together what the estimators read; raises unless the model can read the data and the thetas are its own.

    Example:
        >>> import numpy as np, noshow as ns
        >>> federation = ns.datasets.synthetic(clients=4, sizes=20)
        >>> visited = visit(federation, ns.models.logistic(), np.zeros((3, 610)))
        >>> visited.clients, visited.thetas.shape
        (4, (3, 610))
    """
    checks.check(federation, model, nobody(), sampled=1, rounds=0, epsilon=None, seeds=[0], evaluate_every=1)
    return Visited(
        jax.device_put(Arrays(holdings(federation), exam(federation).shares)),
        flat_losses(model, unraveller(model)),
        drawing(federation, model, devices.rows_per_tile()),
        flat_models(model, thetas),
    )


def flat_models(model: Model, thetas: Thetas) -> np.ndarray:
    """The visited models as flat vectors [T, d].

    Example:
        >>> import jax, noshow as ns
        >>> model = ns.models.logistic(features=2, classes=3)
        >>> flat_models(model, [model.init(jax.random.key(0)), np.ones(9)]).sum(1).tolist()
        [0.0, 9.0]
    """
    shaped = jax.eval_shape(model.init, jax.random.key(0))
    d = sum(leaf.size for leaf in jax.tree.leaves(shaped))
    several = getattr(thetas, "ndim", 2) == 2 and isinstance(thetas, Iterable) and not isinstance(thetas, dict)
    listed = list(thetas) if several else []
    require(len(listed) > 0, "thetas holds no list of models: give an array [models, parameters], or a list of models")
    for number, theta in enumerate(listed):
        require(
            getattr(theta, "shape", None) == (d,) or _form(theta) == _form(shaped),
            f"theta number {number} does not fit the model {model.name!r}: "
            f"give a flat array of its {d} parameters, or parameters as its `init` makes them",
        )
    flat = np.stack([np.asarray(ravel_pytree(theta)[0], np.float32) for theta in listed])
    broken = np.flatnonzero(~np.isfinite(flat).all(1))
    require(broken.size == 0, f"theta number {broken[0] if broken.size else 0} is not finite: {LEAVE_OUT}")
    return flat


def _form(params: Params) -> tuple[Any, list[tuple[int, ...]]]:
    return jax.tree.structure(params), [jnp.shape(leaf) for leaf in jax.tree.leaves(params)]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled, with products in full float32: an accelerator's default rounds them to three digits."""

    def precise(*arguments: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return function(*arguments)

    return jax.jit(precise)


def require_finite(values: np.ndarray, what: str) -> None:
    """Raise unless there is a finite number for every visited model and client [T, M]."""
    broken = np.argwhere(~np.isfinite(values))
    number, client = broken[0] if broken.size else (0, 0)
    require(broken.size == 0, f"client {client} has no finite {what} at theta number {number}: {LEAVE_OUT}")
