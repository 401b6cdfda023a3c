"""The proofs' one-round recursions: a_t, b_t, c_t with every constant explicit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from noshow.errors import require
from noshow.theory.constants import Method, Numbers, Problem, numbers, worst
from noshow.theory.lemmas import local_drift


class Recursion(NamedTuple):
    """What one round does to the error: E error' <= error - a x^2 + b x + c.

    Non-convex: error F(theta_t), x = ||grad F(theta_t)||. Strongly convex: error x^2, x = ||theta_t - theta*||.

    Example:
        >>> error, x = 1.0, 0.5
        >>> step = Recursion(a=0.1, b=0.02, c=0.01)
        >>> round(error - step.a * x**2 + step.b * x + step.c, 3)
        0.995
    """

    a: Numbers
    b: Numbers
    c: Numbers


class Round(NamedTuple):
    """What a, b and c are made of, d being the `local_drift`."""

    length: Numbers
    """u = beta p s eta"""
    pull: Numbers
    """sqrt(epsilon) + d: how far the silences and the drift bend the update, in units of its length"""
    overshoot: Numbers
    """beta s eta (1 + d)^2, of the update's second moment"""


def one_round(problem: Problem, method: Method, eta: Numbers) -> Round:
    """The parts of the recursions at one step size.

    Example:
        >>> one_round(Problem(epsilon=0.25, L=1.0), "fedavg", 0.5).pull.item()
        0.5
    """
    eta = numbers("the step", eta, low=0)
    drift = local_drift(problem, method, eta)
    walked = problem.beta * problem.steps(method) * eta
    return Round(walked * problem.p, np.sqrt(problem.epsilon) + drift, walked * (1 + drift) ** 2)


def non_convex_contraction(problem: Problem, method: Method, eta: Numbers) -> Numbers:
    """C_0(eta) = 1 - sqrt(epsilon) B - d B - beta (s eta L / 2) (1 + d)^2 B^2, d = `local_drift`.

    The bracket of the proof of Theorem nonconvex. The bounds hold where it is positive; under the theorem's conditions
    it is at least 0.7929 (FedAvg) or 0.727 (FedProx).

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0)
        >>> round(float(non_convex_contraction(problem, "fedavg", 0.1)), 6)
        0.85
    """
    _, pull, overshoot = one_round(problem, method, eta)
    return 1 - pull * problem.B - overshoot * problem.L / 2 * problem.B**2


def strongly_convex_contraction(problem: Problem, method: Method, eta: Numbers) -> Numbers:
    """mu C_0(eta) = mu - sqrt(epsilon) B L - d B L - beta (s eta / 2) (1 + d)^2 B^2 L^2, d = `local_drift`.

    The bracket of the proof of Theorem strongly_convex. The bounds hold where it is positive; under the theorem's
    conditions C_0 is at least 0.7929 (FedAvg) or 0.727 (FedProx).

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0, mu=1.0)
        >>> round(float(strongly_convex_contraction(problem, "fedavg", 0.1)), 6)
        0.85
    """
    _, pull, overshoot = one_round(problem, method, eta)
    reach = problem.B * problem.L
    return problem.strong_convexity - pull * reach - overshoot / 2 * reach**2


def non_convex_recursion(problem: Problem, method: Method, eta: Numbers) -> Recursion:
    """E F(theta_{t+1}) <= F(theta_t) - a_t ||grad F(theta_t)||^2 + b_t ||grad F(theta_t)|| + c_t.

    With u = beta p s eta and d = `local_drift` (proof of Theorem nonconvex, for FedAvg and FedProx):
    a_t = u C_0(eta),  b_t = u (sqrt(epsilon) + d) (G + sigma),  c_t = u beta (s eta L / 2) (1 + d)^2 (G^2 + sigma^2).

    Raises where C_0 is not positive.

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0, G=1.0)
        >>> [round(float(value), 6) for value in non_convex_recursion(problem, "fedavg", 0.1)]
        [0.085, 0.01, 0.005]
    """
    length, pull, overshoot = one_round(problem, method, eta)
    contraction = non_convex_contraction(problem, method, eta)
    _positive(contraction, eta, np.sqrt(problem.epsilon) * problem.B, "sqrt(epsilon) B")
    return Recursion(
        a=length * contraction,
        b=length * pull * problem.spread,
        c=length * overshoot * problem.L / 2 * problem.square_spread,
    )


def strongly_convex_recursion(problem: Problem, method: Method, eta: Numbers) -> Recursion:
    """E x_{t+1}^2 <= (1 - a_t) x_t^2 + b_t x_t + c_t, where x_t = ||theta_t - theta*||.

    With u = beta p s eta and d = `local_drift` (proof of Theorem strongly_convex, for FedAvg and FedProx):
    a_t = 2 u mu C_0(eta),  b_t = 2 u (sqrt(epsilon) + d) (G + sigma),  c_t = u beta s eta (1 + d)^2 (G^2 + sigma^2).

    Raises where C_0 is not positive. a_t is never above p (mu / (L B))^2 <= 1, so that 1 - a_t / 2 stays positive.

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0, mu=1.0, G=1.0)
        >>> [round(float(value), 6) for value in strongly_convex_recursion(problem, "fedavg", 0.1)]
        [0.17, 0.02, 0.01]
    """
    length, pull, overshoot = one_round(problem, method, eta)
    contraction = strongly_convex_contraction(problem, method, eta)
    share = np.sqrt(problem.epsilon) * problem.B * problem.L / problem.mu
    _positive(contraction, eta, share, "sqrt(epsilon) B L / mu")
    return Recursion(
        a=2 * length * contraction,
        b=2 * length * pull * problem.spread,
        c=length * overshoot * problem.square_spread,
    )


def _positive(contraction: Numbers, eta: Numbers, share: Numbers, name: str) -> None:
    """Raise where a round need not bring the error down, saying whether the adversary or the step is too large."""
    highest = float(np.max(share))
    require(highest < 1, f"{name} is {highest:g}: the upper bounds need it below 1, so give a smaller epsilon or B")
    require(
        bool(np.all(contraction > 0)),
        f"the step {worst(-contraction, eta):g} is too large for the upper bounds, since such a round need not bring "
        "the error down: take a smaller one, such as `step_cap` or `strongly_convex_step_cap`",
    )
