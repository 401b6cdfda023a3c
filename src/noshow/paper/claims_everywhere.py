"""The paper's claims about all its experiments: that the variants train, and that they are nowhere worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from noshow.paper import readings
from noshow.paper.claims_cifar10 import TYPES
from noshow.paper.figures import BASELINES, ONE, ROOT, VARIANTS
from noshow.paper.findings import (
    Evidence,
    Finding,
    alike,
    better,
    each,
    held_in,
    smoother,
    so_far,
    together,
    with_spread,
)
from noshow.paper.readings import FAILS, HOLDS, LOSS, OPEN
from noshow.paper.results import Curves

EVERYWHERE = ("cifar10-0.8", "cifar10-0.2", "shakespeare-0.7", "synthetic-0.9", "synthetic-0.7", "synthetic-long")
"""The paper's experiments with curves of the variants, but for the round-robin grid."""
GRID = "round-robin"
SYNTHETIC, REST = "synthetic", ("cifar10", "shakespeare")
"""How the names of experiments begin."""
CLASSES = {"shakespeare-0.7": 80}
"""What a model chooses from; elsewhere ten classes."""


def trains(evidence: Evidence) -> Finding:
    """Whether the variants, which know nothing of epsilon, end below a bar and near the lowest they were at."""
    return so_far(evidence, EVERYWHERE, _learns)


def _learns(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    return [_falls(name, curves[label]) for label in VARIANTS if label in curves]


def _falls(name: str, curve: Curves) -> Finding:
    first, last = curve.scores.train_loss[:, 0], np.nan_to_num(readings.level(curve, LOSS), nan=np.inf)
    bar = np.minimum(first, np.log(CLASSES.get(name, 10)))
    lowest, rises = readings.lowest_eighth(curve), readings.risen(curve)
    words = f"{name}, {curve.label}: loss from {first.mean():.3f} to {with_spread(last)}, lowest eighth {lowest:.3f}"
    room = min(float(((bar - last) / bar).min()), readings.RISEN * lowest / float(last.mean()) - 1)
    return Finding(FAILS if rises else readings.lower(last, bar), words + (", risen again" if rises else ""), room)


def smooth(evidence: Evidence) -> Finding:
    """Whether the variants are smoother than their originals, experiment by experiment."""
    return _over_all(evidence, _against_originals)


def nowhere_worse(evidence: Evidence) -> Finding:
    """Whether the variants are similar to or better than every algorithm that is none, experiment by experiment."""
    return _over_all(evidence, _against_others)


def _over_all(evidence: Evidence, compared: Callable[[Mapping[str, Curves]], list[Finding]]) -> Finding:
    whole, names = _with_cells(evidence)
    there = {name: compared(whole.curves(name)) for name in names if name in whole.runs}
    parts = [part for those in there.values() for part in those]

    def within(*families: str) -> str:
        return held_in([part for name in there if name.startswith(families) for part in there[name]])

    plain = [part for part in parts if part.words in BASELINES]
    first = f"In round-robin {within(GRID)}, on Synthetic(1,1) {within(SYNTHETIC)}, elsewhere {within(*REST)}"
    if len(plain) < len(parts):
        first += f"; against FedAvg, FedProx and MIFA alone {held_in(plain)}"
    return so_far(whole, names, lambda name, curves: [_counted(name, compared(curves))], first + _denied(parts))


def _with_cells(evidence: Evidence) -> tuple[Evidence, list[str]]:
    """The evidence with every cell of the grid as an experiment, and the names of those with variants."""
    cells = {f"{GRID} {cell}": {"": _as_elsewhere(curves)} for cell, curves in evidence.runs.get(GRID, {}).items()}
    return evidence._replace(runs={**evidence.runs, **cells}), [*EVERYWHERE, *(cells or [GRID])]


def _as_elsewhere(curves: Mapping[str, Curves]) -> dict[str, Curves]:
    """A cell of the grid with the variants of beta = sqrt(M/K) in the place of the variants."""
    return {label.removesuffix(ROOT): curve for label, curve in curves.items() if not label.endswith(ONE)}


def _against_others(curves: Mapping[str, Curves]) -> list[Finding]:
    variants = [label for label in VARIANTS if label in curves]
    return each(_not_worse, curves, product(variants, [label for label in curves if label not in VARIANTS]))


def _against_originals(curves: Mapping[str, Curves]) -> list[Finding]:
    return each(_smoother, curves, [(variant, original) for variant, original in TYPES if variant in curves])


def _not_worse(mine: Curves, theirs: Curves, what: str) -> Finding:
    ahead = better(mine, theirs, what).verdict
    return Finding(HOLDS if ahead == HOLDS else alike(mine, theirs, what).verdict, theirs.label)


def _smoother(mine: Curves, theirs: Curves, what: str) -> Finding:
    return Finding(smoother(mine, theirs, what).verdict, theirs.label)


def _counted(title: str, parts: Sequence[Finding]) -> Finding:
    counts = [f"{outcome} {sum(part.verdict == outcome for part in parts)}" for outcome in (HOLDS, FAILS, OPEN)]
    found = together(parts)
    return Finding(found.verdict, f"{title}: {', '.join(counts)}{_denied(parts)}", counts=found.counts)


def _denied(parts: Sequence[Finding]) -> str:
    """Who denies it, how often."""
    denied = Counter(part.words for part in parts if part.verdict == FAILS).most_common()
    return f"; denied by {', '.join(f'{label} {count}' for label, count in denied)}" if denied else ""
