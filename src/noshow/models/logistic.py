"""Multinomial logistic regression."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from noshow.contracts import Array, Batch, Key, Model, Params
from noshow.errors import require
from noshow.federation import Federation
from noshow.models import in_pytorch
from noshow.models.scores import check_labels


class BothWays(NamedTuple):
    """Examples as rows [n, features] and as columns [features, n], for gradients that are computed again and again.

    A CPU multiplies fastest where what it adds up over lies apart in memory: columns for W x, rows for the gradient.
    """

    rows: Array
    columns: Array


@jax.custom_vjp
def product(weights: Array, x: BothWays) -> Array:
    """W x of all examples [classes, n]. Its gradient is one in the weights alone."""
    return weights @ x.columns


def _product(weights: Array, x: BothWays) -> tuple[Array, BothWays]:
    return weights @ x.columns, x


def _gradient(x: BothWays, along: Array) -> tuple[Array, None]:
    return along @ x.rows, None


product.defvjp(_product, _gradient)


def logistic(features: int = 60, classes: int = 10) -> Model:
    """Multinomial logistic regression from zero: loss -log softmax(W x + b)_y on batches `(x [n, features], y [n])`.

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> model = ns.models.logistic(features=2, classes=3)
        >>> losses, correct = model.measure(model.init(jax.random.key(0)), (jnp.ones((4, 2)), jnp.zeros(4, int)))
        >>> bool(jnp.allclose(losses, jnp.log(3.0)))
        True
    """
    require(features >= 1, f"features is {features}: give 1 or more")
    require(classes >= 2, f"classes is {classes}: give 2 or more")

    def init(key: Key) -> Params:
        return {"weights": jnp.zeros((classes, features)), "bias": jnp.zeros(classes)}

    def measure(params: Params, batch: Batch) -> tuple[Array, Array]:
        x, y = batch
        turned = product(params["weights"], x) if isinstance(x, BothWays) else params["weights"] @ x.T
        # Examples last: the softmax runs down the columns, over whole vector registers.
        logits = turned + params["bias"][:, None]
        right = jnp.arange(classes)[:, None] == y
        losses = jax.nn.logsumexp(logits, axis=0) - jnp.where(right, logits, 0.0).sum(0)
        return losses, (jnp.argmax(logits, axis=0) == y).astype(jnp.float32)

    def check(federation: Federation) -> None:
        check_labels(federation, classes)

    def prepare(batch: Batch) -> Batch:
        x, y = batch
        return BothWays(x, x.T), y

    return Model(init, measure, "logistic", check, prepare, layout=in_pytorch.LOGISTIC, brief=True)
