"""Seeds that learn nothing for long: they widen bands and spreads, and figures and the page of claims tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from noshow.paper.readings import TAIL
from noshow.paper.results import Curves

FEW = 5
"""So few equal evaluations may be chance."""
NOTHING_LEARNT = 0.03
"""The accuracy of a model that learns nothing may be so far from what it began with."""


def stuck(curves: Iterable[Curves]) -> str:
    """Which curves have seeds that learn nothing for a quarter of the rounds, which widens their bands."""
    told = []
    for curve in curves:
        quarters = np.array_split(np.arange(len(curve.evaluated)), 4)
        held = np.array([_held(curve, quarter) for quarter in quarters])
        if np.isfinite(held).any():
            last = int(np.flatnonzero(np.isfinite(held).any(1))[-1])
            told.append(f"{_seeds_at(curve.label, held)} up to round {curve.evaluated[quarters[last][-1]]}")
    return "\n".join(told)


def stuck_at(runs: Mapping[str, Mapping[str, Curves]], labels: Sequence[str]) -> str:
    """The same for the last quarter alone, with the probabilities at which it is so."""
    told = []
    for label in labels:
        held = {cell: held_in_tail(curves[label]) for cell, curves in runs.items() if label in curves}
        still = {cell: seeds for cell, seeds in held.items() if np.isfinite(seeds).any()}
        told += [f"{_seeds_at(label, seeds[None])} for {cell.replace('p', 'p = ')}" for cell, seeds in still.items()]
    return "\n".join(told)


def held_in_tail(curve: Curves) -> np.ndarray:
    """What a seed that learns nothing in the last quarter has its accuracy held at; no number where it learns [seeds].

    Example:
        >>> from noshow.paper.readings import example
        >>> still, late = [0.1] * 30 + [0.101, 0.1] * 5 + [0.1], [0.1] * 30 + [0.1, 0.2, 0.3] * 3 + [0.3, 0.4]
        >>> held_in_tail(example(accuracy=[still, late])).tolist()
        [0.1, nan]
    """
    return _held(curve, in_tail(curve))


def _seeds_at(label: str, held: np.ndarray) -> str:
    """In words, from what each seed was held at [quarters, seeds]."""
    return f"{label}: {np.isfinite(held).any(0).sum()} of {held.shape[1]} seeds stuck at {np.nanmin(held):.2f}"


def _held(curve: Curves, chosen: np.ndarray) -> np.ndarray:
    """What the accuracy of a seed is held at in more than half of these evaluations, no number if it is not [seeds].

    That is what a model that gives one answer whatever it is asked gets; it is near what it began with.
    """
    accuracy = np.asarray(curve.scores.test_accuracy, np.float64)
    held = np.full(len(accuracy), np.nan)
    rows = accuracy[:, chosen]
    for seed, row in enumerate(rows if rows.shape[1] > FEW else ()):
        values, counts = np.unique(row, return_counts=True)
        most = values[counts.argmax()]
        if counts.max() > max(len(row) / 2, FEW) and abs(most - accuracy[seed, 0]) < NOTHING_LEARNT:
            held[seed] = most
    return held


def in_tail(curve: Curves) -> np.ndarray:
    chosen: np.ndarray = curve.evaluated > TAIL * curve.evaluated[-1]
    return chosen
