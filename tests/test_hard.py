"""The lower bound's hard instances: their constants by enumeration, and that nobody can tell the two apart."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noshow as ns
from noshow.randomness import Purpose, round_key
from noshow.theory import distance_floor, gradient_floor
from noshow.theory.hard import HardInstance, HardPair, hard_pair, play


@st.composite
def pairs(draw: st.DrawFn) -> HardPair:
    clients = draw(st.integers(2, 8))
    spread = draw(st.sampled_from([(1.0, 0.0), (0.0, 2.0), (3.0, 0.5), (0.5, 3.0)]))
    return hard_pair(clients, draw(st.integers(1, clients - 1)) / clients, draw(st.floats(0.1, 5)), *spread)


@given(pairs(), st.floats(-5, 5))
def test_the_constants_by_enumeration(pair: HardPair, x: float) -> None:
    """Over all sets of epsilon M clients: the one of steady rounds with probability r, else each as likely."""
    hard, asked = pair.apart, pair.problem
    count, mu = int(hard.same.sum()), float(hard.mu)
    sets = [np.isin(np.arange(hard.clients), chosen) for chosen in combinations(range(hard.clients), count)]
    chances = np.array([(1 - hard.steady) / len(sets) + hard.steady * np.array_equal(s, hard.same) for s in sets])
    assert chances.sum() == pytest.approx(1)
    gradients = mu * (x - hard.shift * np.array(sets))
    of_clients = chances @ gradients
    of_all = of_clients.mean()
    assert of_all == pytest.approx(mu * (x - hard.optimum), abs=1e-9)
    assert np.mean(of_clients**2) == pytest.approx(of_all**2 + asked.G**2, rel=1e-9)
    assert np.mean(chances @ (gradients - of_clients) ** 2) == pytest.approx(asked.sigma**2, rel=1e-9, abs=1e-9)
    assert hard.square_gradient(x) == pytest.approx(of_all**2, rel=1e-9, abs=1e-12)
    assert hard.square_distance(x) == pytest.approx((x - hard.epsilon * hard.shift) ** 2)


@given(pairs(), st.floats(-5, 5))
def test_no_answer_is_near_both_optima(pair: HardPair, x: float) -> None:
    errors = [float(each.square_distance(x)) for each in (pair.alike, pair.apart)]
    assert np.mean(errors) >= 2 * pair.distance_floor * (1 - 1e-9)
    assert pair.distance_floor == distance_floor(pair.problem)
    assert pair.gradient_floor == gradient_floor(pair.problem)
    assert pair.gradient_floor == pytest.approx(pair.distance_floor * pair.problem.mu**2)
    assert pair.alike.optimum == 0
    mirrored = pair.apart._replace(shift=-pair.apart.shift)
    worse = max(float(each.square_distance(x)) for each in (pair.apart, mirrored))
    assert worse >= 8 * pair.distance_floor * (1 - 1e-9)


def test_without_noise_it_is_the_static_instance() -> None:
    pair = hard_pair(10, 0.2, mu=2.0, G=3.0)
    assert pair.apart.shift == pytest.approx(3 / (2 * np.sqrt(0.2 * 0.8)))
    assert pair.apart.steady == 1
    assert pair.apart.same.tolist() == [True] * 2 + [False] * 8


@jax.jit
def hidden_sets(instance: HardInstance, keys: jax.Array) -> jax.Array:
    return jax.vmap(instance.hidden)(keys)


def test_who_is_hidden() -> None:
    """Half of the rounds are steady: {0, 1} comes in 1/2 + 1/2 1/10 of them, any other pair of 5 clients in 1/20."""
    rounds = 20_000
    keys = jax.random.split(jax.random.key(0), rounds)
    hidden = np.asarray(hidden_sets(hard_pair(5, 0.4, mu=1.0, G=1.0, sigma=np.sqrt(3)).apart, keys))
    assert np.all(hidden.sum(1) == 2)
    _, counts = np.unique(hidden @ 2 ** np.arange(5), return_counts=True)
    chances = np.array([0.55] + [0.05] * 9)
    assert np.sum((counts - rounds * chances) ** 2 / (rounds * chances)) < 27.9  # chi-square of 9, 1 in 1000
    forever = hard_pair(5, 0.4, mu=1.0, G=1.0).apart
    assert np.all(np.asarray(hidden_sets(forever, keys)) == forever.same)


def test_the_hidden_hold_g_and_are_silenced() -> None:
    pair = hard_pair(6, 0.5, mu=2.0, sigma=1.0)
    key = jax.random.key(3)
    hidden = np.asarray(pair.apart.hidden(key))
    curvatures, slopes = pair.apart.held(key)
    np.testing.assert_allclose(curvatures[:, 0], np.full(6, 2.0))
    np.testing.assert_allclose(slopes[:, 0], np.where(hidden, 2.0, 0.0), rtol=1e-6)  # b = 1
    assert not np.any(pair.alike.held(key)[1])
    ids = np.array([4, 0, 5, 2])
    scene = ns.Scene(np.array(0), ids, np.ones(4, int), np.full(4, 1 / 6), np.zeros(1))  # type: ignore[arg-type]
    scores = pair.apart.adversary().score(pair.apart, key, scene)
    assert np.array_equal(scores, np.where(hidden[ids], 1.0, -np.inf))


SPREADS = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
PAIRS = [hard_pair(5, 0.4, 1.0, *spread) for spread in SPREADS]
MIFA = ns.algorithms.mifa(0.5, steps=1)
ROUNDS, SEEDS = 40, (3, 8)


@pytest.fixture(scope="module")
def paths() -> np.ndarray:
    """MIFA, which remembers clients by name, on three pairs [3, 2, S, T + 1]: the same hidden, others, and both."""
    instances = [instance for pair in PAIRS for instance in (pair.alike, pair.apart)]
    return play(instances, MIFA, rounds=ROUNDS, seeds=SEEDS, start=2.0).reshape(3, 2, 2, ROUNDS + 1)


def test_nobody_can_tell_the_two_apart(paths: np.ndarray) -> None:
    assert np.array_equal(paths[:, 0], paths[:, 1])
    assert not np.array_equal(paths[0], paths[1])
    assert not np.array_equal(paths[1], paths[2])


def test_play_against_a_slow_mifa(paths: np.ndarray) -> None:
    for pair, (_, runs) in zip(PAIRS, paths, strict=True):
        for seed, path in zip(SEEDS, runs, strict=True):
            rounds = jnp.arange(ROUNDS)
            keys = jax.vmap(lambda t, seed=seed: round_key(seed, t, Purpose.ADVERSARY))(rounds)
            theta, memory = 2.0, np.zeros(5)
            for t, hidden in enumerate(np.asarray(hidden_sets(pair.apart, keys))):
                memory[~hidden] = theta
                theta -= 0.5 * memory.mean()
                assert path[t + 1] == pytest.approx(theta, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("number", range(3))
def test_instances_through_simulate(paths: np.ndarray, number: int) -> None:
    """Whoever is hidden in a round is silent, and the paths are those of `play`."""
    instance = PAIRS[number].apart
    history = ns.simulate(
        instance.federation(),
        instance.model(start=2.0),
        MIFA,
        instance.adversary(),
        sampled=5,
        epsilon=0.4,
        rounds=ROUNDS,
        seeds=SEEDS,
    )
    answers = np.asarray(history.models)[:, 0]
    np.testing.assert_allclose(answers, paths[number, 1, :, -1], rtol=1e-4, atol=1e-6)
    assert np.all(history.roll_call.epsilon_t == 0.4)
    silent = {tuple(sorted(history.roll_call.silenced(0, t).tolist())) for t in range(ROUNDS)}
    assert (silent == {(0, 1)}) == (number == 0)
    smallest = -(instance.optimum**2) / 2
    np.testing.assert_allclose(
        history.scores.test_loss[:, -1] - smallest, instance.square_distance(answers) / 2, rtol=1e-5
    )
    np.testing.assert_allclose(history.scores.train_loss, history.scores.test_loss, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"G": 0.0}, "G and sigma are both 0"),
        ({"G": -1.0}, r"G is -1\.0: give zero or more"),
        ({"mu": 0.0}, r"mu is 0\.0"),
        ({"clients": 1}, "clients is 1: give 2 or more"),
        ({"epsilon": 0.25}, r"epsilon is 0\.25, which is 2\.5 of 10 clients: give a share that is a whole number"),
        ({"epsilon": 0.0}, "from 1 to 9"),
        ({"epsilon": 1.0}, "from 1 to 9"),
        ({"epsilon": float("nan")}, "epsilon is nan"),
    ],
)
def test_bad_settings(changes: dict[str, Any], sentence: str) -> None:
    asked: dict[str, Any] = {"clients": 10, "epsilon": 0.2, "mu": 1.0, "G": 1.0}
    with pytest.raises(ns.NoshowError, match=sentence):
        hard_pair(**(asked | changes))


def test_what_cannot_be_played() -> None:
    noisy = hard_pair(4, 0.25, 1.0, sigma=1.0).apart
    algorithm = ns.algorithms.fedavg(0.1)
    with pytest.raises(ns.NoshowError, match="instances is empty"):
        play([], algorithm, rounds=1)
    with pytest.raises(ns.NoshowError, match=r"the instances have \[4, 5\] clients"):
        play([noisy, hard_pair(5, 0.2, 1.0, sigma=1.0).apart], algorithm, rounds=1)
    with pytest.raises(ns.NoshowError, match="rounds is -1"):
        play([noisy], algorithm, rounds=-1)
