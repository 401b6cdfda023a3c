"""Multinomial logistic regression: batches turned around for repeated use against batches as they are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns
from noshow.parameters import flat_losses, unraveller

MODEL = ns.models.logistic(features=5, classes=3)
RNG = np.random.default_rng(0)
BATCH = RNG.normal(size=(7, 5)).astype(np.float32), RNG.integers(0, 3, 7)
THETA, ALONG = (jnp.asarray(vector, jnp.float32) for vector in RNG.normal(size=(2, 18)))


def by_hand(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses [n], the gradient of their sum [18] and its Hessian [18, 18] in float64: bias first, then the weights."""
    x, y = np.asarray(BATCH[0], np.float64), BATCH[1]
    bias, weights = theta[:3], theta[3:].reshape(3, 5)
    e = np.exp(x @ weights.T + bias)
    shares = e / e.sum(1, keepdims=True)
    right = np.eye(3)[y]
    seen = np.concatenate([np.ones((7, 1)), x], axis=1)
    gradient = (shares - right).T @ seen
    hessian = np.einsum("nc,cd,nf,ng->cfdg", shares, np.eye(3), seen, seen)
    hessian -= np.einsum("nc,nd,nf,ng->cfdg", shares, shares, seen, seen)
    order = [6 * c for c in range(3)] + [6 * c + f for c in range(3) for f in range(1, 6)]
    return -np.log((shares * right).sum(1)), gradient.ravel()[order], hessian.reshape(18, 18)[np.ix_(order, order)]


@pytest.mark.parametrize("prepare", [False, True])
def test_losses_gradients_and_curvature_are_those_of_a_calculation_by_hand(prepare: bool) -> None:
    losses, batch = flat_losses(MODEL, unraveller(MODEL)), MODEL.prepare(BATCH) if prepare else BATCH
    gradient = jax.grad(lambda theta: losses(theta, batch).sum())
    _, curved = jax.jit(lambda theta, v: jax.jvp(gradient, (theta,), (v,)))(THETA, ALONG)
    expected, slope, hessian = by_hand(np.asarray(THETA, np.float64))
    np.testing.assert_allclose(losses(THETA, batch), expected, rtol=1e-5)
    np.testing.assert_allclose(gradient(THETA), slope, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(curved, hessian @ np.asarray(ALONG, np.float64), rtol=1e-4, atol=1e-5)


def test_prepared_batches_of_many_clients_can_be_stacked() -> None:
    losses = flat_losses(MODEL, unraveller(MODEL))
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[::-1]]), BATCH)
    gradients = jax.vmap(lambda batch: jax.grad(lambda theta: losses(theta, MODEL.prepare(batch)).sum())(THETA))(
        stacked
    )
    expected = by_hand(np.asarray(THETA, np.float64))[1]
    np.testing.assert_allclose(gradients, np.stack([expected, expected]), rtol=1e-4, atol=1e-6)
