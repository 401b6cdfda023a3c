"""Your own aggregation rule: no point counts for more than the median length. A rule is one function."""

import jax.numpy as jnp

import noshow as ns


def median_length(points, weights, key):
    length = jnp.linalg.norm(points, axis=1)
    shrink = jnp.minimum(1.0, jnp.median(length) / jnp.maximum(length, 1e-9))
    return (weights * shrink) @ points / weights.sum()


mine = ns.Algorithm(
    ns.clients.sgd(steps=5), ns.servers.remember(median_length), ns.rates.constant(0.01), "median_length"
)

if __name__ == "__main__":
    federation = ns.datasets.synthetic(1, 1, clients=50)
    for algorithm in (mine, ns.algorithms.mifa(rate=0.01, steps=5)):
        history = ns.simulate(federation, ns.models.logistic(), algorithm, sampled=10, rounds=60)
        print(history.summary())
