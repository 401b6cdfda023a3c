"""Means over seeds, and how far to trust them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean over seeds and its confidence interval; all `None` if a seed diverged, no interval from one seed."""

    mean: float | None
    low: float | None = None
    high: float | None = None


def estimate(values: np.ndarray) -> Estimate:
    """The mean of independent numbers [S], and Student's t interval for what it estimates.

    Example:
        >>> import numpy as np
        >>> [round(end, 3) for end in estimate(np.array([1.0, 2.0, 3.0]))]
        [2.0, -0.484, 4.484]
        >>> estimate(np.array([1.0]))
        Estimate(mean=1.0, low=None, high=None)
        >>> estimate(np.array([1.0, np.nan])).mean is None
        True
    """
    values = np.asarray(values, np.float64)
    if not np.isfinite(values).all():
        return Estimate(None)
    mean, count = float(values.mean()), len(values)
    if count == 1:
        return Estimate(mean)
    reach = float(stdtrit(count - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(count))
    return Estimate(mean, mean - reach, mean + reach)
