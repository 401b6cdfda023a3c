"""The theorems' closed forms, with the numbers that their unnamed constants stand for.

They are larger than the curves of `noshow.theory.upper` and hold under the theorems' conditions only; they raise, with
the condition that fails, where these do not hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noshow.contracts import Rate
from noshow.errors import NoshowError, require
from noshow.theory.conditions import Theorem, conditions, failures
from noshow.theory.constants import Method, Numbers, Problem, numbers, worst
from noshow.theory.kappa import kappa_ceiling
from noshow.theory.upper import step_sizes, whole_round


class Universal(NamedTuple):
    """The proofs' numbers, worst over everything the theorems' conditions allow; see `universal`.

    Example:
        >>> round(Universal(contraction=0.8, noise=1.2).c, 3)
        1.5
    """

    contraction: float
    """C_0"""
    noise: float
    """C_3 = C_2 + 0.2 C_1^2 / C_0, at beta = 1"""

    @property
    def c(self) -> float:
        """The c of Theorem nonconvex: C_3 / C_0."""
        return self.noise / self.contraction


def universal(method: Method) -> Universal:
    """C_0 and C_3 of the proof of Theorem nonconvex, which serve Theorem strongly_convex too.

    C_0 = 1 - 0.1 - 0.1 C_1 - 0.05 (1 + 0.1 C_1)^2,  C_2 = (1 + 0.1 C_1)^2,  C_3 = C_2 + 0.2 C_1^2 / C_0,
    with C_1 = kappa / 2, kappa <= 1.0342, for FedAvg and C_1 = 1 / 0.9 for FedProx: d <= C_1 s eta L.

    Example:
        >>> [round(number, 4) for number in (*universal("fedavg"), universal("fedavg").c)]
        [0.793, 1.1735, 1.4799]
        >>> [round(number, 4) for number in (*universal("fedprox"), universal("fedprox").c)]
        [0.7272, 1.5741, 2.1648]
    """
    drift = float(kappa_ceiling(0.1)) / 2 if method == "fedavg" else 1 / 0.9
    second = (1 + 0.1 * drift) ** 2
    contraction = 1 - 0.1 - 0.1 * drift - 0.05 * second
    return Universal(contraction, second + 0.2 * drift**2 / contraction)


def non_convex_theorem(problem: Problem, method: Method, rate: Rate, last: int, gap: Numbers) -> NDArray[np.float64]:
    """Theorem nonconvex for T = 0, …, last, with c = 1.48 (FedAvg) or 2.17 (FedProx) from its proof:

        3 (F(theta_0) - F_min) / (beta p s sum eta_t) + (4 epsilon + c beta s L sum eta_t^2 / sum eta_t) (G + sigma)^2,

    a bound on E ||grad F(theta_R)||^2; sums over t = 0, …, T. Arguments as in `non_convex_curve`.

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0, G=1.0)
        >>> curve = non_convex_theorem(problem, "fedavg", lambda t: 0.1 / (t + 1) ** 0.5, last=1000, gap=1.0)
        >>> curve[[0, 1000]].round(3).tolist()
        [30.188, 0.543]
    """
    eta = step_sizes(rate, last)
    _demand(problem, method, "non-convex", step=float(eta.max()))
    steps = problem.over_time()
    total = np.cumsum(eta)
    noise = universal(method).c * steps.beta * steps.steps(method) * steps.L * np.cumsum(eta**2) / total
    start = np.asarray(numbers("gap", gap, low=0))[..., None]
    descent = 3 * start / (steps.beta * steps.p * steps.steps(method) * total)
    return descent + (4 * steps.epsilon + noise) * steps.spread**2


def constant_rate_corollary(problem: Problem, method: Method, last: Numbers, gap: Numbers) -> Numbers:
    """Corollary convergence-rate, case one (`constant_rate`), a bound on E ||grad F(theta_R)||^2 after round T:

        30 D L B^2 / (p T) + sqrt(L / (p T)) (3 D + c) (G + sigma) + 4 epsilon (G + sigma)^2,   D = F(theta_0) - F_min.

    The stated steps lack an s and break the theorem's cap for s > 1; with it back in, s drops out of the bound.

    Args:
        problem: the constants.
        method: "fedavg" or "fedprox".
        last: T, at least 1.
        gap: F(theta_0) - F_min.

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0, G=1.0)
        >>> round(float(constant_rate_corollary(problem, "fedavg", last=10_000, gap=1.0)), 4)
        0.0878
    """
    horizon = numbers("last", last, low=1)
    return _corollary(problem, method, gap, fast=horizon, slow=horizon, logarithm=1.0)


def decaying_rate_corollary(problem: Problem, method: Method, last: Numbers, gap: Numbers) -> Numbers:
    """Corollary convergence-rate, case two (`decaying_rate`), a bound on E ||grad F(theta_R)||^2 after round T:

        30 D L B^2 / (p sqrt(T)) + sqrt(L / (p T)) (3 D + c log(e (T + 1))) (G + sigma) + 4 epsilon (G + sigma)^2.

    D and the arguments as in `constant_rate_corollary`, and s put back in the same way.

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0, G=1.0)
        >>> round(float(decaying_rate_corollary(problem, "fedavg", last=10_000, gap=1.0)), 4)
        0.5211
    """
    horizon = numbers("last", last, low=1)
    return _corollary(problem, method, gap, fast=np.sqrt(horizon), slow=horizon, logarithm=1 + np.log(horizon + 1))


def strongly_convex_theorem(
    problem: Problem, method: Method, alpha: Numbers, gamma: Numbers, last: int, distance: Numbers
) -> NDArray[np.float64]:
    """Theorem strongly_convex for t = 0, …, last: with eta_t = alpha / (t + gamma), E ||theta_t - theta*||^2 is at most

        (1 + t / gamma)^-1.1 ||theta_0 - theta*||^2 + (4 epsilon + c / (p (t + gamma))) (G + sigma)^2 / mu^2.

    Here c = C_3 / (0.95 C_0^2) rho^2 / (rho - 1), rho = C_0 beta p s mu alpha, as in the proof. The theorem calls c
    universal; it grows with alpha.

    Args:
        problem: the constants, with mu.
        method: "fedavg" or "fedprox".
        alpha: of the rate, at least `smallest_alpha`.
        gamma: of the rate; alpha / gamma is at most `strongly_convex_step_cap`.
        last: the last t of the curve.
        distance: ||theta_0 - theta*||.

    Example:
        >>> problem = Problem(epsilon=0.0001, L=1.0, mu=1.0, G=1.0)
        >>> curve = strongly_convex_theorem(problem, "fedavg", alpha=2.0, gamma=40.0, last=1000, distance=1.0)
        >>> curve[[0, 1000]].round(3).tolist()
        [1.211, 0.036]
    """
    alpha, gamma = numbers("alpha", alpha, low=0), numbers("gamma", gamma, low=0)
    require(bool(np.all(gamma > 0)), f"gamma is {float(np.min(gamma))}: give a number above zero")
    _demand(problem, method, "strongly convex", step=alpha / gamma, alpha=alpha)
    contraction, noise = universal(method)
    steps = problem.over_time()
    rho = contraction * steps.beta * steps.p * steps.steps(method) * steps.mu * np.asarray(alpha)[..., None]
    c = noise / (0.95 * contraction**2) * rho**2 / (rho - 1)
    later = np.arange(whole_round(last) + 1) + np.asarray(gamma)[..., None]
    start = np.asarray(numbers("distance", distance, low=0))[..., None] ** 2
    forgotten = (later / np.asarray(gamma)[..., None]) ** -1.1 * start
    return forgotten + (4 * steps.epsilon + c / (steps.p * later)) * steps.spread**2 / steps.mu**2


def _corollary(
    problem: Problem, method: Method, gap: Numbers, fast: Numbers, slow: Numbers, logarithm: Numbers
) -> Numbers:
    _demand(problem, method, "non-convex")
    start = numbers("gap", gap, low=0)
    descent = 30 * start * problem.L * problem.B**2 / (problem.p * fast)
    noise = np.sqrt(problem.L / (problem.p * slow)) * (3 * start + universal(method).c * logarithm) * problem.spread
    return descent + noise + 4 * problem.epsilon * problem.spread**2


def _demand(
    problem: Problem, method: Method, theorem: Theorem, step: Numbers | None = None, alpha: Numbers | None = None
) -> None:
    """Raise a sentence about the first of the theorem's conditions that fails."""
    for row in failures(conditions(problem, method, theorem, step, alpha)):
        number, bound = worst(-row.margin, row.number), worst(-row.margin, row.bound)
        raise NoshowError(
            f"{row.name} is {number:g}, but the {theorem} theorem needs {row.relation} {bound:g}: change the constants "
            "or the rate, or use the explicit curve, which needs less"
        )
