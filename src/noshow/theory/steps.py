"""Step sizes: the theorems' caps, and the schedules as rates that an algorithm can use."""

from __future__ import annotations

import numpy as np

from noshow import rates
from noshow.contracts import Rate
from noshow.errors import require
from noshow.theory.constants import Method, Numbers, Problem, numbers


def step_cap(problem: Problem, method: Method) -> Numbers:
    """eta_t <= 1 / (10 beta s L B^2), s = 1 for FedProx: Theorem nonconvex.

    FedProx's second cap there, 1 / (10 L_minus), is never the smaller one, since L_minus <= L <= beta L B^2.

    Example:
        >>> problem = Problem(epsilon=0.01, L=2.0, s=5, K=10, M=20)
        >>> float(step_cap(problem, "fedavg")), float(step_cap(problem, "fedprox"))
        (0.005, 0.025)
    """
    return 1 / (10 * problem.beta * problem.steps(method) * problem.L * problem.B**2)


def strongly_convex_step_cap(problem: Problem, method: Method) -> Numbers:
    """alpha / gamma <= mu / (20 beta s L^2 B^2), s = 1 for FedProx: Theorem strongly_convex, as its proof needs it.

    The statement leaves out the s; the proof has it. FedProx's second cap, 1 / (10 L_minus), is never the smaller one.

    Example:
        >>> problem = Problem(epsilon=0.0, L=2.0, mu=1.0, s=5)
        >>> float(strongly_convex_step_cap(problem, "fedavg"))
        0.0025
    """
    return problem.strong_convexity / (20 * problem.beta * problem.steps(method) * problem.L**2 * problem.B**2)


def smallest_alpha(problem: Problem, method: Method) -> Numbers:
    """alpha >= 2 / (beta p s mu), s = 1 for FedProx: Theorem strongly_convex.

    Example:
        >>> float(smallest_alpha(Problem(epsilon=0.0, L=2.0, mu=0.5, s=2), "fedavg"))
        2.0
    """
    return 2 / (problem.beta * problem.p * problem.steps(method) * problem.strong_convexity)


def constant_step(problem: Problem, method: Method, last: Numbers) -> Numbers:
    """eta = min(1 / (10 beta s L B^2), 1 / (beta s sqrt(p T L) (G + sigma))): Corollary convergence-rate, case one.

    The statement leaves out both s, and so exceeds the theorem's cap for s > 1; they are put back here.

    Args:
        problem: the constants.
        method: "fedavg" or "fedprox".
        last: T, the last round counted from 0; at least 1.

    Example:
        >>> float(constant_step(Problem(epsilon=0.0, L=1.0, G=1.0), "fedavg", last=10_000))
        0.01
    """
    horizon = numbers("last", last, low=1)
    slowing = problem.beta * problem.steps(method) * np.sqrt(problem.p * horizon * problem.L) * problem.spread
    return 1 / np.maximum(1 / step_cap(problem, method), slowing)


def constant_rate(problem: Problem, method: Method, last: int) -> Rate:
    """The rate eta_t = `constant_step`, for a run whose last round T is known: Corollary convergence-rate, case one.

    Example:
        >>> rate = constant_rate(Problem(epsilon=0.0, L=1.0, G=1.0), "fedavg", last=10_000)
        >>> rate(0), rate(7)
        (0.01, 0.01)
    """
    return rates.constant(_one("the step", constant_step(problem, method, last)))


def decaying_rate(problem: Problem, method: Method) -> Rate:
    """The rate eta_t = eta_0 / sqrt(t + 1), for a run of any length: Corollary convergence-rate, case two.

    eta_0 = min(1 / (10 beta s L B^2), 1 / (beta s sqrt(p L) (G + sigma))); the statement leaves out both s.

    Example:
        >>> rate = decaying_rate(Problem(epsilon=0.0, L=1.0, G=20.0), "fedavg")
        >>> rate(0), rate(3)
        (0.05, 0.025)
    """
    return rates.inverse_sqrt(_one("the first step", constant_step(problem, method, 1)))


def inverse_rate(problem: Problem, method: Method) -> Rate:
    """The rate eta_t = alpha / (t + gamma) with the smallest alpha and gamma of Theorem strongly_convex.

    alpha = 2 / (beta p s mu) and gamma = 40 L^2 B^2 / (p mu^2), at which alpha / gamma is the theorem's cap. For others
    use `noshow.rates.inverse`.

    Example:
        >>> rate = inverse_rate(Problem(epsilon=0.0, L=1.0, mu=1.0), "fedavg")
        >>> rate(0), rate(40)
        (0.05, 0.025)
    """
    alpha = smallest_alpha(problem, method)
    return rates.inverse(_one("alpha", alpha), _one("gamma", alpha / strongly_convex_step_cap(problem, method)))


def _one(name: str, value: Numbers) -> float:
    require(np.ndim(value) == 0, f"{name} is an array, but a run has one rate: give a problem of single numbers")
    return float(value)
