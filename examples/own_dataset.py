"""Your own data set: a list of each client's arrays. With `resampled`, the shadow adversary can rehearse on it too."""

import jax
import numpy as np

import noshow as ns


def turning_lines(seed=0):
    def client(rng, i, n):
        x = rng.normal(size=(n, 2))
        return x, x @ [np.cos(i / 10), np.sin(i / 10)] > 0  # each client splits the plane along its own line

    def draw(*stream):
        rng = np.random.default_rng([seed, *stream])
        parts, test = [client(rng, i, n=20 + 5 * i) for i in range(30)], client(rng, 0, n=500)
        return ns.Federation.from_clients(parts, test, resampled=lambda key: draw(*jax.random.key_data(key).tolist()))

    return draw()


if __name__ == "__main__":
    fedavg, cclip = ns.algorithms.fedavg(0.1, steps=5), ns.algorithms.cclip(0.1)
    shadow = ns.adversaries.shadow(fedavg, cclip, pairs=[(2, 20)], candidates=(8, 4))
    model = ns.models.logistic(features=2, classes=2)
    history = ns.simulate(turning_lines(), model, fedavg, shadow, sampled=10, epsilon=0.5, rounds=60)
    print(history.summary())
