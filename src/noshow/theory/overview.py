"""All bounds of one problem side by side, at a few times."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from noshow.errors import NoshowError, require
from noshow.theory.closed import decaying_rate_corollary, strongly_convex_theorem
from noshow.theory.conditions import Condition, conditions
from noshow.theory.constants import Method, Problem, numbers
from noshow.theory.lower import distance_floor, gradient_floor
from noshow.theory.steps import decaying_rate, inverse_rate, smallest_alpha, strongly_convex_step_cap
from noshow.theory.upper import non_convex_curve, non_convex_limit, strongly_convex_curve, strongly_convex_limit


class Overview(NamedTuple):
    """One theorem's floor and ceilings; NaN where a ceiling does not hold, which `conditions` explains.

    Example:
        >>> seen = non_convex_overview(Problem(epsilon=0.01, L=1.0, G=1.0, K=100, M=100), "fedavg", 100, gap=1.0)
        >>> seen.times.tolist(), round(seen.floor, 5), bool(np.all(seen.explicit <= seen.closed))
        ([1, 10, 100], 0.00126, True)
    """

    conditions: list[Condition]
    floor: float
    times: np.ndarray
    explicit: np.ndarray
    """The proofs' recursions, with the theorem's own schedule"""
    closed: np.ndarray
    """The theorem's closed form"""
    limit: float
    """Where the explicit curve ends"""


def non_convex_overview(problem: Problem, method: Method, rounds: int, gap: float) -> Overview:
    """Bounds on E ||grad F(theta_R)||^2 with `decaying_rate`, at T = 1, 10, 100, … up to `rounds`.

    Example:
        >>> seen = non_convex_overview(Problem(epsilon=0.5, L=1.0, B=2.0), "fedavg", 10, gap=1.0)
        >>> seen.explicit.tolist(), [row.name for row in seen.conditions if not row.holds]
        ([nan, nan], ['sqrt(epsilon) B', 'contraction'])
    """
    times, rate = decades(rounds), decaying_rate(problem, method)
    numbers("gap", gap, low=0)
    return Overview(
        conditions(problem, method, "non-convex", step=rate(0)),
        float(gradient_floor(problem)),
        times,
        _or_nan(lambda: non_convex_curve(problem, method, rate, rounds, gap)[times], times.shape),
        _or_nan(lambda: np.asarray(decaying_rate_corollary(problem, method, times, gap)), times.shape),
        float(_or_nan(lambda: np.asarray(non_convex_limit(problem, method, rate(0))), ())),
    )


def strongly_convex_overview(problem: Problem, method: Method, rounds: int, distance: float) -> Overview:
    """Bounds on E ||theta_t - theta*||^2 with `inverse_rate`, at t = 1, 10, 100, … up to `rounds`.

    Example:
        >>> problem = Problem(epsilon=0.0001, L=1.0, mu=1.0, G=1.0)
        >>> strongly_convex_overview(problem, "fedavg", 1000, distance=1.0).explicit.round(3).tolist()
        [0.954, 0.657, 0.103, 0.005]
    """
    times, rate = decades(rounds), inverse_rate(problem, method)
    numbers("distance", distance, low=0)
    alpha = smallest_alpha(problem, method)
    cap = strongly_convex_step_cap(problem, method)

    def closed() -> np.ndarray:
        return strongly_convex_theorem(problem, method, alpha, alpha / cap, rounds, distance)[times]

    return Overview(
        conditions(problem, method, "strongly convex", step=cap, alpha=alpha),
        float(distance_floor(problem)),
        times,
        _or_nan(lambda: strongly_convex_curve(problem, method, rate, rounds, distance)[times], times.shape),
        _or_nan(closed, times.shape),
        float(_or_nan(lambda: np.asarray(strongly_convex_limit(problem, method)), ())),
    )


def decades(last: int) -> np.ndarray:
    """1, 10, 100, … and the last round itself.

    Example:
        >>> decades(2000).tolist()
        [1, 10, 100, 1000, 2000]
    """
    require(last >= 1, f"rounds is {last}: give 1 or more")
    powers = 10 ** np.arange(len(str(last)))
    return np.unique([*powers[powers < last], last])


def _or_nan(bound: Callable[[], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    try:
        return bound()
    except NoshowError:  # its condition fails; the overview's conditions say which
        return np.full(shape, np.nan)
