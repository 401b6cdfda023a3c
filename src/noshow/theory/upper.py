"""What absence costs at most: the proofs' recursions summed up, as curves over time and in the limit.

Curves put time on the last axis, after the axes of the problem's constants. They hold for the paper's variants of
FedAvg and FedProx whose batch stays the same within a round, whenever every a_t is positive, which is less than
the theorems ask for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noshow.contracts import Rate
from noshow.errors import require
from noshow.theory.constants import Method, Numbers, Problem, numbers, worst
from noshow.theory.recursions import (
    non_convex_contraction,
    non_convex_recursion,
    one_round,
    strongly_convex_contraction,
    strongly_convex_recursion,
)


def non_convex_curve(problem: Problem, method: Method, rate: Rate, last: int, gap: Numbers) -> NDArray[np.float64]:
    """Bounds on E ||grad F(theta_R)||^2 for T = 0, …, last: equation telescope in the proof of Theorem nonconvex.

    Where R = k with probability eta_k / sum_{t <= T} eta_t:

        2 (F(theta_0) - F_min) / sum a_t + sum (b_t^2 / a_t + 2 c_t) / sum a_t,   sums over t = 0, …, T,

    with a_t = C_0 beta p s eta_t and C_0 the smallest `non_convex_contraction` of these rounds; b_t and c_t from
    `non_convex_recursion`.

    Args:
        problem: the constants.
        method: "fedavg" or "fedprox".
        rate: eta_t, a function of t = 0, 1, …
        last: the last round of the curve, counted from 0.
        gap: F(theta_0) - F_min.

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0, G=1.0)
        >>> curve = non_convex_curve(problem, "fedavg", lambda t: 0.1 / (t + 1) ** 0.5, last=1000, gap=1.0)
        >>> curve[[0, 10, 1000]].round(3).tolist()
        [23.661, 4.501, 0.409]
    """
    eta = step_sizes(rate, last)
    constants = problem.over_time()
    a, b, c = non_convex_recursion(constants, method, eta)
    length = one_round(constants, method, eta).length
    contraction = np.minimum.accumulate(a / length, axis=-1)
    start = np.asarray(numbers("gap", gap, low=0))[..., None]
    silences = np.cumsum(b**2 / length, axis=-1) / contraction**2
    return ((2 * start + 2 * np.cumsum(c, axis=-1)) / contraction + silences) / np.cumsum(length, axis=-1)


def non_convex_limit(problem: Problem, method: Method, largest: Numbers, final: Numbers = 0.0) -> Numbers:
    """The limit of `non_convex_curve` as T -> infinity: epsilon (G + sigma)^2 / C_0^2 for steps that fall to zero.

    C_0 is the `non_convex_contraction` at the largest step. For steps that fall to, or stay at, a `final` one:
    (sqrt(epsilon) + d)^2 (G + sigma)^2 / C_0^2 + beta s eta L (1 + d)^2 (G^2 + sigma^2) / C_0 at that eta. The
    theorem's 4 epsilon (G + sigma)^2 is larger, as its proof puts 2 (epsilon + d^2) for (sqrt(epsilon) + d)^2.

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0, G=1.0)
        >>> round(float(non_convex_limit(problem, "fedavg", largest=0.1)), 5)
        0.01384
    """
    excess = numbers("final", final, low=0) - numbers("largest", largest, low=0)
    require(
        bool(np.all(excess <= 0)),
        f"final is {worst(excess, final)} and largest is {worst(excess, largest)}: give a final step up to the largest",
    )
    non_convex_recursion(problem, method, largest)  # raises where there is no bound
    contraction = non_convex_contraction(problem, method, largest)
    _, pull, overshoot = one_round(problem, method, final)
    return (pull * problem.spread / contraction) ** 2 + overshoot * problem.L * problem.square_spread / contraction


def strongly_convex_curve(
    problem: Problem, method: Method, rate: Rate, last: int, distance: Numbers
) -> NDArray[np.float64]:
    """Bounds on E ||theta_t - theta*||^2 for t = 0, …, last: the recursion in the proof of Theorem strongly_convex.

        D_0 = ||theta_0 - theta*||^2,   D_{t+1} = (1 - a_t / 2) D_t + b_t^2 / (2 a_t) + c_t,

    a_t, b_t, c_t from `strongly_convex_recursion`. (The proof's D_0 lacks the square.)

    Args:
        problem: the constants, with mu.
        method: "fedavg" or "fedprox".
        rate: eta_t, a function of t = 0, 1, …
        last: the last t of the curve.
        distance: ||theta_0 - theta*||.

    Example:
        >>> problem = Problem(epsilon=0.0001, L=1.0, mu=1.0, G=1.0)
        >>> curve = strongly_convex_curve(problem, "fedavg", lambda t: 2 / (t + 40), last=1000, distance=1.0)
        >>> curve[[0, 100, 1000]].round(3).tolist()
        [1.0, 0.103, 0.005]
    """
    start = np.asarray(numbers("distance", distance, low=0)) ** 2
    a, b, c = strongly_convex_recursion(problem.over_time(), method, step_sizes(rate, last))
    kept, added = np.broadcast_arrays(1 - a / 2, b**2 / (2 * a) + c)
    bounds = [np.broadcast_arrays(start, kept[..., 0])[0]]
    for t in range(last):
        bounds.append(kept[..., t] * bounds[-1] + added[..., t])
    return np.stack(bounds, axis=-1)


def strongly_convex_limit(problem: Problem, method: Method, final: Numbers = 0.0) -> Numbers:
    """The limit of `strongly_convex_curve` as t -> infinity: epsilon (G + sigma)^2 / (mu - sqrt(epsilon) B L)^2.

    That is for steps that fall to zero while their sum grows without bound. For steps that fall to, or stay at, a
    `final` one, with mu C_0 the `strongly_convex_contraction` there:
    (sqrt(epsilon) + d)^2 (G + sigma)^2 / (mu C_0)^2 + beta s eta (1 + d)^2 (G^2 + sigma^2) / (mu C_0).

    Example:
        >>> problem = Problem(epsilon=0.01, L=1.0, mu=1.0, G=1.0)
        >>> round(float(strongly_convex_limit(problem, "fedavg")), 6)
        0.012346
    """
    strongly_convex_recursion(problem, method, final)  # raises where there is no bound
    contraction = strongly_convex_contraction(problem, method, final)
    _, pull, overshoot = one_round(problem, method, final)
    return (pull * problem.spread / contraction) ** 2 + overshoot * problem.square_spread / contraction


def step_sizes(rate: Rate, last: int) -> NDArray[np.float64]:
    """eta_0, …, eta_last in float64; raises unless each is a finite number above zero.

    Example:
        >>> step_sizes(lambda t: 1 / (t + 1), 3).round(2).tolist()
        [1.0, 0.5, 0.33, 0.25]
    """
    values = np.array([float(rate(t)) for t in range(whole_round(last) + 1)], np.float64)
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    first = int(bad[0]) if bad.size else 0
    require(bad.size == 0, f"the rate is {values[first]} in round {first}: rates must be finite and above zero")
    return values


def whole_round(last: int) -> int:
    """The round, if it is one: a whole number from 0 on."""
    require(
        np.ndim(last) == 0 and last >= 0 and last % 1 == 0, f"last is {last}: give a round, a whole number from 0 on"
    )
    return int(last)
