"""Clients that sleep at night: one part of each kind, for noshow to find by name."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import noshow as ns
from noshow.contracts import Array, Batch, Key, Memory, Params, Points, Rate, Vector, Weights


def asleep(day: int = 24) -> ns.Adversary:
    """Client i sleeps through a third of every day of so many rounds, in a time zone of its own."""

    def score(state: Memory, key: Key, scene: ns.Scene) -> Array:
        sleeping = (scene.t + scene.ids) % day < day // 3
        return jnp.where(sleeping, 1.0, -jnp.inf)

    return ns.Adversary(score, name="asleep", lawful=False)


def fedmedian(rate: float | Rate, steps: int = 5) -> ns.Algorithm:
    """Local SGD, and the median of every coordinate over the latest replies of all clients."""

    def median(points: Points, weights: Weights, key: Key) -> Vector:
        return jnp.median(points, axis=0)

    return ns.Algorithm(ns.clients.sgd(steps), ns.servers.remember(median), ns.rates.as_rate(rate), name="fedmedian")


def rings(clients: int = 10, examples: int = 40, seed: int = 0) -> ns.Federation:
    """Points on two rings around the origin; a client sees one side of them."""
    rng = np.random.default_rng(seed)

    def side(centre: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        ring = rng.integers(0, 2, count)
        angle = rng.normal(centre, 0.7, count)
        x = (1 + ring)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.normal(0, 0.1, (count, 2))
        return x.astype(np.float32), ring.astype(np.int32)

    data = [side(2 * np.pi * k / clients, examples) for k in range(clients)]
    return ns.Federation.from_clients(data, test=side(0.0, 200), name="rings")


def perceptron(hidden: int = 16) -> ns.Model:
    """One hidden layer, two classes, two features."""

    def init(key: Key) -> Params:
        first, second = jax.random.split(key)
        return {"in": jax.random.normal(first, (2, hidden)), "out": jax.random.normal(second, (hidden, 2)) / hidden}

    def measure(params: Params, batch: Batch) -> tuple[Array, Array]:
        x, y = batch
        logits = jnp.tanh(x @ params["in"]) @ params["out"]
        losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]
        return losses, (logits.argmax(1) == y).astype(jnp.float32)

    return ns.Model(init, measure, name="perceptron")
