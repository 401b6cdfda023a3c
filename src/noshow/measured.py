"""A run's measured error between what absence must cost and what it costs at most.

The run is played again, which gives the same models, with diagnostics; the theory's constants are estimated at models
along the way. Theorem nonconvex speaks of E ||grad F(theta_R)||^2, so that is what is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from noshow.contracts import Algorithm
from noshow.diagnostics import Diagnose, Diagnostics
from noshow.engine import Simulation
from noshow.errors import NoshowError
from noshow.rates import curve
from noshow.spec import Experiment, Spec
from noshow.theory.conditions import Condition, conditions
from noshow.theory.constants import Method, Problem
from noshow.theory.estimates import Estimates, estimate
from noshow.theory.lower import gradient_floor
from noshow.theory.upper import non_convex_curve

VISITED = 4
"""Models of each algorithm and seed, evenly spaced in time, at which constants are estimated."""
DRAWS = 2
"""Batches of each client at each of them, where clients draw."""

COVERED: dict[str, Method] = {"fedavg_variant": "fedavg", "exact_fedprox_variant": "fedprox"}
"""The algorithms that the paper's upper bounds speak of."""


class Played(NamedTuple):
    """What an algorithm's run showed: its diagnostics, models along the way [V, d], F at its start and its lowest."""

    diagnostics: Diagnostics
    visited: np.ndarray
    first_loss: float
    lowest_loss: float


class Ceiling(NamedTuple):
    """An upper bound on the mean square gradient after each round [T], or why there is none; and its conditions."""

    bound: np.ndarray | None
    conditions: list[Condition]
    reason: str


class Measured(NamedTuple):
    """A run's curves, and the theory's constants and bounds for it."""

    played: dict[str, Played]
    constants: Estimates
    problem: Problem
    floor: float
    ceilings: dict[str, Ceiling]


def measure(spec: Spec, experiment: Experiment, begun: Callable[[str], None]) -> Measured:
    """Play all algorithms of an experiment again, estimate the constants, and put the bounds beside the measurements.

    The floor is that of the worst problem with these constants, not of this one: a run may well lie below it.
    """
    played = {}
    for algorithm in experiment.algorithms:
        begun(algorithm.name)
        played[algorithm.name] = play(spec, experiment, algorithm)
    models = np.concatenate([run.visited for run in played.values()])
    draws = 0 if experiment.federation.batches == "full" else DRAWS
    constants = estimate(experiment.federation, experiment.model, models, draws=draws, seed=spec.seeds[0])
    epsilon = spec.epsilon or 0.0
    problem = constants.problem(B=_best_B(constants, epsilon), epsilon=epsilon, K=spec.sampled)
    ceilings = {
        algorithm.name: _ceiling(spec, experiment, algorithm, constants, played[algorithm.name])
        for algorithm in experiment.algorithms
    }
    return Measured(played, constants, problem, float(gradient_floor(problem)), ceilings)


def play(spec: Spec, experiment: Experiment, algorithm: Algorithm) -> Played:
    """One algorithm's run again, with diagnostics, and the models at a few evaluations."""
    settings: dict[str, Any] = spec.run_settings(algorithm.name) | {"diagnose": Diagnose()}
    run = Simulation(experiment.federation, experiment.model, algorithm, experiment.adversary, **settings)
    models, losses = [run.thetas], [run.latest.train_loss]
    while not run.done:
        if run.advance():
            models.append(run.thetas)
            losses.append(run.latest.train_loss)
    chosen = np.unique(np.linspace(0, len(models) - 1, VISITED).round().astype(int))
    diagnostics = run.history().diagnostics
    if diagnostics is None:
        raise NoshowError(f"{algorithm.name} has no rounds, and so nothing to measure: give it some")
    visited = np.concatenate([models[k] for k in chosen])
    return Played(diagnostics, visited, float(np.mean(losses[0])), float(np.min(losses)))


def _ceiling(spec: Spec, experiment: Experiment, algorithm: Algorithm, constants: Estimates, played: Played) -> Ceiling:
    table = spec.algorithms[spec.labels.index(algorithm.name)]
    method = COVERED.get(table["name"])
    if method is None:
        return Ceiling(None, [], "the paper's upper bounds do not speak of it")
    if experiment.federation.batches == "step" and (algorithm.client.steps or 1) > 1:
        return Ceiling(None, [], 'the bounds need one batch a round: batches = "round" or "full"')
    rounds, _ = spec.length(algorithm.name)
    rates = curve(algorithm.rate, rounds)
    epsilon = spec.epsilon or 0.0

    def problem_at(B: float) -> Problem:  # noqa: N803 (the paper's letter)
        return constants.problem(
            B=B, epsilon=epsilon, K=spec.sampled, s=algorithm.client.steps or 1, beta=table.get("beta")
        )

    def bound_at(B: float) -> np.ndarray | None:  # noqa: N803
        # No loss of ours is negative, unless the run has seen it to be.
        gap = played.first_loss - min(0.0, played.lowest_loss)
        try:
            return non_convex_curve(problem_at(B), method, lambda t: float(rates[t]), rounds - 1, gap)
        except NoshowError:  # the contraction is not positive; the conditions say so
            return None

    bounds = {B: bound for B in _choices_of_B(epsilon) if (bound := bound_at(B)) is not None}
    best = min(bounds, key=lambda choice: float(bounds[choice][-1]), default=1.0)
    rows = conditions(problem_at(best), method, "non-convex", step=float(rates.max()))
    return Ceiling(bounds.get(best), rows, "" if bounds else "the contraction is not positive")


def _choices_of_B(epsilon: float) -> np.ndarray:  # noqa: N802 (the paper's letter)
    """Values of B to try: from 1 to where the theorem's first condition, sqrt(epsilon) B < 1, must fail."""
    most = 10.0 if epsilon == 0 else min(10.0, float(epsilon**-0.5))
    return np.geomspace(1.0, max(most, 1.0), 24)


def _best_B(constants: Estimates, epsilon: float) -> float:  # noqa: N802 (the paper's letter)
    """The B whose limit epsilon (G + sigma)^2 / (1 - sqrt(epsilon) B)^2 is lowest: steps near zero, explicit curve."""
    choices = _choices_of_B(epsilon)[:-1]
    left = 1 - np.sqrt(epsilon) * choices
    limits = ((constants.frontier(choices) + constants.sigma) / np.maximum(left, 1e-12)) ** 2
    return float(choices[int(np.argmin(limits))])
