"""Diagnostics against plain NumPy over a run's own roll call and models, and the lemmas in measured expectation."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import noshow as ns
from noshow import theory
from noshow.diagnostics import Diagnosis, flat_optimum, random_round
from noshow.display import display_for
from noshow.run import run as run_spec
from noshow.spec import validate
from noshow.store import RunFolder

A = ns.algorithms


def family() -> theory.Quadratics:
    return theory.quadratics(clients=12, d=3, L=4.0, mu=1.0, B=1.25, G=0.5, sigma=0.3, examples=4, batch_size=4 - 1)


def full(quadratics: theory.Quadratics) -> ns.Federation:
    return quadratics.federation.drawing("full")


def test_each_number_is_what_plain_sums_give() -> None:
    """Full batches on parabolas: client i has the gradient h_i theta - b_i, and s steps of descent a closed form."""
    problem = family()
    federation, rate, steps = full(problem), 0.05, 3
    play = {"sampled": 5, "epsilon": 0.5, "rounds": 4, "seeds": [0, 7], "evaluate_every": 1}
    run = ns.Simulation(
        federation,
        problem.model,
        A.fedavg_variant(rate, steps=steps),
        ns.adversaries.largest_reply(),
        **play,  # type: ignore[arg-type]
        diagnose=ns.Diagnose(optimum=np.full(3, 0.25)),
    )
    visited = [np.stack([np.asarray(model, np.float64) for model in run.history().models])]
    while not run.done:
        run.advance()
        visited.append(np.stack([np.asarray(model, np.float64) for model in run.history().models]))
    history = run.history()
    seen = history.diagnostics
    assert seen is not None
    assert seen.square_distance is not None
    assert seen.objective_inconsistency is not None
    h, b = (np.asarray(leaf, np.float64).reshape(12, 4, 3).mean(1) for leaf in federation.data)
    weights = federation.weights.astype(np.float64)
    for seed in range(2):
        for t in range(4):
            theta = visited[t][seed]
            gradients = h * theta - b
            np.testing.assert_allclose(seen.gradient_norm[seed, t], np.linalg.norm(weights @ gradients), rtol=1e-5)
            np.testing.assert_allclose(seen.square_distance[seed, t], np.sum((theta - 0.25) ** 2), rtol=1e-5)
            silenced = history.roll_call.silenced(seed, t)
            assert silenced.size > 0
            bias = np.linalg.norm(weights[silenced] @ gradients[silenced])
            np.testing.assert_allclose(seen.selection_bias[seed, t], bias, rtol=1e-5)
            replies = ((1 - rate * h) ** steps - 1) * (theta - b / h)
            drift = replies + steps * rate * gradients
            there = history.roll_call.responders(seed, t)
            expected = np.linalg.norm(weights[there] @ drift[there])
            np.testing.assert_allclose(seen.objective_inconsistency[seed, t], expected, rtol=1e-3)
    squares = seen.gradient_norm.astype(np.float64) ** 2
    np.testing.assert_allclose(seen.mean_square_gradient, np.cumsum(squares, 1) / np.arange(1, 5), rtol=1e-6)
    for seed, chosen in enumerate(seen.random_rounds):
        np.testing.assert_array_equal(seen.random_iterates[seed], visited[chosen][seed].astype(np.float32))


@pytest.mark.long
def test_asking_changes_nothing_else() -> None:
    problem = family()

    def play(diagnose: ns.Diagnose | None) -> ns.History:
        return ns.simulate(
            problem.federation,
            problem.model,
            A.fedavg(0.05, steps=2),
            ns.adversaries.largest_reply(),
            sampled=4,
            epsilon=0.5,
            rounds=9,
            evaluate_every=4,
            seeds=[3, 4],
            diagnose=diagnose,
        )

    plain, asked = play(None), play(ns.Diagnose())
    assert plain.diagnostics is None
    assert asked.diagnostics is not None
    assert asked.diagnostics.square_distance is None
    np.testing.assert_array_equal(plain.scores.train_loss, asked.scores.train_loss)
    np.testing.assert_array_equal(plain.roll_call.answered, asked.roll_call.answered)
    jax.tree.map(np.testing.assert_array_equal, plain.models, asked.models)


@pytest.mark.long
def test_clients_that_no_theorem_speaks_of_have_no_inconsistency() -> None:
    problem = family()
    for algorithm in (A.gm(0.01), A.fedprox(0.01, mu=1.0)):
        history = ns.simulate(problem.federation, problem.model, algorithm, sampled=4, rounds=3, diagnose=ns.Diagnose())
        assert history.diagnostics is not None
        assert history.diagnostics.objective_inconsistency is None
        assert history.diagnostics.selection_bias.max() == 0  # nobody is silenced


@pytest.mark.long
def test_a_resumed_run_has_the_same_diagnostics() -> None:
    problem = family()

    def begin() -> ns.Simulation:
        return ns.Simulation(
            problem.federation,
            problem.model,
            A.fedavg_variant(0.02, steps=2),
            sampled=4,
            rounds=12,
            evaluate_every=3,
            seeds=[0, 1, 2],
            diagnose=ns.Diagnose(),
        )

    whole = begin()
    while not whole.done:
        whole.advance()
    half = begin()
    while half.t < 6:
        half.advance()
    assert half.history().diagnostics.random_iterates == []  # type: ignore[union-attr]  # theta_R is of the whole run
    resumed = begin()
    resumed.resume(half.snapshot())
    while not resumed.done:
        resumed.advance()
    one, other = whole.history().diagnostics, resumed.history().diagnostics
    assert one is not None
    assert other is not None
    for name in Diagnosis._fields:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    jax.tree.map(np.testing.assert_array_equal, one.random_iterates, other.random_iterates)


def test_random_rounds_follow_the_rates() -> None:
    rates = np.array([0.4, 0.3, 0.2, 0.1], np.float32)
    drawn = np.bincount([random_round(seed, rates) for seed in range(2000)], minlength=4) / 2000
    np.testing.assert_allclose(drawn, rates, atol=4 * np.sqrt(0.25 / 2000))


@pytest.mark.parametrize("where", ["quadratics", pytest.param("synthetic", marks=pytest.mark.long)])
def test_both_lemmas_hold_in_measured_expectation(where: str) -> None:
    """From one theta_0, 200 rounds: mean errors stay below the lemmas' bounds by more than four standard errors.

    The adversary is the strongest of one round, and the constants are exact on quadratics, estimated on Synthetic.
    """
    steps, sampled, epsilon, rate = 4, 6, 0.34, 0.02
    if where == "quadratics":
        quadratics = theory.quadratics(clients=12, d=3, L=4.0, mu=1.0, B=1.25, G=0.5, sigma=0.3)
        federation, model = quadratics.federation, quadratics.model
        problem = quadratics.problem(epsilon, sampled, steps)
    else:
        federation, model = ns.datasets.synthetic(1, 1, clients=12, sizes=40).drawing("round", 10), ns.models.logistic()
        start = jnp.zeros((1, 610))
        found = theory.estimate(federation, model, start, draws=2)
        problem = found.problem(B=1.5, epsilon=epsilon, K=sampled, s=steps)
    history = ns.simulate(
        federation,
        model,
        A.fedavg_variant(rate, steps=steps),
        ns.adversaries.worst_case(),
        sampled=sampled,
        epsilon=epsilon,
        rounds=1,
        seeds=range(200),
        diagnose=ns.Diagnose(),
    )
    assert history.diagnostics is not None
    used = history.diagnostics.used(problem, "fedavg")
    assert used.objective_inconsistency is not None
    for shares in (used.selection_bias[:, 0], used.objective_inconsistency[:, 0]):
        assert shares.min() > 0
        assert shares.mean() + 4 * shares.std() / np.sqrt(len(shares)) < 1


def test_a_run_folder_keeps_them(tmp_path: Path) -> None:
    spec = validate(
        {
            "name": "diagnosed",
            "rounds": 6,
            "sampled": 4,
            "epsilon": 0.5,
            "seeds": [0, 1],
            "evaluate_every": 3,
            "diagnose": True,
            "data": {"name": "synthetic", "clients": 8, "sizes": 20},
            "model": {"name": "logistic"},
            "adversary": {"name": "largest_reply"},
            "algorithms": [{"name": "fedavg_variant", "rate": 0.01, "steps": 2}, {"name": "gm", "rate": 0.01}],
        }
    )
    folder = RunFolder(tmp_path / "run", spec)

    with display_for(Console(quiet=True)) as display:
        histories = run_spec(spec, folder, display)
    for history in histories:
        made, kept = history.diagnostics, folder.load(history.algorithm).diagnostics
        assert made is not None
        assert kept is not None
        for name in ("rates", "random_rounds", *Diagnosis._fields):
            np.testing.assert_array_equal(getattr(made, name), getattr(kept, name))
        for one, other in zip(made.random_iterates, kept.random_iterates, strict=True):
            for leaf, same in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
                np.testing.assert_array_equal(leaf, same)


def test_a_wrong_optimum_gets_a_sentence() -> None:
    model = ns.models.quadratic([0.0, 0.0])
    for optimum in (np.zeros(3), np.array([1.0, np.nan])):
        with pytest.raises(ns.NoshowError, match=r"the optimum holds . numbers, and 'quadratic' has 2 parameters"):
            flat_optimum(ns.Diagnose(optimum=optimum), model)


def test_without_absence_nothing_is_used_of_what_is_allowed() -> None:
    from noshow.theory import Problem

    nothing = np.zeros((1, 2))
    seen = ns.Diagnostics(np.array([0.1, 0.1]), np.ones((1, 2)), None, nothing, None, np.array([0]), [])
    assert seen.used(Problem(epsilon=0.0, L=1.0), "fedavg").selection_bias.tolist() == [[0.0, 0.0]]
