"""Clients on a quadratic, where every step can be written down."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns


class Quadratic:
    """l(z) = ||z - c||^2 / 2; the target of step k is c + k."""

    def __init__(self, centre: float) -> None:
        self._centre = centre

    def loss(self, theta: jax.Array, step: int | jax.Array = 0) -> jax.Array:
        return 0.5 * jnp.square(theta - self._centre - step).sum()

    def gradient(self, theta: jax.Array, step: int | jax.Array = 0) -> jax.Array:
        return theta - self._centre - step


def test_sgd() -> None:
    work = ns.clients.sgd(steps=2).reply(Quadratic(2.0), jnp.array([0.0]), None, jnp.float32(0.5))
    # gradients -2 then 1 - 2 - 1 = -2; z goes 0, 1, 2
    np.testing.assert_allclose(work.reply, [2.0])
    np.testing.assert_allclose(work.gradients, [-4.0])
    np.testing.assert_allclose(work.gradients, -work.reply / 0.5)


@pytest.mark.parametrize(("damping", "share"), [(None, 0.5), (1.0, 1.0)])
def test_prox(damping: float | None, share: float) -> None:
    client = ns.clients.prox(mu=2.0, steps=2, momentum=0.5, damping=damping)
    work = client.reply(Quadratic(2.0), jnp.array([1.0]), None, jnp.float32(0.1))
    first = share * (1 - 2)
    z = 1 - 0.1 * first
    second = 0.5 * first + share * ((z - 2 - 1) + 2 * (z - 1))
    np.testing.assert_allclose(work.reply, [z - 0.1 * second - 1], rtol=1e-5)
    np.testing.assert_allclose(work.gradients, [(1 - 2) + (z - 3)], rtol=1e-5)


@pytest.mark.parametrize(("damping", "share"), [(None, 0.25), (1.0, 1.0)])
def test_momentum(damping: float | None, share: float) -> None:
    client = ns.clients.momentum(0.75, damping)
    assert client.init(3, 5).shape == (5, 3)
    work = client.reply(Quadratic(2.0), jnp.array([1.0]), jnp.array([4.0]), jnp.float32(0.1))
    np.testing.assert_allclose(work.reply, [3.0 - share])
    np.testing.assert_allclose(work.memory, work.reply)
    np.testing.assert_allclose(work.gradients, [-1.0])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ns.clients.sgd(steps=0), "steps is 0"),
        (lambda: ns.clients.prox(mu=-1), "mu is -1"),
        (lambda: ns.clients.prox(mu=1, momentum=1.0), r"momentum is 1\.0"),
        (lambda: ns.clients.momentum(-0.1), r"momentum is -0\.1"),
        (lambda: ns.clients.momentum(0.9, damping=0), "damping is 0"),
        (lambda: ns.algorithms.cclip(0.1, momentum=1.0), r"momentum is 1\.0"),
    ],
)
def test_bad_settings(make: object, sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        make()  # type: ignore[operator]
