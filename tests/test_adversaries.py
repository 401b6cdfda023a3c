"""Whom the adversaries want silent, on cases that can be told by hand."""

from __future__ import annotations

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns
from noshow import budget
from noshow.randomness import Purpose, run_key
from noshow.rehearsal import rehearse

V = ns.adversaries
KEY = jax.random.key(0)
shadow_module = importlib.import_module("noshow.adversaries.shadow")  # the name `shadow` there is the function


def scene(t: int = 0, ids: tuple[int, ...] = (0, 1, 2), gradients: object = None) -> ns.Scene:
    k = len(ids)
    return ns.Scene(
        jnp.asarray(t),
        jnp.asarray(ids),
        jnp.full(k, 10),
        jnp.linspace(0.1, 0.3, k),
        jnp.zeros(2),
        None,
        gradients,  # type: ignore[arg-type]
    )


def test_nobody() -> None:
    assert np.all(np.asarray(V.nobody().score(None, KEY, scene())) == -np.inf)


def test_anybody_is_as_likely_as_anybody_else_and_the_law_is_used_up() -> None:
    scores = V.anybody().score(None, KEY, scene(ids=(4, 0, 3, 1, 2)))
    keys = jax.random.split(KEY, 2000)
    silent = np.asarray(jax.vmap(lambda key: budget.silence(key, scores, jnp.full(5, 10), 35))(keys))
    assert np.all(silent.sum(1) == 3)
    np.testing.assert_allclose(silent.mean(0), 0.6, atol=0.05)  # standard deviation 0.011


def test_largest_reply_weighs_the_gradients() -> None:
    adversary = V.largest_reply()
    assert adversary.sees_replies
    gradients = jnp.array([[3.0, 4.0], [0.0, 1.0], [2.0, 0.0]])
    np.testing.assert_allclose(adversary.score(None, KEY, scene(gradients=gradients)), [0.5, 0.2, 0.6], rtol=1e-6)


def test_largest_reply_needs_gradients(federation: ns.Federation, model: ns.Model) -> None:
    mute = ns.Client(lambda local, theta, memory, rate: ns.Work(-rate * local.gradient(theta)))
    algorithm = ns.Algorithm(mute, ns.servers.average(), ns.rates.constant(0.1))
    with pytest.raises(ns.NoshowError, match="largest_reply ranks by gradients"):
        ns.simulate(federation, model, algorithm, V.largest_reply(), sampled=3, epsilon=0.5, rounds=1)


def test_round_robin_takes_turns(model: ns.Model) -> None:
    federation = ns.datasets.synthetic(clients=12, sizes=10)
    adversary = V.round_robin(groups=4, period=100)
    state = adversary.init(KEY, federation, model)
    groups = np.asarray(state[0])
    assert np.bincount(groups).tolist() == [3, 3, 3, 3]
    assert not np.array_equal(groups, adversary.init(jax.random.key(1), federation, model)[0])
    # In the paper's count, rounds 100(i-1) < t <= 100 i have group i mod r silent; our round t is its round t + 1.
    for t in (0, 99, 100, 299, 300, 1234):
        turn = -(-(t + 1) // 100) % 4
        scores = np.asarray(adversary.score(state, KEY, scene(t, tuple(range(12)))))
        assert np.array_equal(scores > -np.inf, groups == turn)


def test_random_response(model: ns.Model) -> None:
    federation = ns.datasets.synthetic(clients=3, sizes=10)
    adversary = V.random_response([0.0, 0.3, 1.0])
    state = adversary.init(KEY, federation, model)
    keys = jax.random.split(KEY, 4000)
    silent = np.asarray(jax.vmap(lambda key: adversary.score(state, key, scene()))(keys)) > -np.inf
    assert silent[:, 0].all()
    assert not silent[:, 2].any()
    assert silent[:, 1].mean() == pytest.approx(0.7, abs=0.03)


def test_law_off_can_silence_a_whole_round_and_the_model_stays(federation: ns.Federation, model: ns.Model) -> None:
    history = ns.simulate(
        federation,
        model,
        ns.algorithms.fedavg(0.1, steps=2),
        V.random_response(0.0),
        sampled=4,
        rounds=5,
        evaluate_every=1,
    )
    assert not history.roll_call.answered.any()
    assert len(set(history.scores.train_loss[0].tolist())) == 1
    expected = federation.sizes[history.roll_call.sampled[0]].sum(1) / (4 * federation.sizes.mean())
    np.testing.assert_allclose(history.roll_call.epsilon_t[0], expected)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: V.round_robin(groups=1), "groups is 1"),
        (lambda: V.round_robin(groups=3, period=0), "period is 0"),
        (lambda: V.random_response(1.5), r"probability is 1\.5"),
        (lambda: V.random_response([[0.5]]), "one number a client"),  # type: ignore[list-item]
    ],
)
def test_bad_settings(make: object, sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("adversary", "sentence"),
    [
        (V.round_robin(groups=40), "40 groups for 12 clients"),
        (V.random_response([0.5, 0.5]), "2 probabilities for 12 clients"),
        (V.shadow(ns.algorithms.fedavg(0.1), ns.algorithms.cclip(0.1)), "35 candidates of 12 clients"),
        (V.shadow(ns.algorithms.fedavg(0.1), ns.algorithms.cclip(0.1), candidates=(2, 2)), "'small' cannot draw"),
    ],
)
def test_an_adversary_that_the_data_cannot_serve(
    adversary: ns.Adversary, sentence: str, federation: ns.Federation, model: ns.Model
) -> None:
    epsilon = 0.5 if adversary.lawful else None
    with pytest.raises(ns.NoshowError, match=sentence):
        ns.simulate(federation, model, ns.algorithms.fedavg(0.1), adversary, sampled=4, epsilon=epsilon, rounds=1)


class TestShadow:
    fedavg = ns.algorithms.fedavg(0.05, steps=3)
    cclip = ns.algorithms.cclip(0.05)

    def federation(self) -> ns.Federation:
        return ns.datasets.synthetic(clients=10, sizes=30, seed=2)

    def test_candidates_by_hand(self) -> None:
        seen = shadow_module.Changes(np.array([5.0, 1, 4, 0, 3]), np.array([9.0, 2, 8, 7, 1]))
        # C1 = {0, 2}; of the others, 3 has the largest change under cclip.
        assert shadow_module._values(seen, 2, 1, "random").tolist() == [0, -np.inf, 0, 0, -np.inf]
        assert shadow_module._values(seen, 2, 1, "score").tolist() == [3, -np.inf, 2, 1, -np.inf]
        assert shadow_module._values(seen, 5, 0, "random").tolist() == [0] * 5
        assert shadow_module._values(seen, 5, 0, "score").tolist() == [5, 2, 4, 1, 3]

    def test_rehearsal_is_full_participation_on_the_copy(self) -> None:
        """The norms of round 0, from theta = 0, worked out for each client of the copy on its own."""
        model = ns.models.logistic()
        copy = self.federation().resample(jax.random.key(4))
        one_step = ns.algorithms.fedavg(0.05, steps=1)
        norms = rehearse(copy, model, one_step, rounds=2, seed=0, probe=shadow_module._gradient_norms)
        assert norms.shape == (2, 10)
        for client in range(10):
            x, y = copy.of_client(client)
            error = np.full((len(y), 10), 0.1) - np.eye(10)[y]
            gradient = np.concatenate([error.mean(0), (error.T @ x / len(y)).ravel()])
            assert norms[0, client] == pytest.approx(np.linalg.norm(gradient), rel=1e-4)

    def test_momentum_norms_start_at_a_tenth_of_the_gradient(self) -> None:
        model = ns.models.logistic()
        copy = self.federation()
        one_step = ns.algorithms.fedavg(0.05, steps=1)
        gradients = rehearse(copy, model, one_step, rounds=1, seed=0, probe=shadow_module._gradient_norms)
        momenta = rehearse(copy, model, self.cclip, rounds=1, seed=0, probe=shadow_module._reply_norms)
        np.testing.assert_allclose(momenta[0], 0.1 * gradients[0], rtol=1e-4)

    def test_changes_add_up_over_pairs_on_an_independent_copy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        federation = self.federation()
        norms = {
            "fedavg": np.array([[9.0, 5, 1], [2, 5, 4], [9, 1, 1], [9, 5, 7]]),  # rounds 0 … 3 of three clients
            "cclip": np.array([[0.0, 0, 0], [0, 1, 0], [3, 0, 0], [0, 0, 9]]),
        }
        played_on: list[ns.Federation] = []

        def told(copy: ns.Federation, model: ns.Model, algorithm: ns.Algorithm, **settings: object) -> np.ndarray:
            assert settings["rounds"] == 4  # up to the last T2, counting from round 0
            played_on.append(copy)
            return np.pad(norms[algorithm.name], ((0, 0), (0, 7)))

        monkeypatch.setattr(shadow_module, "rehearse", told)
        adversary = V.shadow(self.fedavg, self.cclip, pairs=[(0, 1), (2, 3)], candidates=(2, 1), order="score")
        scores = adversary.init(KEY, federation, ns.models.logistic())
        # FedAvg's changes: |2-9| + |9-9| = 7, |5-5| + |5-1| = 4, |4-1| + |7-1| = 9. cclip's of those left: client 1.
        assert np.asarray(scores)[:4].tolist() == [2.0, 1.0, 3.0, -np.inf]
        assert len(played_on) == 2
        for copy in played_on:
            assert copy.held.tolist() == federation.held.tolist()
            assert not np.array_equal(copy.data[0], federation.data[0])

    def test_a_rehearsal_that_overflows_is_played_from_another_first_model(self) -> None:
        """A third of the first models overflow; from the others clients with full batches change as they always do."""

        def strays(key: ns.Key) -> ns.Array:
            return jax.random.bernoulli(key, 0.3)

        calm, federation, pairs = ns.models.logistic(), self.federation(), [(0, 1)]
        straying = calm._replace(
            init=lambda key: jax.tree.map(lambda w: jnp.where(strays(key), jnp.nan, w), calm.init(key))
        )
        seed = next(seed for seed in range(20) if strays(run_key(seed, Purpose.MODEL)))
        expected = shadow_module.changes(federation, calm, self.fedavg, None, pairs, seed)
        found = shadow_module.changes(federation, straying, self.fedavg, None, pairs, seed)
        np.testing.assert_allclose(found, expected, rtol=1e-5)

    def test_a_rehearsal_that_overflows_is_not_played_to_its_end(self) -> None:
        wild = ns.algorithms.fedavg(1e30, steps=1)
        norms = shadow_module._reply_norms
        seen = rehearse(self.federation(), ns.models.logistic(), wild, rounds=900, seed=0, probe=norms)
        assert len(seen) < 300
        assert not np.isfinite(seen).all()

    def test_a_rehearsal_that_always_overflows_is_told(self) -> None:
        lost = ns.models.logistic()._replace(
            init=lambda key: {"bias": jnp.full(10, jnp.inf), "weights": jnp.zeros((10, 60))}
        )
        adversary = V.shadow(self.fedavg, self.cclip, pairs=[(0, 1)], candidates=(2, 1))
        with pytest.raises(ns.NoshowError, match=r"auxiliary run of fedavg .* overflows from each of 5 first models"):
            adversary.init(KEY, self.federation(), lost)

    def test_only_candidates_are_silenced_and_the_law_is_kept(self) -> None:
        model, federation = ns.models.logistic(), self.federation()
        adversary = V.shadow(self.fedavg, self.cclip, pairs=[(1, 4)], candidates=(3, 1))
        history = ns.simulate(federation, model, self.fedavg, adversary, sampled=5, epsilon=0.4, rounds=60)
        call = history.roll_call
        silenced = {int(i) for t in range(60) for i in call.silenced(0, t)}
        assert len(silenced) == 4
        assert call.epsilon_t.max() <= 0.4
        for t in range(60):
            wanted = sum(int(i) in silenced for i in call.sampled[0, t])
            assert len(call.silenced(0, t)) == min(2, wanted)  # 0.4 of 5 equal clients is 2

    def test_everybody_a_candidate_uses_the_whole_law(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shadow_module, "rehearse", None)  # nothing to rehearse
        adversary = V.shadow(self.fedavg, self.cclip, candidates="all")
        history = ns.simulate(
            self.federation(), ns.models.logistic(), self.fedavg, adversary, sampled=5, epsilon=0.8, rounds=20
        )
        assert np.all(history.roll_call.epsilon_t == 0.8)
        assert np.all(history.roll_call.answered.sum(-1) == 1)

    @pytest.mark.long
    def test_rehearsals_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        played: list[str] = []

        def counting(*args: object, **kwargs: object) -> np.ndarray:
            played.append("played")
            return rehearse(*args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(shadow_module, "rehearse", counting)
        adversary = V.shadow(self.fedavg, self.cclip, pairs=[(1, 3), (0, 2)], candidates=(3, 1))
        federation, model = self.federation(), ns.models.logistic()
        calls = [
            ns.simulate(federation, model, algorithm, adversary, sampled=5, epsilon=0.4, rounds=10).roll_call
            for algorithm in (self.fedavg, self.cclip)
        ]
        assert played == ["played"] * 2  # FedAvg and cclip, once
        assert np.array_equal(calls[0].sampled, calls[1].sampled)
        assert np.array_equal(calls[0].answered, calls[1].answered)

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"pairs": []}, "pairs is empty"),
            ({"pairs": [(5, 5)]}, "T1 < T2"),
            ({"pairs": [(5,)]}, "each is two rounds"),
            ({"order": "size"}, "order is 'size'"),
            ({"candidates": (1, -1)}, r"candidates is \(1, -1\)"),
        ],
    )
    def test_bad_settings(self, settings: dict[str, object], sentence: str) -> None:
        with pytest.raises(ns.NoshowError, match=sentence):
            V.shadow(self.fedavg, self.cclip, **settings)  # type: ignore[arg-type]
