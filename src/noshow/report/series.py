"""An algorithm's curves and final numbers, out of its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from noshow.evaluate import Metrics
from noshow.history import History
from noshow.report.statistics import estimate

MOST_POINTS = 2000
"""Points of a curve; of longer ones every second round is drawn, or every third, …"""
GRADIENT = "gradient_norm"


class Curve(NamedTuple):
    """Values [S, E] after so many rounds [E]; not a number from where a seed diverged."""

    rounds: np.ndarray
    values: np.ndarray


def curves_of(history: History) -> dict[str, Curve]:
    """Every metric of a history, and the length of the gradient where it was diagnosed.

    A model that is not a number any more may still be right by accident: from a seed's first score that is no finite
    number on, none of its scores counts.
    """
    scores = np.stack([np.asarray(column, np.float64) for column in history.scores])
    lost = np.maximum.accumulate(~np.isfinite(scores).all(0), axis=1)
    curves = {
        name: Curve(history.evaluated, np.where(lost, np.nan, values))
        for name, values in zip(Metrics._fields, scores, strict=True)
    }
    if history.diagnostics is not None:
        norms = np.asarray(history.diagnostics.gradient_norm, np.float64)
        lost = np.maximum.accumulate(~np.isfinite(norms), axis=1)
        curves[GRADIENT] = Curve(np.arange(norms.shape[1]), np.where(lost, np.nan, norms))
    return curves


def drawn(curve: Curve) -> dict[str, list[Any]]:
    """A curve's mean, lowest and highest over seeds, up to where the first seed diverged.

    Example:
        >>> import numpy as np
        >>> drawn(Curve(np.array([0, 15, 30]), np.array([[1.0, 2.0, 3.0], [3.0, 4.0, np.nan]])))
        {'rounds': [0, 15], 'mean': [2.0, 3.0], 'low': [1.0, 2.0], 'high': [3.0, 4.0]}
    """
    whole = np.isfinite(curve.values).all(0)
    end = len(whole) if whole.all() else int(np.argmin(whole))
    stride = max(1, -(-end // MOST_POINTS))
    chosen = np.unique(np.append(np.arange(0, end, stride), np.arange(max(0, end - 1), end)))
    values = curve.values[:, chosen]
    return {
        "rounds": curve.rounds[chosen].tolist(),
        "mean": short(values.mean(0)),
        "low": short(values.min(0)),
        "high": short(values.max(0)),
    }


def diverged(history: History) -> list[dict[str, int]]:
    """The seeds whose scores stopped being numbers, and the evaluation that first saw it.

    Example:
        >>> import numpy as np, noshow as ns
        >>> from noshow.evaluate import Metrics
        >>> losses = np.array([[2.0, 1.0], [2.0, np.nan]])
        >>> nobody = ns.RollCall(np.zeros((2, 0, 1), int), np.zeros((2, 0, 1), bool), np.zeros((2, 0)))
        >>> diverged(ns.History("fedavg", np.array([7, 8]), np.array([0, 15]), Metrics(losses, losses, losses), nobody,
        ...                     models=[], seconds=0.0, seconds_preparing=0.0))
        [{'seed': 8, 'round': 15}]
    """
    whole = np.isfinite(np.stack([np.asarray(column) for column in history.scores])).all(0)
    return [
        {"seed": int(seed), "round": int(history.evaluated[np.argmin(row)])}
        for seed, row in zip(history.seeds, whole, strict=True)
        if not row.all()
    ]


def final(curve: Curve) -> dict[str, float | None]:
    """The mean over seeds of the last values, with its interval."""
    return estimate(curve.values[:, -1])._asdict() if curve.values.size else estimate(np.array([np.nan]))._asdict()


def differences(histories: Sequence[History]) -> dict[str, dict[str, dict[str, dict[str, float | None]]]]:
    """For each algorithm as the one compared with, each other one's final numbers less its own, seed by seed.

    Seeds see the same samples, batches and, where the adversary does not look at replies, the same silences under every
    algorithm: the differences vary less than the numbers do.
    """
    last = {
        history.algorithm: {
            name: dict(zip(history.seeds.tolist(), curve.values[:, -1], strict=True))
            for name, curve in curves_of(history).items()
            if curve.values.size
        }
        for history in histories
    }
    return {
        base: {other: _less(last[other], last[base]) for other in last if other != base}
        for base in last
        if len(last) > 1
    }


def _less(ours: dict[str, dict[int, float]], theirs: dict[str, dict[int, float]]) -> dict[str, dict[str, float | None]]:
    found = {}
    for name in ours.keys() & theirs.keys():
        seeds = [seed for seed in ours[name] if seed in theirs[name]]
        found[name] = estimate(np.array([ours[name][seed] - theirs[name][seed] for seed in seeds]))._asdict()
    return found


def short(values: np.ndarray) -> list[float]:
    """Numbers with as many digits as tell all 32-bit ones apart.

    Example:
        >>> import numpy as np
        >>> short(np.array([1 / 3]))
        [0.333333333]
    """
    return [float(f"{value:.9g}") for value in np.asarray(values).tolist()]
