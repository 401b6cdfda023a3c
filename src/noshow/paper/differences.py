"""What stands out in the results, one factual line each; a line is there only where the numbers bear it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from noshow import datasets
from noshow.budget import limit
from noshow.paper import readings
from noshow.paper.claims_synthetic import EPSILON
from noshow.paper.experiments import SETTINGS
from noshow.paper.figures import BYZANTINE
from noshow.paper.findings import Evidence, better, level_of
from noshow.paper.readings import ACCURACY, HOLDS, LOSS
from noshow.paper.results import Curves
from noshow.paper.stuck import held_in_tail, in_tail

NOTHING_KNOWN = np.log(10)
DRAWN = "cifar10-0.8"
AUTHORS = {
    "fedavg": {ACCURACY: (0.35, 0.53), LOSS: (1.5, 2.5)},
    "fedavg_variant": {ACCURACY: (0.46, 0.46), LOSS: (1.45, 1.45)},
    "fedprox": {ACCURACY: (0.34, 0.34), LOSS: (1.8, 1.8)},
    "fedprox_variant": {ACCURACY: (0.52, 0.52), LOSS: (1.2, 1.2)},
}
"""Read off the authors' own plot of cifar10-0.8 (`published`), one seed: about one value, or from one to the other."""


def differences(evidence: Mapping[str, Evidence]) -> list[str]:
    """The lines, each with the experiments and settings it is about."""
    where: dict[str, list[str]] = {}
    for setting in SETTINGS:
        for name, runs in evidence[setting].runs.items():
            for cell, curves in runs.items():
                for line in _stuck(curves) if cell else _of(name, setting, curves):
                    where.setdefault(line, []).append(f"{f'{name} {cell}'.strip()} ({setting})")
    return [f"- {', '.join(titles)}: {line}" for line, titles in where.items()] or ["Nothing yet."]


def in_words(seen: tuple[float, float]) -> str:
    """What a plot shows.

    Example:
        >>> in_words((0.46, 0.46)), in_words((0.35, 0.53))
        ('about 0.46', '0.35 to 0.53')
    """
    low, high = seen
    return f"about {low:g}" if low == high else f"{low:g} to {high:g}"


def _of(name: str, setting: str, curves: Mapping[str, Curves]) -> Iterator[str]:
    if (name, setting) == (DRAWN, "published"):
        yield from _against_authors(curves)
    if "mifa" in curves and all(_wins(curves["mifa"], other) for other in curves.values() if other.label != "mifa"):
        yield (
            "MIFA has the best accuracy, better than every other algorithm. Its memory starts from zero here, and from "
            "random weights in the authors' program; what that alone makes was not measured."
        )
    yield from _stuck(curves)
    yield from _risen(curves)
    if name in EPSILON:
        held = datasets.synthetic(1, 1).held
        large = held[held > limit(EPSILON[name], 10, held)]
        yield (
            f"{len(large)} of the 100 clients hold {large.sum() / held.sum():.0%} of the data, each more than "
            f"epsilon = {EPSILON[name]} lets the adversary silence in a round: they always answer."
        )
    rules = [curves[label] for label in BYZANTINE if label in curves]
    if name.startswith("cifar10") and setting == "written" and all(_learnt_nothing(curve) for curve in rules):
        yield (
            "the four Byzantine-resilient rules have learnt next to nothing: their loss is within 2 % of ln 10, "
            "a blind model's. They take one step a round at rate 0.001, and with damping 0.1 a momentum is no longer "
            "than a gradient; with damping 1 (`published`) it is up to ten times as long."
        )
    if _coincide(curves.get("cclip"), curves.get("bucketing_cclip")):
        yield (
            "cclip and bucketing_cclip have train losses within 0.0005 of each other at every evaluation of the tail. "
            "The likely cause, which was not measured: where no momentum is longer than tau = 100, nothing is clipped "
            "and both are the weighted mean."
        )


def _risen(curves: Mapping[str, Curves]) -> Iterator[str]:
    """Whose train loss ends well above what it was in some eighth of the run."""
    told = [
        f"{curve.label} from {readings.lowest_eighth(curve):.3f} to {readings.level(curve, LOSS).mean():.3f}"
        for curve in curves.values()
        if readings.risen(curve)
    ]
    if told:
        yield f"the train loss falls and rises again (lowest eighth of the run, level): {', '.join(told)}."


def _stuck(curves: Mapping[str, Curves]) -> Iterator[str]:
    for curve in curves.values():
        held = held_in_tail(curve)
        if np.isfinite(held).any():
            levels = "/".join(f"{level:.3f}" for level in readings.level(curve, ACCURACY))
            yield (
                f"{curve.label} learns nothing in {np.isfinite(held).sum()} of {len(held)} seeds: the accuracy is "
                f"{np.nanmin(held):.2f} at more than half of the tail's evaluations (levels {levels})."
            )


def _against_authors(curves: Mapping[str, Curves]) -> Iterator[str]:
    off = [
        f"{label} {level_of(curves[label], ACCURACY)} against {in_words(seen[ACCURACY])}"
        for label, seen in AUTHORS.items()
        if _outside(readings.level(curves[label], ACCURACY), seen[ACCURACY])
    ]
    if off:
        yield (
            f"accuracy is off the authors' plot by more than 0.02: {'; '.join(off)}. Not explained: their draw of the "
            "clients' labels is not ours, their program differs (docs/differences.md), and theirs is one seed."
        )


def _outside(levels: np.ndarray, seen: tuple[float, float]) -> bool:
    mean = float(levels.mean())
    return mean < seen[0] - 0.02 or mean > seen[1] + 0.02


def _wins(mine: Curves, theirs: Curves) -> bool:
    return better(mine, theirs, ACCURACY).verdict == HOLDS


def _learnt_nothing(curve: Curves) -> bool:
    return bool((np.abs(readings.level(curve, LOSS) - NOTHING_KNOWN) < 0.02 * NOTHING_KNOWN).all())


def _coincide(one: Curves | None, other: Curves | None) -> bool:
    """Whether two train losses differ by next to nothing at every evaluation of the tail."""
    if one is None or other is None:
        return False
    mine, theirs = (np.asarray(curve.scores.train_loss, np.float64)[:, in_tail(curve)] for curve in (one, other))
    return bool(np.abs(mine - theirs).max() < 5e-4)
