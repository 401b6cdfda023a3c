"""Parabolas: the losses on which every bound can be worked out by hand."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from noshow.contracts import Array, Batch, Key, Model, Params
from noshow.errors import require
from noshow.federation import Federation, as_stored


def quadratic(start: Any) -> Model:
    """Loss sum_j (h_j theta_j^2 / 2 - b_j theta_j) on batches `(h [n, d], b [n, d])`, from theta_0 = `start` [d].

    An example is a parabola: its curvatures h and its slopes b. A batch's gradient is mean(h) theta - mean(b), so that
    slopes spread between clients, or between a client's examples, spread the gradients alike everywhere. Nothing is
    predicted, so no prediction is ever right.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> model = quadratic(start=[2.0, 0.0])
        >>> example = jnp.array([[1.0, 3.0]]), jnp.array([[0.5, 0.0]])
        >>> model.measure(model.init(jax.random.key(0)), example)[0].tolist()
        [1.0]
    """
    first = np.asarray(start, np.float32)
    require(first.ndim == 1 and first.size > 0, f"start has shape {list(first.shape)}: give one number a parameter")
    require(bool(np.isfinite(first).all()), f"start is {start}: give finite numbers")

    def init(key: Key) -> Params:
        return jnp.asarray(first)

    def measure(theta: Params, batch: Batch) -> tuple[Array, Array]:
        h, b = batch
        return (h * theta / 2 - b) @ theta, jnp.zeros(h.shape[0])

    def check(federation: Federation) -> None:
        if federation.read is not as_stored:
            return
        shapes = [leaf.shape[1:] for leaf in federation.data] if isinstance(federation.data, tuple) else []
        require(
            shapes == [first.shape, first.shape],
            f"the model starts from {first.size} parameters, and the examples of {federation.name!r} are no pairs of "
            "as many curvatures and slopes: give data (h [n, d], b [n, d])",
        )

    return Model(init, measure, "quadratic", check)
