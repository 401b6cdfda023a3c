"""Models as flat vectors and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.flatten_util import ravel_pytree

from noshow.contracts import Array, Batch, Model, Params, Vector
from noshow.randomness import Purpose, run_key

Unravel = Callable[[Vector], Params]


def first_model(model: Model, seed: int | Array) -> Vector:
    """The flat parameters theta_0 of the run with this seed."""
    return ravel_pytree(model.init(run_key(seed, Purpose.MODEL)))[0]


def unraveller(model: Model) -> Unravel:
    """The function that gives a flat vector the model's own shape."""
    _, unravel = ravel_pytree(model.init(jax.random.key(0)))
    return unravel


def named_leaves(params: Params) -> list[tuple[str, Any]]:
    """The leaves by their place in the pytree, in its order.

    Example:
        >>> named_leaves({"conv1": {"bias": 1.0, "weights": 2.0}})
        [('conv1/bias', 1.0), ('conv1/weights', 2.0)]
    """
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), leaf) for path, leaf in leaves]


def flat_losses(model: Model, unravel: Unravel) -> Callable[[Vector, Batch], Array]:
    """Each example's loss as a function of the flat vector."""
    return lambda theta, batch: model.measure(unravel(theta), batch)[0]
