"""Learning rates as functions of the round t = 0, 1, 2, …; any function of t will do.

Rates are worked out before the first round, in Python, so they may branch, look things up or be an optax schedule.
"""

from __future__ import annotations

import math

import numpy as np

from noshow.contracts import Rate
from noshow.errors import NoshowError, require


def constant(rate: float) -> Rate:
    """eta_t = rate.

    Example:
        >>> import noshow as ns
        >>> ns.rates.constant(0.5)(7)
        0.5
    """
    _above_zero("rate", rate)
    return lambda t: rate


def inverse_sqrt(initial: float) -> Rate:
    """eta_t = initial / sqrt(t + 1), the paper's decaying rate.

    Example:
        >>> import noshow as ns
        >>> ns.rates.inverse_sqrt(0.5)(3)
        0.25
    """
    _above_zero("initial", initial)
    return lambda t: initial / math.sqrt(t + 1)


def inverse(alpha: float, gamma: float) -> Rate:
    """eta_t = alpha / (t + gamma), the rate of the paper's strongly convex theorem.

    Example:
        >>> import noshow as ns
        >>> ns.rates.inverse(alpha=2.0, gamma=4.0)(4)
        0.25
    """
    _above_zero("alpha", alpha)
    _above_zero("gamma", gamma)
    return lambda t: alpha / (t + gamma)


def as_rate(rate: float | Rate) -> Rate:
    """A number becomes a constant rate; a function of t stays as it is.

    Example:
        >>> as_rate(0.5)(3), as_rate(lambda t: 1 / (t + 1))(3)
        (0.5, 0.25)
    """
    return rate if callable(rate) else constant(rate)


def curve(rate: Rate, rounds: int) -> np.ndarray:
    """The rate of every round as an array [rounds]; raises unless each is a finite number above zero.

    Example:
        >>> curve(inverse_sqrt(1.0), 4).round(2).tolist()
        [1.0, 0.7099999785423279, 0.5799999833106995, 0.5]
    """
    require(callable(rate), f"the rate is {rate!r}: give a function from a round to a number, as noshow.rates has them")
    return np.array([at(rate, t) for t in range(rounds)], np.float32)


def at(rate: Rate, t: int) -> float:
    """The rate of round t; raises unless it is a finite number above zero.

    Example:
        >>> at(inverse_sqrt(0.5), 3)
        0.25
    """
    said = rate(t)
    try:
        value = float(said)
    except (TypeError, ValueError):
        raise NoshowError(f"the rate of round {t} is {said!r}: give a function from a round to a number") from None
    with np.errstate(over="ignore", under="ignore"):
        kept = np.float32(value)
    require(
        bool(np.isfinite(kept) and kept > 0), f"the rate is {kept} in round {t}: rates must be finite and above zero"
    )
    return value


def _above_zero(name: str, value: float) -> None:
    require(math.isfinite(value) and value > 0, f"{name} is {value}: give a number above zero")
