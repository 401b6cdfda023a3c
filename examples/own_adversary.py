"""Your own adversary: silence the smallest clients first, as many as the law lets it. An adversary only ranks."""

import noshow as ns


def smallest_first():
    return ns.Adversary(lambda state, key, scene: -scene.sizes.astype(float), name="smallest_first")


if __name__ == "__main__":
    federation = ns.datasets.synthetic(1, 1, clients=50)
    for algorithm in (ns.algorithms.fedavg(0.01, steps=5), ns.algorithms.fedavg_variant(0.01, steps=5)):
        history = ns.simulate(
            federation, ns.models.logistic(), algorithm, smallest_first(), sampled=10, epsilon=0.5, rounds=60
        )
        print(history.summary())
        assert history.roll_call.epsilon_t.max() <= 0.5
