"""Your own data set: a list of each client's arrays. With `resampled`, the shadow adversary can rehearse on it too."""

import jax
import numpy as np

import noshow as ns


def two_moons(clients=30, seed=0):
    """Each client sees two half circles, turned by an angle of its own."""

    def draw(rng):
        def client(i, n):
            y, angle = rng.integers(0, 2, n), rng.uniform(0, np.pi, n)
            x = np.stack([np.cos(angle) * (1 - 2 * y) + y, np.sin(angle) * (1 - 2 * y) + y / 2], 1)
            turn = 0.05 * i
            return x @ [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]], y

        parts = [client(i, n=20 + 5 * i) for i in range(clients)]
        return ns.Federation.from_clients(parts, test=client(0, n=500), resampled=copy, name="two_moons")

    def copy(key):
        return draw(np.random.default_rng([seed, 1, *np.asarray(jax.random.key_data(key))]))

    return draw(np.random.default_rng(seed))


if __name__ == "__main__":
    fedavg, cclip = ns.algorithms.fedavg(0.1, steps=5), ns.algorithms.cclip(0.1)
    shadow = ns.adversaries.shadow(fedavg, cclip, pairs=[(2, 20)], candidates=(8, 4))
    model = ns.models.logistic(features=2, classes=2)
    history = ns.simulate(two_moons(), model, fedavg, shadow, sampled=10, epsilon=0.5, rounds=60)
    print(history.summary())
