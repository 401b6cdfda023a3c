"""What a claim of the paper is, what it is held against, and what is found: a verdict with its numbers in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from noshow.paper import readings
from noshow.paper.copies import Rehearsed
from noshow.paper.figures import Runs
from noshow.paper.readings import ACCURACY, FAILS, HOLDS, LOSS, OPEN, Verdict
from noshow.paper.results import Curves

METRICS = (ACCURACY, LOSS)
CALLED = {ACCURACY: "accuracy", LOSS: "loss"}
ALL_LISTED = 6
"""Up to so many comparisons are all written out; of more, those that do not hold, and the tightest that does."""


class Evidence(NamedTuple):
    """The results of one setting: the curves of every experiment whose algorithms are all finished, and what rehearsals
    on copies of the data showed."""

    setting: str
    runs: Mapping[str, Runs]
    rehearsed: Sequence[Rehearsed] = ()

    def curves(self, name: str) -> Mapping[str, Curves]:
        """The curves of an experiment without a grid."""
        return self.runs[name][""]


class Finding(NamedTuple):
    """A verdict and what it rests on; `margin` ranks many comparisons of one kind, the tightest lowest."""

    verdict: Verdict
    words: str
    margin: float | None = None


Parts = Callable[[str, Mapping[str, Curves]], Sequence[Finding]]
"""The comparisons that a claim is made of, given an experiment's name and curves."""


class Claim(NamedTuple):
    """One claim: its number here, what it says in our words, where it stands, what it needs, how it is read."""

    number: str
    says: str
    where: str
    needs: tuple[str, ...]
    read: Callable[[Evidence], Finding]

    def finding(self, evidence: Evidence) -> Finding:
        """What the evidence says."""
        missing = [name for name in self.needs if name not in evidence.runs]
        return Finding("not run", f"needs {', '.join(missing)}") if missing else self.read(evidence)


def of(name: str, parts: Parts) -> Callable[[Evidence], Finding]:
    """The reading of a claim about one experiment."""
    return lambda evidence: together(parts(name, evidence.curves(name)))


def unmeasured(words: str) -> Callable[[Evidence], Finding]:
    """The reading of a claim that no run can confirm or deny."""
    return lambda evidence: Finding("no measurement", words)


def together(parts: Sequence[Finding], first: str = "") -> Finding:
    """One finding from several.

    All alike: the same. Some hold, at least in part, and others not: it depends. None holds, and some are denied: it
    does not hold.

    Example:
        >>> together([Finding("holds", "a 1"), Finding("not decidable", "b 2")])[:2]
        ('depends', 'holds: a 1. not decidable: b 2.')
    """
    outcomes = {part.verdict for part in parts}
    mixed: Verdict = "depends" if outcomes & {HOLDS, "depends"} else FAILS
    verdict = parts[0].verdict if len(outcomes) == 1 else mixed
    words = [first] if first else []
    many = len(parts) > ALL_LISTED and all(part.margin is not None for part in parts)
    for outcome in (HOLDS, FAILS, "depends", OPEN):
        those = [part for part in parts if part.verdict == outcome]
        if many and those and outcome == HOLDS:
            tightest = min(those, key=lambda part: part.margin or 0.0)
            words.append(f"holds in {len(those)} of {len(parts)}, the tightest: {tightest.words}")
        elif those:
            listed = "; ".join(part.words for part in those)
            words.append(f"{outcome}: {listed}" if len(outcomes) > 1 else listed)
    return Finding(verdict, ". ".join(words) + ".")


def so_far(evidence: Evidence, names: Iterable[str], parts: Parts) -> Finding:
    """A claim about several experiments, from those that are there.

    Until all are, only "depends" is final: a claim that holds here and fails there stays so.
    """
    asked = list(names)
    there = [name for name in asked if name in evidence.runs]
    missing = [name for name in asked if name not in there]
    if not there:
        return Finding("not run", f"needs {', '.join(missing)}")
    found = together([part for name in there for part in parts(name, evidence.curves(name))])
    if not missing:
        return found
    words = f"So far, without {', '.join(missing)}: {found.verdict}. {found.words}"
    return Finding(found.verdict if found.verdict == "depends" else "not run", words)


def with_spread(values: np.ndarray, sign: str = "") -> str:
    """Mean and spread over seeds, to three digits; the number alone where there is one seed.

    Example:
        >>> import numpy as np
        >>> with_spread(np.array([0.4, 0.5, 0.6])), with_spread(np.array([0.0021, 0.0023]), "+")
        ('0.500 ± 0.100', '+0.00220 ± 0.00014')
        >>> with_spread(np.array([0.4]))
        '0.400'
    """
    mean, wide = float(np.mean(values)), readings.spread(values)
    if not np.isfinite(mean):
        return f"{mean}"
    size = np.nanmax([abs(mean), wide])
    digits = 3 if size >= 0.01 else 5
    return f"{mean:{sign}.{digits}f}" + ("" if len(values) == 1 else f" ± {wide:.{digits}f}")


def level_of(curve: Curves, what: str) -> str:
    """The level over the tail in words."""
    return with_spread(readings.level(curve, what))


def better(mine: Curves, theirs: Curves, what: str) -> Finding:
    """Whether mine has the better level: the paired gain."""
    one, other = readings.level(mine, what), readings.level(theirs, what)
    return gained(one, other, f"{mine.label} over {theirs.label}", what)


def gained(mine: np.ndarray, theirs: np.ndarray, who: str, what: str) -> Finding:
    """The paired gain of levels in words; positive is better for accuracy and for loss."""
    gains, close = readings.gain(mine, theirs, what), readings.near(mine, theirs, what)
    wide = readings.yardstick(gains, close)
    mean = float(gains.mean())
    margin = mean / wide if wide > 0 else float(np.copysign(np.inf, mean))
    return Finding(readings.beats(gains, close), f"{who}, {CALLED[what]} {with_spread(gains, '+')}", margin)


def far_better(mine: Curves, theirs: Curves, what: str) -> Finding:
    """Whether mine is better by more than three spreads."""
    one, other = readings.level(mine, what), readings.level(theirs, what)
    apart = readings.spreads_apart(one, other, what)
    words = f"{mine.label} over {theirs.label}, {CALLED[what]} {with_spread(readings.gain(one, other, what), '+')}"
    return Finding(readings.beats_by_far(one, other, what), f"{words} ({apart:+.2f} spreads)", apart)


def alike(mine: Curves, theirs: Curves, what: str) -> Finding:
    """Whether both have similar levels."""
    one, other = readings.level(mine, what), readings.level(theirs, what)
    verdict, why = readings.similar(one, other, what)
    gains = readings.gain(one, other, what)
    if verdict == HOLDS and readings.beats(gains) != OPEN:
        why += ", yet of one sign in every seed"
    words = f"{mine.label} over {theirs.label}, {CALLED[what]} {with_spread(gains, '+')} ({why})"
    return Finding(verdict, words, -abs(float(gains.mean())) / readings.near(one, other, what))


def smoother(mine: Curves, theirs: Curves, what: str) -> Finding:
    """Whether mine is less rough in every seed; the second reading is told where it says something else."""
    one, other = readings.roughness(mine, what), readings.roughness(theirs, what)
    verdict = readings.lower(one, other)
    words = f"{mine.label} {rough_in_words(one)} v {theirs.label} {rough_in_words(other)}, {CALLED[what]}"
    second = readings.lower(readings.steps(mine, what), readings.steps(theirs, what))
    if second != verdict:
        words += f" (by successive evaluations: {second})"
    flat = int(readings.stuck(theirs).sum())
    if flat:
        words += f" ({theirs.label}'s accuracy never moves in {flat} of {len(other)} seeds)"
    return Finding(verdict, words, _least_ratio(other, one))


def unconverged(curve: Curves, what: str) -> Finding:
    """Whether the tail has not come to rest, in any seed."""
    rest = readings.converged(curve, what)
    verdict = FAILS if rest.all() else OPEN if rest.any() else HOLDS
    drift, rough = readings.drift(curve, what).mean(), readings.roughness(curve, what).mean()
    words = f"{curve.label}, {CALLED[what]} drifts by {drift:+.2g} over the tail, with roughness {rough:.2g}"
    if what == LOSS:
        words += f" ({readings.change(curve, what).mean():+.2%} between its halves)"
    return Finding(verdict, words, _least_ratio(np.abs(readings.drift(curve, what)), readings.roughness(curve, what)))


def _least_ratio(above: np.ndarray, below: np.ndarray) -> float:
    return float(np.min(above / np.where(below > 0, below, np.finfo(np.float64).tiny)))


def rough_in_words(values: np.ndarray) -> str:
    """Roughness, mean and spread over seeds."""
    return f"{values.mean():.3g}" + ("" if len(values) == 1 else f" ± {readings.spread(values):.2g}")


def each(
    compare: Callable[[Curves, Curves, str], Finding],
    curves: Mapping[str, Curves],
    pairs: Iterable[tuple[str, str]],
    metrics: Sequence[str] = METRICS,
) -> list[Finding]:
    """One comparison for every pair and metric."""
    return [compare(curves[mine], curves[theirs], what) for mine, theirs in pairs for what in metrics]


def rounds_in_words(needed: np.ndarray) -> str:
    """How many rounds each seed needed.

    Example:
        >>> import numpy as np
        >>> rounds_in_words(np.array([150.0, np.inf]))
        '150/never'
    """
    return "/".join("never" if np.isinf(number) else f"{number:.0f}" for number in needed)
