"""Federations and settings at their edges run as arithmetic says, and parts of one's own that are wrong are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns
from noshow.contracts import Array

MEAN = ns.Model(
    lambda key: jnp.zeros(2), lambda theta, x: (0.5 * jnp.square(x - theta).sum(-1), jnp.zeros(len(x))), "mean"
)
"""F_i(theta) = mean ||x - theta||^2 / 2: a step of rate r moves theta by r (mean of the client's x - theta)."""
RATE = 0.5


def federation(*clients: Sequence[Sequence[float]]) -> ns.Federation:
    return ns.Federation.from_clients([np.array(x, np.float32) for x in clients], test=np.zeros((1, 2), np.float32))


def end(data: ns.Federation, algorithm: ns.Algorithm | None = None, **settings: object) -> np.ndarray:
    algorithm = algorithm or ns.algorithms.fedavg_variant(RATE, steps=1)
    defaults = {"adversary": ns.adversaries.largest_reply(), "sampled": 1, "rounds": 1, "epsilon": 0.5}
    history = ns.simulate(data, MEAN, algorithm, **(defaults | settings))  # type: ignore[arg-type]
    return np.asarray(history.models[0])


def test_one_client() -> None:
    # The last one left always answers: theta = 0.5 (mean - 0).
    np.testing.assert_allclose(end(federation([[2, 4], [4, 8]])), [1.5, 3.0])


def test_everybody_is_sampled() -> None:
    # beta = 1 and epsilon = 0: theta = 0.5 (2/3 (1, 1) + 1/3 (4, 4)).
    data = federation([[1, 1], [1, 1]], [[4, 4]])
    np.testing.assert_allclose(end(data, sampled=2, epsilon=0.0), [1.0, 1.0], rtol=1e-6)


def test_epsilon_near_one_leaves_one() -> None:
    data = federation(*[[[k + 1, 0]] for k in range(10)])
    history = ns.simulate(
        data,
        MEAN,
        ns.algorithms.fedavg_variant(RATE, steps=1),
        ns.adversaries.largest_reply(),
        sampled=10,
        rounds=1,
        epsilon=0.999999,
    )
    # 9.99999 clients may go silent: all but the shortest reply, which is the first client's, 0.5 (1, 0) / 10.
    assert history.roll_call.responders(0, 0).tolist() == [0]
    np.testing.assert_allclose(np.asarray(history.models[0]), [0.05, 0.0], rtol=1e-6)


@pytest.mark.long
def test_sizes_of_all_magnitudes() -> None:
    large = np.ones((1_000_000, 2), np.float32)
    data = ns.Federation.from_clients(
        [large, *(np.full((1, 2), 5, np.float32) for _ in range(3))], test=np.zeros((1, 2), np.float32)
    )
    exact = RATE * (1_000_000 * 1 + 3 * 5) / 1_000_003
    np.testing.assert_allclose(end(data, sampled=4, epsilon=0.0), [exact, exact], rtol=1e-5)
    # The law lets 0.9 x 4 x 250,000.75 examples go silent, fewer than the large one holds: only small ones go.
    history = ns.simulate(
        data, MEAN, ns.algorithms.fedavg(RATE), ns.adversaries.largest_reply(), sampled=4, rounds=5, epsilon=0.9
    )
    assert history.roll_call.answered[history.roll_call.sampled == 0].all()


def test_a_million_clients_of_one_example() -> None:
    clients = 1_000_000
    x = np.ones((clients, 2), np.float32)
    data = ns.Federation(x, np.ones(clients, int), x[:1])
    np.testing.assert_allclose(end(data, sampled=10, evaluate_on=100, epsilon=0.0), [0.5, 0.5], rtol=1e-6)


def test_one_class_and_no_rounds() -> None:
    x, y = np.ones((4, 3), np.float32), np.zeros(4, np.int32)
    data = ns.Federation.from_clients([(x, y), (x, y)], test=(x, y))
    model = ns.models.logistic(features=3, classes=2)
    history = ns.simulate(data, model, ns.algorithms.fedavg(1.0), sampled=2, rounds=0)
    assert history.scores.train_loss.tolist() == pytest.approx(np.full((1, 1), np.log(2)))
    assert history.roll_call.sampled.shape == (1, 0, 2)
    trained = ns.simulate(data, model, ns.algorithms.fedavg(1.0), sampled=2, rounds=3)
    assert trained.scores.test_accuracy[0, -1] == 1.0


TWO = federation([[1, 1]], [[2, 2]])
ANY = ns.rates.constant(RATE)


def algorithm(client: ns.Client | None = None, server: ns.Server | None = None, rate: object = ANY) -> ns.Algorithm:
    return ns.Algorithm(client or ns.clients.sgd(1), server or ns.servers.average(), rate, name="mine")  # type: ignore[arg-type]


def remembering(aggregator: Callable[..., object]) -> ns.Algorithm:
    return algorithm(server=ns.servers.remember(aggregator))  # type: ignore[arg-type]


def nothing(params: None, x: Array) -> tuple[Array, Array]:
    return x.sum(-1), jnp.zeros(len(x))


def classified(
    labels: list[float],
    test: list[float] | None = None,
    model: ns.Model | None = None,
    shape: tuple[int, ...] = (4,),
) -> object:
    """A run on one client with these labels, in a list beside its inputs."""
    x = np.zeros((len(labels), *shape), np.float32)
    data = ns.Federation.from_clients([[x, np.array(labels)]], test=[x, np.array(test or [0.0] * len(labels))])
    return ns.simulate(data, model or ns.models.logistic(4, 3), algorithm(), sampled=1, rounds=1)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "rounds": (lambda: end(TWO, rounds=2.5), "rounds is 2.5: give a whole number"),
    "sampled": (lambda: end(TWO, sampled="1"), "sampled is '1': give a whole number"),
    "seeds": (lambda: end(TWO, seeds=[True]), "seeds is True: give a whole number"),
    "aggregator, shape": (
        lambda: end(TWO, remembering(lambda points, weights, key: points)),
        r"the aggregator returned shape \[2, 2\]: it must return one point \[2\] for points \[2, 2\]",
    ),
    "aggregator, nothing": (
        lambda: end(TWO, remembering(lambda points, weights, key: None)),
        "the aggregator returned no array",
    ),
    "server, no pair": (
        lambda: end(TWO, algorithm(server=ns.Server(lambda state, theta, replies, rate: theta[None]))),  # type: ignore[arg-type,return-value]
        "the server of 'mine' returned no pair",
    ),
    "server, memory": (
        lambda: end(TWO, algorithm(server=ns.Server(lambda state, theta, replies, rate: (jnp.zeros(3), theta)))),
        r"the server of 'mine' keeps a memory of float32\[3\], but its `init` made None",
    ),
    "server, type": (
        lambda: end(TWO, algorithm(server=ns.Server(lambda state, theta, *_: (state, theta.astype(int))))),
        "the server of 'mine' returned numbers of type int32: they must be float32",
    ),
    "client, type": (
        lambda: end(TWO, algorithm(ns.Client(lambda local, theta, *_: ns.Work(theta.astype(int))))),
        "the client of 'mine' returned numbers of type int32: they must be float32",
    ),
    "adversary": (
        lambda: end(TWO, adversary=ns.Adversary(lambda state, key, scene: jnp.zeros(7), name="odd")),
        r"the adversary 'odd' returned shape \[7\]: it must be \[1\], one score a sampled client",
    ),
    "adversary, a list": (
        lambda: end(TWO, adversary=ns.Adversary(lambda state, key, scene: [1.0], name="odd")),  # type: ignore[arg-type,return-value]
        "the adversary 'odd' returned a list: it must be an array of numbers",
    ),
    "adversary, a mask": (
        lambda: end(TWO, adversary=ns.Adversary(lambda state, key, scene: scene.ids > 0, name="odd")),
        "the adversary 'odd' returned truth values: it must be an array of numbers, -inf for whom it leaves alone",
    ),
    "steps": (lambda: ns.algorithms.fedavg(0.1, steps=25.0), r"steps is 25\.0: give a whole number"),  # type: ignore[arg-type]
    "diagnose": (lambda: end(TWO, diagnose=True), "diagnose is True: give noshow.Diagnose"),
    "batch size": (lambda: TWO.drawing("round", 1.5), r"batch_size is 1\.5: give a whole number"),  # type: ignore[arg-type]
    "rate, a number": (lambda: end(TWO, algorithm(rate=0.1)), r"the rate is 0\.1: give a function"),
    "test data": (
        lambda: end(ns.Federation.from_clients([np.ones((1, 2), np.float32)], test=np.ones((1, 3), np.float32))),
        "the model 'mean' cannot read the test data of 'federation'",
    ),
    "labels in lists": (lambda: classified([2, 5]), "there are 3 classes, but 'federation' has labels from 2 to 5"),
    "labels of the test": (lambda: classified([0, 2], [0, 3]), "has test labels from 0 to 3: give labels from 0 to 2"),
    "labels between classes": (lambda: classified([0.5, 1.0]), "has labels that are no whole numbers"),
    "labels of a module": (
        lambda: classified([0, 2], model=ns.models.from_flax(nn.Dense(2), jnp.zeros((1, 4)))),
        "there are 2 classes, but 'federation' has labels from 0 to 2",
    ),
    "labels of images": (
        lambda: classified([0, 12], model=ns.models.lenet5(), shape=(32, 32, 3)),
        "there are 10 classes, but 'federation' has labels from 0 to 12",
    ),
    "rate": (lambda: end(TWO, algorithm(rate=lambda t: "fast")), "the rate of round 0 is 'fast': give a function"),
    "model, nothing": (
        lambda: ns.simulate(TWO, ns.Model(lambda key: None, nothing), algorithm(), sampled=1, rounds=1),
        "the model 'model' has no parameters",
    ),
    "model, init": (
        lambda: ns.simulate(TWO, MEAN._replace(init=lambda key: jnp.zeros(2, int)), algorithm(), sampled=1, rounds=1),
        "`init` of the model 'mean' returned int32: its numbers must be float32",
    ),
    "model, measure": (
        lambda: ns.simulate(
            TWO,
            MEAN._replace(measure=lambda theta, x: (x.sum(-1), jnp.zeros(len(x), bool))),
            algorithm(),
            sampled=1,
            rounds=1,
        ),
        "`measure` of the model 'mean' returned bool: its numbers must be float32",
    ),
    "an empty client": (lambda: federation([[1, 1]], np.zeros((0, 2))), "client 1 holds no examples"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told(name: str) -> None:
    wrong, sentence = WRONG[name]
    with pytest.raises(ns.NoshowError, match=sentence):
        wrong()
