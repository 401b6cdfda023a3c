"""kappa: how far s local steps stray from one step that is s times as long."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noshow.errors import require
from noshow.theory.constants import Numbers, numbers


def kappa(eta_l: Numbers, s: Numbers) -> Numbers:
    """kappa = ((1 + eta L)^s - 1 - s eta L) / (s(s-1)/2 (eta L)^2), as defined before Lemma s-steps-diff.

    It is 0 for s = 1 and at least 1 for s >= 2, tends to 1 as eta L -> 0, and grows with eta L, so that the paper's
    maximum over clients and rounds is the value at the largest eta_t L_i.

    Args:
        eta_l: eta L, a step in units of 1/L; zero or more.
        s: local steps.

    Example:
        >>> [round(float(kappa(0.1, s)), 6) for s in (1, 2, 3)]
        [0.0, 1.0, 1.033333]
    """
    x, count = np.broadcast_arrays(numbers("eta L", eta_l, low=0), numbers("s", s, low=1))
    require(bool(np.all(count == np.round(count))), "s is not whole: give a whole number of local steps")
    short = x * count < 1
    value = np.where(short, _series(np.where(short, x, 0.0), count), _directly(np.where(short, 1.0, x), count))
    require(
        bool(np.all(np.isfinite(value))),
        f"eta L s is {float(np.max(x * count))}, where kappa is too large a number: take smaller or fewer steps",
    )
    return np.where(count == 1, 0.0, value)[()]


def kappa_ceiling(c: Numbers) -> Numbers:
    """(e^c - 1 - c) / (c^2/2), which kappa stays under while eta L s <= c (the remark before Lemma s-steps-diff).

    Example:
        >>> round(float(kappa_ceiling(0.1)), 4)
        1.0342
    """
    x = np.asarray(numbers("c", c, low=0))
    require(bool(np.all(x <= 700)), f"c is {float(np.max(x))}, where e^c is too large a number: give 700 or less")
    above = np.maximum(x, 1.0)
    return np.where(x < 1, _exponential_series(np.minimum(x, 1.0)), 2 * (np.expm1(above) - above) / above**2)[()]


# Below eta L s = 1 the definition subtracts nearly equal numbers, so the binomial series is summed instead: its k-th
# term is under 2/k!, and 20 terms are all that float64 can see.
_TERMS = range(2, 22)


def _series(x: NDArray[np.float64], s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over k >= 2 of binom(s, k) / binom(s, 2) x^(k-2)."""
    term = total = np.ones_like(x)
    for k in _TERMS:
        term = term * x * np.maximum(s - k, 0) / (k + 1)
        total = total + term
    return total


def _exponential_series(c: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over k >= 2 of 2 c^(k-2) / k!, the series above as s -> infinity with x = c/s."""
    term = total = np.ones_like(c)
    for k in _TERMS:
        term = term * c / (k + 1)
        total = total + term
    return total


def _directly(x: NDArray[np.float64], s: NDArray[np.float64]) -> NDArray[np.float64]:
    many = np.maximum(s, 2)
    with np.errstate(over="ignore"):
        return (np.expm1(many * np.log1p(x)) - many * x) / (many * (many - 1) / 2 * x**2)
