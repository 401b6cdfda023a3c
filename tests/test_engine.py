"""The engine's promises: the same seed is the same run, pairs are paired, nobody trains in vain."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_federation
from jax.flatten_util import ravel_pytree
from scipy.special import logsumexp

import noshow as ns

A = ns.algorithms
NINE = [
    A.fedavg(0.1, steps=2),
    A.fedavg_variant(0.1, steps=2),
    A.fedprox(0.1, mu=0.1, steps=2),
    A.fedprox_variant(0.1, mu=0.1, steps=2),
    A.mifa(0.1, steps=2),
    A.gm(0.1),
    A.cclip(0.1),
    A.bucketing_gm(0.1),
    A.bucketing_cclip(0.1),
]


REMEMBER_DIFFERENTLY = ("fedavg", "bucketing_gm")
"""Nobody, or clients and server, which also shuffles."""
MOST_ARE_LONG = [
    pytest.param(each, id=each.name, marks=[] if each.name in REMEMBER_DIFFERENTLY else pytest.mark.long)
    for each in NINE
]


def play(algorithm: ns.Algorithm, adversary: ns.Adversary | None = None, **settings: object) -> ns.History:
    defaults = {"sampled": 5, "epsilon": 0.5, "rounds": 12, "evaluate_every": 5}
    adversary = adversary or ns.adversaries.largest_reply()
    model = ns.models.logistic(features=4, classes=3)
    return ns.simulate(small_federation(), model, algorithm, adversary, **(defaults | settings))  # type: ignore[arg-type]


def flat(history: ns.History, seed: int = 0) -> np.ndarray:
    return np.asarray(ravel_pytree(history.models[seed])[0])


@pytest.mark.parametrize("algorithm", MOST_ARE_LONG)
def test_same_seed_same_run_bit_for_bit(algorithm: ns.Algorithm) -> None:
    one, two = play(algorithm, seeds=[7]), play(algorithm, seeds=[7])
    assert np.array_equal(flat(one), flat(two))
    assert np.array_equal(one.roll_call.sampled, two.roll_call.sampled)
    assert np.array_equal(one.roll_call.answered, two.roll_call.answered)
    assert all(np.array_equal(a, b) for a, b in zip(one.scores, two.scores, strict=True))


def test_algorithms_with_one_seed_see_the_same_samples() -> None:
    adversary = ns.adversaries.random_response(0.5)
    calls = [play(algorithm, adversary, epsilon=None, seeds=[3, 4]).roll_call for algorithm in NINE[4:6]]
    assert np.array_equal(calls[0].sampled, calls[1].sampled)
    assert np.array_equal(calls[0].answered, calls[1].answered)
    assert not np.array_equal(calls[0].sampled[0], calls[0].sampled[1])


def test_algorithms_with_one_seed_see_the_same_batches() -> None:
    """FedAvg and the variant with beta = 1 / (the only client's weight) are the same rule, if the batches are."""
    federation = small_federation(1).drawing("step", 2)
    model = ns.models.logistic(features=4, classes=3)
    ends = [
        flat(ns.simulate(federation, model, algorithm, sampled=1, rounds=9))
        for algorithm in (A.fedavg(0.1, steps=3), A.fedavg_variant(0.1, steps=3, beta=1.0), A.mifa(0.1, steps=3))
    ]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)
    np.testing.assert_allclose(ends[0], ends[2], rtol=1e-4)


@pytest.mark.parametrize(
    "algorithm", [NINE[7], pytest.param(NINE[1], marks=pytest.mark.long)], ids=lambda algorithm: algorithm.name
)
def test_several_seeds_at_once_are_the_seeds_one_by_one(algorithm: ns.Algorithm) -> None:
    together = play(algorithm, seeds=[1, 2, 3])
    for place, seed in enumerate([1, 2, 3]):
        alone = play(algorithm, seeds=[seed])
        assert np.array_equal(together.roll_call.sampled[place], alone.roll_call.sampled[0])
        np.testing.assert_allclose(flat(together, place), flat(alone), rtol=1e-4, atol=1e-6)


def test_chance_is_new_every_round() -> None:
    """Both the adversary's own draws and the breaking of ties differ from round to round."""
    indifferent = ns.Adversary(lambda state, key, scene: jnp.zeros(scene.ids.shape))
    for adversary, epsilon in ((ns.adversaries.random_response(0.5), None), (indifferent, 0.5)):
        federation = ns.datasets.synthetic(clients=12, sizes=20)
        history = ns.simulate(
            federation, ns.models.logistic(), A.fedavg(0.1, steps=1), adversary, sampled=12, epsilon=epsilon, rounds=10
        )
        patterns = {tuple(row) for row in history.roll_call.answered[0].tolist()}
        assert len(patterns) > 5


def test_every_seed_starts_from_its_own_model() -> None:
    random_start = ns.Model(
        lambda key: jax.random.normal(key, (4,)), lambda w, batch: (jnp.square(batch[0] @ w), jnp.zeros(len(batch[1])))
    )
    history = ns.simulate(small_federation(), random_start, NINE[0], sampled=3, rounds=0, seeds=[0, 1])
    assert history.scores.train_loss[0, 0] != history.scores.train_loss[1, 0]


def test_how_often_one_looks_changes_nothing() -> None:
    often, seldom = play(NINE[0], evaluate_every=1), play(NINE[0], evaluate_every=100)
    assert np.array_equal(flat(often), flat(seldom))
    assert often.evaluated.tolist() == list(range(13))
    assert seldom.evaluated.tolist() == [0, 12]
    assert play(NINE[0], evaluate_every=5).evaluated.tolist() == [0, 5, 10, 12]


def test_chunks_longer_than_one_program_holds() -> None:
    history = play(NINE[0], rounds=230, evaluate_every=115)
    assert history.evaluated.tolist() == [0, 115, 230]
    assert history.roll_call.sampled.shape == (1, 230, 5)
    short = play(NINE[0], rounds=230, evaluate_every=10)
    assert np.array_equal(flat(history), flat(short))


def test_zero_rounds() -> None:
    history = play(NINE[0], rounds=0)
    assert history.evaluated.tolist() == [0]
    assert history.roll_call.sampled.shape == (1, 0, 5)
    assert history.summary().mean_epsilon_t == 0


def test_the_roll_call_is_k_distinct_clients_and_the_law_holds() -> None:
    federation = small_federation()
    call = play(NINE[0], rounds=60, epsilon=0.7).roll_call
    for t in range(60):
        assert len(set(call.sampled[0, t].tolist())) == 5
        silenced = federation.sizes[call.silenced(0, t)].sum()
        assert call.epsilon_t[0, t] == pytest.approx(silenced / (5 * federation.sizes.sum() / 12))
        assert len(call.responders(0, t)) >= 1
    assert call.epsilon_t.max() <= 0.7
    assert call.epsilon_t.max() > 0


def test_everybody_sampled_and_one_sampled() -> None:
    assert play(NINE[0], sampled=12).roll_call.sampled.shape == (1, 12, 12)
    alone = play(NINE[0], sampled=1, epsilon=0.99)
    assert alone.roll_call.answered.all()


def counting_client(log: list[int]) -> ns.Client:
    def reply(local: ns.LocalData, theta: jax.Array, memory: object, rate: jax.Array) -> ns.Work:
        jax.debug.callback(lambda: log.append(1))
        g = local.gradient(theta)
        return ns.Work(-rate * g, None, g)

    return ns.Client(reply)


@pytest.mark.parametrize("sees", [False, True])
def test_silenced_clients_train_only_if_the_adversary_must_see_them(sees: bool) -> None:
    log: list[int] = []
    algorithm = ns.Algorithm(counting_client(log), ns.servers.average(), ns.rates.constant(0.1))
    adversary = ns.Adversary(lambda state, key, scene: scene.sizes.astype(float), sees_replies=sees)
    call = play(algorithm, adversary, epsilon=0.8).roll_call
    jax.effects_barrier()
    assert not call.answered.all()
    assert len(log) == (call.answered.size if sees else call.answered.sum())


def test_a_silenced_clients_memory_does_not_move() -> None:
    """The only client's momentum, by hand: it answers in rounds 0 and 2, and round 1 leaves no trace."""
    x = np.array([[1.0], [3.0]], np.float32)
    model = ns.Model(
        lambda key: jnp.zeros(1), lambda w, batch: (0.5 * jnp.square(batch - w)[:, 0], jnp.zeros(len(batch)))
    )
    in_round_one = ns.Adversary(
        lambda state, key, scene: jnp.where(scene.t == 1, 0.0, -jnp.inf)[None], lawful=False, name="in_round_one"
    )
    algorithm = ns.Algorithm(ns.clients.momentum(0.9), ns.servers.average(), ns.rates.constant(1.0))
    history = ns.simulate(ns.Federation.from_clients([x], test=x), model, algorithm, in_round_one, sampled=1, rounds=3)
    assert history.roll_call.answered[0, :, 0].tolist() == [True, False, True]
    first = 0.1 * (0.0 - 2.0)  # m = 0.9 * 0 + 0.1 g, g = theta - mean(x)
    theta = 0.0 - first
    second = 0.9 * first + 0.1 * (theta - 2.0)
    np.testing.assert_allclose(flat(history), [theta - second], rtol=1e-6)


def plain_metrics(params: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    logits = x.astype(np.float64) @ np.asarray(params["weights"], np.float64).T + np.asarray(params["bias"])
    losses = logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]
    return float(losses.mean()), float((logits.argmax(1) == y).mean())


def test_metrics_are_the_plain_means() -> None:
    federation, history = small_federation(), play(NINE[1])
    train_loss, _ = plain_metrics(history.models[0], *federation.data)
    test_loss, accuracy = plain_metrics(history.models[0], *federation.test)
    assert history.scores.train_loss[0, -1] == pytest.approx(train_loss, rel=1e-5)
    assert history.scores.test_loss[0, -1] == pytest.approx(test_loss, rel=1e-5)
    assert history.scores.test_accuracy[0, -1] == pytest.approx(accuracy)


def test_train_loss_weighs_clients_by_what_they_draw() -> None:
    federation = small_federation().drawing("round", 20)
    model = ns.models.logistic(features=4, classes=3)
    history = ns.simulate(federation, model, NINE[0], sampled=3, rounds=4)
    each = [plain_metrics(history.models[0], *federation.of_client(i))[0] for i in range(12)]
    assert history.scores.train_loss[0, -1] == pytest.approx(float(federation.weights @ np.array(each)), rel=1e-5)


def test_watch_sees_every_evaluation() -> None:
    seen: list[tuple[int, float]] = []
    history = play(NINE[0], watch=lambda t, metrics: seen.append((t, float(metrics.train_loss[0]))))
    assert seen == list(zip(history.evaluated.tolist(), history.scores.train_loss[0].tolist(), strict=True))


MANY_DEVICES = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
import numpy as np
import noshow as ns
from jax.flatten_util import ravel_pytree
assert len(jax.devices()) == int(sys.argv[1])
sizes = [30, 5000, 40, 60, 20, 80, 300, 50, 90]  # one client outweighs the others: devices share its full batch
rng = np.random.default_rng(0)
clients = [(rng.normal(size=(n, 60)).astype(np.float32), rng.integers(0, 10, n).astype(np.int32)) for n in sizes]
federation = ns.Federation.from_clients(clients, test=clients[0])
if sys.argv[2] == "step":
    federation = federation.drawing("step", 32)
history = ns.simulate(federation, ns.models.logistic(), ns.algorithms.mifa(0.01, steps=3),
                      ns.adversaries.random_response(0.7), sampled=5, rounds=7, seeds=[0, 1])
for model in history.models:
    print(" ".join(map(str, np.asarray(ravel_pytree(model)[0]).tolist())))
"""


@pytest.mark.slow
@pytest.mark.parametrize("batches", ["full", pytest.param("step", marks=pytest.mark.long)])
def test_the_number_of_devices_does_not_matter(batches: str) -> None:
    """To the bit where each client trains on one device; to rounding where devices share a client's full batch."""

    def models(devices: int) -> np.ndarray:
        command = [sys.executable, "-c", MANY_DEVICES, str(devices), batches]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return np.array([[float(number) for number in line.split()] for line in shown.splitlines()])

    one = models(1)
    assert one.shape == (2, 610)
    for many in (models(2), models(3), models(4)):
        if batches == "step":
            assert np.array_equal(one, many)
        else:
            np.testing.assert_allclose(one, many, rtol=1e-4, atol=1e-6)
            assert not np.array_equal(one, many), "no client was shared: the case would prove nothing"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sampled": 13}, "sampled is 13, but there are 12 clients"),
        ({"sampled": 0}, "sampled is 0"),
        ({"rounds": -1}, "rounds is -1"),
        ({"rounds": 2**31}, "rounds is 2147483648"),
        ({"evaluate_every": 0}, "evaluate_every is 0"),
        ({"seeds": []}, "seeds is empty"),
        ({"seeds": [1, 1]}, "repeat"),
        ({"seeds": [-1]}, "whole numbers from 0"),
        ({"epsilon": None}, "acts under the law"),
        ({"epsilon": 1.0}, r"epsilon is 1\.0"),
        ({"adversary": ns.adversaries.random_response(0.5)}, "law off: leave epsilon out"),
    ],
)
def test_bad_settings_are_one_sentence(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence) as caught:
        play(NINE[0], **settings)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_many_clients_at_once_as_on_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accelerators run blocks of clients vectorised over large tiles; here on the CPU, to the same model."""
    for algorithm, adversary in ((NINE[1], ns.adversaries.largest_reply()), (NINE[7], smallest_first())):
        expected = play(algorithm, adversary, seeds=[1, 2])
        with monkeypatch.context() as patched:
            patched.setattr("noshow.devices.on_cpu", lambda: False)
            got = play(algorithm, adversary, seeds=[1, 2])
        assert np.array_equal(got.roll_call.answered, expected.roll_call.answered)
        for seed in (0, 1):
            np.testing.assert_allclose(flat(got, seed), flat(expected, seed), rtol=1e-4, atol=1e-6)


def smallest_first() -> ns.Adversary:
    return ns.Adversary(lambda state, key, scene: -scene.sizes.astype(float), name="smallest_first")


@pytest.mark.parametrize(
    ("algorithm", "adversary", "sentence"),
    [
        (
            NINE[0],
            ns.Adversary(lambda state, key, scene: scene.theta, name="mine"),
            r"the adversary 'mine' returned shape \[15\]: it must be \[5\], one score a sampled client",
        ),
        (
            ns.Algorithm(
                ns.Client(lambda local, theta, memory, rate: ns.Work(theta[:3])),
                ns.servers.average(),
                ns.rates.constant(1.0),
                "short",
            ),
            smallest_first(),
            r"the client of 'short' returned shape \[3\]: it must be \[15\]",
        ),
        (
            ns.Algorithm(
                ns.Client(
                    lambda local, theta, memory, rate: ns.Work(theta, memory[:2]),
                    lambda d, clients: jnp.zeros((clients, 7)),
                ),
                ns.servers.average(),
                ns.rates.constant(1.0),
                "forgetful",
            ),
            smallest_first(),
            r"the client of 'forgetful' keeps a memory of float32\[2\], but its `init` made float32\[7\]",
        ),
        (
            ns.Algorithm(
                ns.Client(lambda local, theta, memory, rate: theta),  # type: ignore[arg-type, return-value]
                ns.servers.average(),
                ns.rates.constant(1.0),
                "bare",
            ),
            smallest_first(),
            r"the client of 'bare' must return noshow\.Work",
        ),
        (
            ns.Algorithm(
                ns.clients.sgd(),
                ns.servers.remember(lambda points, weights, key: points),
                ns.rates.constant(1.0),
                "wide",
            ),
            smallest_first(),
            r"the aggregator returned shape \[12, 15\]: it must return one point \[15\]",
        ),
    ],
    ids=["adversary", "client", "memory", "bare reply", "aggregator"],
)
def test_a_part_that_returns_the_wrong_shape_is_named(
    algorithm: ns.Algorithm, adversary: ns.Adversary, sentence: str
) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        play(algorithm, adversary)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (ns.models.logistic(features=5, classes=3), "the model 'logistic' cannot read the data of 'small': "),
        (ns.models.logistic(features=4, classes=2), "there are 2 classes, but 'small' has labels from 0 to 2"),
        (
            ns.Model(lambda key: jnp.zeros(3), lambda w, batch: (jnp.zeros(()), jnp.zeros(())), "mean"),
            r"the model 'mean' returned shapes \[\[\], \[\]\] for one example",
        ),
    ],
    ids=["features", "classes", "shapes"],
)
def test_a_model_that_cannot_serve_the_data_is_told(model: ns.Model, sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence) as caught:
        ns.simulate(small_federation(), model, NINE[0], sampled=3, rounds=2)
    assert "\n" not in str(caught.value)


def test_a_bad_epsilon_is_told_before_the_adversary_prepares() -> None:
    def never(key: jax.Array, federation: ns.Federation, model: ns.Model) -> None:
        raise AssertionError("prepared in vain")

    adversary = ns.Adversary(lambda state, key, scene: scene.weights, never)
    with pytest.raises(ns.NoshowError, match="epsilon is 2"):
        play(NINE[0], adversary, epsilon=2.0)


@pytest.mark.parametrize("algorithm", MOST_ARE_LONG)
def test_a_resumed_run_is_the_same_run_bit_for_bit(algorithm: ns.Algorithm) -> None:
    def begin() -> ns.Simulation:
        return ns.Simulation(
            small_federation().drawing("step", 6),
            ns.models.logistic(features=4, classes=3),
            algorithm,
            ns.adversaries.largest_reply(),
            sampled=5,
            epsilon=0.5,
            rounds=12,
            evaluate_every=5,
            seeds=[3, 4],
        )

    def to_the_end(run: ns.Simulation) -> ns.History:
        while not run.done:
            run.advance()
        return run.history()

    whole = to_the_end(begin())
    first, second = begin(), begin()
    first.advance()
    assert 0 < first.t < 12
    second.resume(first.snapshot())
    resumed = to_the_end(second)
    assert resumed.metrics.equals(whole.metrics)
    assert resumed.roll_call_table.equals(whole.roll_call_table)
    assert all(np.array_equal(flat(resumed, seed), flat(whole, seed)) for seed in (0, 1))


def test_a_snapshot_of_another_experiment_is_told() -> None:
    model = ns.models.logistic(features=4, classes=3)
    one = ns.Simulation(small_federation(), model, NINE[0], sampled=3, rounds=4)
    other = ns.Simulation(small_federation(), model, NINE[4], sampled=3, rounds=4)
    with pytest.raises(ns.NoshowError, match="it belongs to another experiment"):
        other.resume(one.snapshot())


def test_evaluation_on_some_of_the_examples() -> None:
    """At most 24 train examples of 12 clients: two each, the first and the one in the middle."""
    federation, history = small_federation(), play(NINE[1], evaluate_on=24)
    everything = play(NINE[1])
    assert np.array_equal(flat(history), flat(everything))
    losses = []
    for i in range(12):
        x, y = federation.of_client(i)
        rows = [0, len(y) // 2]
        losses.append(plain_metrics(history.models[0], x[rows], y[rows])[0])
    assert history.scores.train_loss[0, -1] == pytest.approx(float(federation.weights @ np.array(losses)), rel=1e-5)
    x, y = federation.test
    rows = [k * 50 // 24 for k in range(24)]
    assert history.scores.test_accuracy[0, -1] == pytest.approx(plain_metrics(history.models[0], x[rows], y[rows])[1])
    np.testing.assert_allclose(play(NINE[1], evaluate_on=10**6).scores, everything.scores, rtol=1e-5)
