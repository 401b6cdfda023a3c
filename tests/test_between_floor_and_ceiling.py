"""Every algorithm stays above the floor, and the paper's variants under the explicit upper bounds; the rates between.

The floor on the lower bound's hard instances, where nine algorithms play 200 repetitions each of the same rounds in one
compiled program. The ceiling there and on the quadratic family, under an adversary that silences whoever helps most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import noshow as ns
from noshow import budget, theory
from noshow.contracts import Array, Memory, Numbers, Rate, Vector
from noshow.randomness import Purpose, round_key
from noshow.rounds import State
from noshow.theory import Problem
from noshow.theory.constants import Method
from noshow.theory.hard import HardInstance, hard_pair
from noshow.theory.quadratics import Quadratics, quadratics

A = ns.algorithms
Batch = tuple[Array, Array]


class Parabola:
    """A client's objective as `LocalData`: h theta^2 / 2 - b theta."""

    def __init__(self, h: Array, b: Array) -> None:
        self.h, self.b = h, b

    def loss(self, theta: Vector, step: int | Array = 0) -> Array:
        return jnp.dot(self.h * theta / 2 - self.b, theta)

    def gradient(self, theta: Vector, step: int | Array = 0) -> Vector:
        return self.h * theta - self.b


def play_together(
    algorithms: Sequence[ns.Algorithm],
    instances: Sequence[HardInstance],
    epsilons: Sequence[float],
    rates: np.ndarray,
    starts: np.ndarray,
) -> np.ndarray:
    """Paths [algorithms, instances, S, T + 1]: the law once a round, then each algorithm's own client and server.

    One program for all: the instances, the laws' epsilons and the rates [instances, algorithms, T] are arguments, seeds
    0, 1, … an axis.
    """
    clients, adversary = instances[0].clients, instances[0].adversary()
    ids, sizes, weights = jnp.arange(clients), jnp.ones(clients, jnp.int32), jnp.full(clients, 1 / clients)
    limits = [budget.limit(epsilon, clients, np.ones(clients, int)) for epsilon in epsilons]

    def one_run(instance: HardInstance, limit: Array, rates: Array, seed: Array, start: Array) -> Array:
        def respond(
            algorithm: ns.Algorithm, state: State, held: Batch, answered: Array, t: Array, rate: Array
        ) -> State:
            def reply(h: Array, b: Array, memory: Memory) -> ns.Work:
                return algorithm.client.reply(Parabola(h, b), state.theta, memory, rate)

            def keep(new: Array, old: Array) -> Array:
                return jnp.where(answered[:, None], new, old)

            work = jax.vmap(reply)(*held, state.clients)
            key = round_key(seed, t, Purpose.SERVER)
            replies = ns.Replies(work.reply, ids, answered, weights, weights, key, algorithm.client.sends)
            server, theta = algorithm.server.step(state.server, state.theta, replies, rate)
            return State(theta, jax.tree.map(keep, work.memory, state.clients), server)

        def next_round(states: list[State], now: tuple[Array, Array]) -> tuple[list[State], Array]:
            t, rates = now
            key = round_key(seed, t, Purpose.ADVERSARY)
            scene = ns.Scene(t, ids, sizes, weights, states[0].theta)
            scores = adversary.score(instance, key, scene)
            answered = ~budget.silence(round_key(seed, t, Purpose.TIES), scores, sizes, limit)  # type: ignore[arg-type]
            held = instance.held(key)
            states = [
                respond(algorithm, state, held, answered, t, rate)
                for algorithm, state, rate in zip(algorithms, states, rates, strict=True)
            ]
            return states, jnp.concatenate([state.theta for state in states])

        first = [State(start[None], each.client.init(1, clients), each.server.init(1, clients)) for each in algorithms]
        _, path = lax.scan(next_round, first, (jnp.arange(rates.shape[1]), rates.T))
        return jnp.concatenate([jnp.full((1, len(algorithms)), start), path]).T

    every_run = jax.jit(jax.vmap(jax.vmap(one_run, (None, None, None, 0, 0)), (0, 0, 0, None, None)))
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *instances)
    seeds = jnp.arange(len(starts), dtype=jnp.uint32)
    paths = every_run(stacked, jnp.array(limits), jnp.asarray(rates, jnp.float32), seeds, jnp.asarray(starts))
    return np.moveaxis(np.asarray(paths), 2, 0)


REPETITIONS = 200
RATE, ROUNDS = 0.2, 60
NINE = [
    A.fedavg(RATE, steps=2),
    A.fedavg_variant(RATE, steps=2),
    A.fedprox(RATE, mu=1.0, steps=5),
    A.fedprox_variant(RATE, mu=1.0, steps=5),
    A.mifa(RATE, steps=2),
    A.gm(RATE),
    A.cclip(RATE),
    A.bucketing_gm(RATE),
    A.bucketing_cclip(RATE),
]
NAMES = [algorithm.name for algorithm in NINE]
CONSTANTS = [(1.0, 1.0, 0.0), (0.5, 0.0, 2.0), (2.0, 1.0, 0.5)]
"""mu, G and sigma: the same clients hidden for ever, others in every round, and both."""
SHARES = [0.05, 0.1, 0.2, 0.35, 0.5]
PAIRS = [hard_pair(20, epsilon, *constants) for epsilon in SHARES for constants in CONSTANTS]
STARTS = np.random.default_rng(0).standard_normal(REPETITIONS).astype(np.float32)


class Sweep(NamedTuple):
    """Paths of all algorithms: on the pairs [9, pairs, 2, S, T + 1], and on their second instances with no silences."""

    paths: np.ndarray
    unsilenced: np.ndarray


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    instances = [each for pair in PAIRS for each in (pair.alike, pair.apart)] + [pair.apart for pair in PAIRS]
    epsilons = [epsilon for epsilon in SHARES for _ in range(2 * len(CONSTANTS))] + [0.0] * len(PAIRS)
    rates = np.full((len(instances), len(NINE), ROUNDS), RATE)
    paths = play_together(NINE, instances, epsilons, rates, STARTS)
    silenced = paths[:, : 2 * len(PAIRS)].reshape(len(NINE), len(PAIRS), 2, REPETITIONS, ROUNDS + 1)
    return Sweep(silenced, paths[:, 2 * len(PAIRS) :])


@pytest.mark.parametrize("name", NAMES)
def test_no_algorithm_gets_below_the_floor(sweep: Sweep, name: str) -> None:
    """Means over 200 repetitions, in every round: the bound holds however long an algorithm runs."""
    for pair, (alike, apart) in zip(PAIRS, sweep.paths[NAMES.index(name)], strict=True):
        assert np.array_equal(alike, apart)  # nobody can tell the two instances apart
        errors = [pair.alike.square_distance(alike).mean(0), pair.apart.square_distance(apart).mean(0)]
        assert np.all(np.max(errors, axis=0) >= pair.distance_floor)
        assert np.all(np.mean(errors, axis=0) >= 2 * pair.distance_floor * (1 - 1e-6))
        slopes = [pair.alike.square_gradient(alike).mean(0), pair.apart.square_gradient(apart).mean(0)]
        assert np.all(np.max(slopes, axis=0) >= pair.gradient_floor)
        mirrored = pair.apart._replace(shift=-pair.apart.shift)
        worse = np.maximum(errors[1], mirrored.square_distance(apart).mean(0))
        assert np.all(worse >= 8 * pair.distance_floor * (1 - 1e-6))


ALL = [*NINE, A.exact_fedprox(RATE), A.exact_fedprox_variant(RATE)]


@pytest.mark.long
@pytest.mark.parametrize(("clients", "shares"), [(4, [0.25, 0.5]), (60, [0.05, 0.5])])
def test_the_floor_with_fewer_and_with_more_clients(clients: int, shares: list[float]) -> None:
    """All algorithms of the library, those with the exact minimiser too."""
    pairs = [hard_pair(clients, epsilon, *constants) for epsilon in shares for constants in CONSTANTS]
    epsilons = [epsilon for epsilon in shares for _ in CONSTANTS]
    rates = np.full((len(pairs), len(ALL), 20), RATE)
    paths = play_together(ALL, [pair.apart for pair in pairs], epsilons, rates, STARTS)
    for of_algorithm in paths:
        for pair, path in zip(pairs, of_algorithm, strict=True):
            errors = [instance.square_distance(path).mean(0) for instance in (pair.alike, pair.apart)]
            assert np.all(np.max(errors, axis=0) >= pair.distance_floor)


@pytest.mark.parametrize("name", ["fedavg", "fedavg_variant", "mifa"])
def test_it_is_absence_that_keeps_them_above_it(sweep: Sweep, name: str) -> None:
    """With the law at epsilon = 0 the same algorithms end far below the floor of the same instances."""
    for pair, path in zip(PAIRS, sweep.unsilenced[NAMES.index(name)], strict=True):
        assert pair.apart.square_distance(path[:, -1]).mean() < 0.01 * pair.distance_floor


def test_the_rounds_of_the_sweep_against_slow_ones(sweep: Sweep) -> None:
    """Two that remember clients by name, in plain NumPy: MIFA, and clipping that nobody is far enough away for."""
    hidden_in = jax.jit(lambda instance, seed, t: instance.hidden(round_key(seed, t, Purpose.ADVERSARY)))
    for number in (1, 11):
        mu, instance = CONSTANTS[number % 3][0], PAIRS[number].apart
        for seed in (0, 7):
            mifa = cclip = float(STARTS[seed])
            updates, momenta = np.zeros(20), np.zeros(20)
            for t in range(ROUNDS):
                answered = ~np.asarray(hidden_in(instance, seed, t))
                updates[answered] = mifa * (1 - (1 - RATE * mu) ** 2) / RATE
                momenta[answered] = 0.9 * momenta[answered] + 0.1 * mu * cclip
                mifa, cclip = mifa - RATE * updates.mean(), cclip - RATE * momenta.mean()
                for name, theta in (("mifa", mifa), ("cclip", cclip)):
                    path = sweep.paths[NAMES.index(name), number, 1, seed]
                    assert path[t + 1] == pytest.approx(theta, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("name", ["fedavg", "fedavg_variant", "mifa"])
def test_the_error_ends_at_eight_floors_and_so_grows_like_the_odds_of_absence(sweep: Sweep, name: str) -> None:
    """Who finds the optimum of f ends at (epsilon b)^2 = epsilon / (1 - epsilon) (G^2 + sigma^2) / mu^2."""
    for k in range(len(CONSTANTS)):
        pairs = PAIRS[k :: len(CONSTANTS)]
        ends = [
            pair.apart.square_distance(path[1, :, -1]).mean()
            for pair, path in zip(pairs, sweep.paths[NAMES.index(name), k :: len(CONSTANTS)], strict=True)
        ]
        np.testing.assert_allclose(ends, [8 * pair.distance_floor for pair in pairs], rtol=0.02)
        odds = np.array(SHARES) / (1 - np.array(SHARES))
        assert np.polyfit(np.log(odds), np.log(ends), 1)[0] == pytest.approx(1, abs=0.01)


def weighted_by_steps(values: np.ndarray, rate: Rate, every: int = 1) -> np.ndarray:
    """The mean at a random time R, which is k with probability eta_k / sum eta, for every last T."""
    eta = np.array([rate(every * t) for t in range(len(values))])
    return np.asarray(np.cumsum(eta * values) / np.cumsum(eta))


SMALL_SHARES = [0.01, 0.02, 0.05, 0.1]
SMALL_PAIRS = [hard_pair(100, epsilon, *constants) for epsilon in SMALL_SHARES for constants in CONSTANTS]
VARIANTS: list[tuple[ns.Algorithm, Method, int]] = [
    (A.fedavg_variant(RATE, steps=4), "fedavg", 4),
    (A.exact_fedprox_variant(RATE), "fedprox", 1),
]
SCHEDULES = [theory.inverse_rate, theory.decaying_rate]
LAST = 300


@pytest.fixture(scope="module")
def variants() -> np.ndarray:
    """The paper's variants with either theorem's schedule on the second of each pair [method, schedule, pair, S, T]."""
    rates = [
        [choose(replace(pair.problem, s=s), method) for _, method, s in VARIANTS]
        for choose in SCHEDULES
        for pair in SMALL_PAIRS
    ]
    steps = np.array([[[rate(t) for t in range(LAST)] for rate in row] for row in rates])
    algorithms = [algorithm for algorithm, _, _ in VARIANTS]
    instances = [pair.apart for pair in SMALL_PAIRS] * len(SCHEDULES)
    epsilons = [epsilon for epsilon in SMALL_SHARES for _ in CONSTANTS] * len(SCHEDULES)
    paths = play_together(algorithms, instances, epsilons, steps, STARTS[:10])
    return paths.reshape(len(VARIANTS), len(SCHEDULES), len(SMALL_PAIRS), 10, LAST + 1)


@pytest.mark.parametrize("chosen", range(len(VARIANTS)))
def test_the_variants_stay_under_the_ceiling_on_the_hard_instances(variants: np.ndarray, chosen: int) -> None:
    """Under the curves of both theorems, with either's schedule; where their conditions hold and beyond."""
    _, method, s = VARIANTS[chosen]
    for choose, of_pairs in zip(SCHEDULES, variants[chosen], strict=True):
        for pair, path in zip(SMALL_PAIRS, of_pairs, strict=True):
            problem = replace(pair.problem, s=s)
            rate = choose(problem, method)
            measured = pair.apart.square_distance(path).mean(0)
            distance, gap = math.sqrt(measured[0]), float(problem.mu * measured[0] / 2)
            ceiling = theory.strongly_convex_curve(problem, method, rate, LAST, distance)
            assert np.all(measured <= ceiling * (1 + 1e-5))
            slopes = weighted_by_steps(problem.mu**2 * measured, rate)
            assert np.all(slopes <= theory.non_convex_curve(problem, method, rate, LAST, gap) * (1 + 1e-5))
    for theorem in ("strongly convex", "non-convex"):
        met = [not theory.failures(theory.conditions(pair.problem, method, theorem)) for pair in SMALL_PAIRS]
        assert met == [epsilon <= 0.01 for epsilon in SMALL_SHARES for _ in CONSTANTS]


def test_for_small_shares_the_error_grows_linearly(variants: np.ndarray) -> None:
    """epsilon / (1 - epsilon) from 0.01 to 0.1 has the slope 1.04."""
    for k in range(len(CONSTANTS)):
        paths = variants[0, 0, k :: len(CONSTANTS), :, -1]
        pairs = SMALL_PAIRS[k :: len(CONSTANTS)]
        ends = [pair.apart.square_distance(path).mean() for pair, path in zip(pairs, paths, strict=True)]
        assert np.polyfit(np.log(SMALL_SHARES), np.log(ends), 1)[0] == pytest.approx(1, abs=0.1)


def spoiler() -> ns.Adversary:
    """Silences those first whose reply leads furthest towards the optimum, which is the origin."""

    def score(state: Memory, key: Array, scene: ns.Scene) -> Array:
        towards = -jnp.asarray(scene.replies) @ scene.theta
        return jnp.where(towards > 0, towards, -jnp.inf)

    return ns.Adversary(score, sees_replies=True, name="spoiler")


def means(
    family: Quadratics,
    form: Numbers,
    algorithm: ns.Algorithm,
    adversary: ns.Adversary | None,
    problem: Problem,
    *,
    rounds: int,
    seeds: int,
    every: int = 1,
) -> np.ndarray:
    """The mean over seeds of sum_j form_j theta_j^2 at every so-manieth round, measured as the test loss."""
    d = len(family.start)
    federation = replace(family.federation, test=(np.broadcast_to(2 * form, (1, d)), np.zeros((1, d))))
    history = ns.simulate(
        federation,
        family.model,
        algorithm,
        adversary,
        sampled=int(problem.K),
        epsilon=None if adversary is None else float(problem.epsilon),
        rounds=rounds,
        seeds=range(seeds),
        evaluate_every=every,
    )
    assert adversary is None or history.roll_call.epsilon_t.mean() > 0.99 * problem.epsilon
    np.testing.assert_allclose(history.scores.train_loss[:, 0], family.excess(family.start), rtol=1e-4)
    return np.asarray(np.mean(history.scores.test_loss, axis=0, dtype=np.float64))


@pytest.mark.long
def test_fedavg_stays_under_the_ceiling_where_clients_curve_apart() -> None:
    """B > 1, and epsilon such that one client may be silenced: all conditions of both theorems hold."""
    family = quadratics(200, 2, L=1.2, mu=1.0, B=math.sqrt(1.04), G=1.0, sigma=1.0, examples=2)
    problem = family.problem(epsilon=1 / 150, sampled=150, steps=5)
    rate = theory.inverse_rate(problem, "fedavg")
    for theorem in ("strongly convex", "non-convex"):
        assert not theory.failures(theory.conditions(problem, "fedavg", theorem, step=rate(0)))
    measured = means(family, np.ones(2), A.fedavg_variant(rate, steps=5), spoiler(), problem, rounds=LAST // 2, seeds=8)
    assert np.all(measured <= theory.strongly_convex_curve(problem, "fedavg", rate, LAST // 2, 1.0) * (1 + 1e-5))
    gap = family.excess(family.start)
    slopes = weighted_by_steps(measured * problem.mu**2, rate)  # F curves alike in all directions
    assert np.all(slopes <= theory.non_convex_curve(problem, "fedavg", rate, LAST // 2, gap) * (1 + 1e-5))


@pytest.mark.long
def test_fedprox_stays_under_the_ceiling_beyond_the_theorems_conditions() -> None:
    """Local losses that curve downwards, half of the clients sampled and a fifth silenced: the explicit curve holds."""
    family = quadratics(10, 4, L=6.0, mu=1.0, B=1.5, G=1.0, sigma=1.0)
    problem = family.problem(epsilon=0.2, sampled=5)
    rate = theory.decaying_rate(problem, "fedprox")
    failed = theory.failures(theory.conditions(problem, "fedprox", "non-convex", step=rate(0)))
    assert [condition.name for condition in failed] == ["sqrt(epsilon) B"]
    slopes = means(
        family, family.curvatures**2, A.exact_fedprox_variant(rate), spoiler(), problem, rounds=LAST, seeds=40
    )
    curve = theory.non_convex_curve(problem, "fedprox", rate, LAST, family.excess(family.start))
    assert np.all(weighted_by_steps(slopes, rate) <= curve * (1 + 1e-5))


PATIENT = quadratics(4, 64, L=1.0, mu=1.0, G=0.5, sigma=1.0, distance=0.1)
"""Of 64 parameters, which average out what few seeds would not."""


def falls(choose: Callable[[Problem, Method], Rate]) -> tuple[Rate, Problem, np.ndarray, np.ndarray]:
    """FedAvg's variant with nobody silenced: the rate, the constants, the times, E ||theta_t - theta*||^2."""
    problem = PATIENT.problem(epsilon=0.0, sampled=2, steps=2)
    rate = choose(problem, "fedavg")
    algorithm = A.fedavg_variant(rate, steps=2)
    measured = means(PATIENT, np.ones(64), algorithm, None, problem, rounds=3000, seeds=8, every=5)
    return rate, problem, 5 * np.arange(len(measured)), measured


def slope(times: np.ndarray, values: np.ndarray) -> float:
    """Of log values over log times, from round 300 on."""
    late = times >= 300
    return float(np.polyfit(np.log(times[late]), np.log(values[late]), 1)[0])


def test_the_error_falls_like_one_over_t() -> None:
    """With alpha / (t + gamma); gamma is 80 here, which alone makes the slope -0.93."""
    rate, problem, times, measured = falls(theory.inverse_rate)
    assert slope(times, measured) == pytest.approx(-1, abs=0.15)
    assert np.all(measured <= theory.strongly_convex_curve(problem, "fedavg", rate, 3000, 0.1)[times] * (1 + 1e-5))


def test_the_non_convex_schedule_has_the_shape_of_its_bound() -> None:
    """With eta_0 / sqrt(t + 1), E ||grad F(theta_R)||^2 and its bound both fall like log(T) / sqrt(T)."""
    rate, problem, times, measured = falls(theory.decaying_rate)
    gradients = weighted_by_steps(measured * problem.mu**2, rate, every=5)
    bound = theory.non_convex_curve(problem, "fedavg", rate, 3000, PATIENT.excess(PATIENT.start))[times]
    assert slope(times, gradients) == pytest.approx(slope(times, bound), abs=0.1)
    assert -0.55 < slope(times, gradients) < -0.3
