"""Medians with their spread, and ratios of turns that were taken side by side."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """The middle of some numbers, the lowest and the highest.

    Example:
        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.0, high=3.0)
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


def ratios(theirs: Sequence[float], ours: Sequence[float]) -> Spread:
    """How many times as long theirs took: turn by turn, since turns of one repeat met the same noise.

    Example:
        >>> ratios([4.0, 9.0, 2.0], [2.0, 3.0, 2.0])
        Spread(median=2.0, low=1.0, high=3.0)
    """
    return Spread.of([their / our for their, our in zip(theirs, ours, strict=True)])
