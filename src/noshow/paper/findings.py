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
from noshow.paper.stuck import held_in_tail

METRICS = (ACCURACY, LOSS)
CALLED = {ACCURACY: "accuracy", LOSS: "loss"}
ROOM = 400
"""Characters for which a row of the page lists comparisons: of what is longer, how many come out how is told there, and
the one that tells most."""


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
    """A verdict and what it rests on, all of it; `margin` ranks many comparisons of one kind, the tightest lowest.

    `parts` are the comparisons, where there are many, and `short` is what a row has room for then. `counts` says how
    many comparisons hold, of how many.
    """

    verdict: Verdict
    words: str
    margin: float | None = None
    parts: Sequence[Finding] = ()
    short: str = ""
    counts: tuple[int, int] | None = None

    @property
    def brief(self) -> str:
        """What a row has room for."""
        return self.short or self.words

    @property
    def tally(self) -> tuple[int, int]:
        """How many comparisons hold, of how many; what is made of no others is one."""
        return self.counts or (int(self.verdict == HOLDS), 1)

    @property
    def label(self) -> str:
        """The verdict, and of several comparisons how many hold.

        Example:
            >>> together([Finding("holds", "a 1"), Finding("not decidable", "b 2")]).label
            'depends (1 of 2)'
        """
        held, asked = self.tally
        return self.verdict if asked == 1 or self.verdict == "not run" else f"{self.verdict} ({held} of {asked})"


Parts = Callable[[str, Mapping[str, Curves]], Sequence[Finding]]
"""The comparisons that a claim is made of, given an experiment's name and curves."""


class Claim(NamedTuple):
    """One claim: its number here, what it says in our words, where it stands, what it needs, how it is read.

    `repeats` stands in the place of measurements that another claim's row tells; `picture` is a file beside the page,
    with `{setting}` where there are two.
    """

    number: str
    says: str
    where: str
    needs: tuple[str, ...]
    read: Callable[[Evidence], Finding]
    repeats: str = ""
    picture: str = ""

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
        ('depends', 'Holds: a 1. Not decidable: b 2.')
        >>> together([Finding("holds", f"a {i} " + "·" * 90, i) for i in range(8)]).brief[:29]
        '8 hold, the tightest: a 0 ···'
    """
    outcomes = {part.verdict for part in parts}
    mixed: Verdict = "depends" if outcomes & {HOLDS, "depends"} else FAILS
    verdict = parts[0].verdict if len(outcomes) == 1 else mixed
    opening = [first] if first else []
    listed = [*opening, *(_listed(outcome, those, outcomes != {HOLDS}) for outcome, those in _by_outcome(parts))]
    words = ". ".join(listed) + "."
    found = Finding(verdict, words, counts=_summed(parts))
    if len(words) <= ROOM:
        return found
    # Where none of many says more than others do, how many hold stands beside the verdict, and `first` is enough.
    counting = not first or any(part.margin is not None for part in parts)
    counted = [_counted(outcome, those) for outcome, those in _by_outcome(parts)] if counting else []
    return found._replace(parts=parts, short=". ".join([*opening, *counted]) + ".")


def _summed(parts: Sequence[Finding]) -> tuple[int, int]:
    tallies = [part.tally for part in parts]
    return sum(held for held, _ in tallies), sum(asked for _, asked in tallies)


def _by_outcome(parts: Sequence[Finding]) -> list[tuple[Verdict, list[Finding]]]:
    outcomes: tuple[Verdict, ...] = (HOLDS, FAILS, "depends", OPEN)
    found = [(outcome, [part for part in parts if part.verdict == outcome]) for outcome in outcomes]
    return [(outcome, those) for outcome, those in found if those]


def _listed(outcome: Verdict, those: Sequence[Finding], named: bool) -> str:
    words = "; ".join(part.words for part in those)
    return f"{outcome.capitalize()}: {words}" if named else words


COUNTED = {
    HOLDS: ("holds", "hold"),
    FAILS: ("does not", "do not"),
    "depends": ("depends", "depend"),
    OPEN: ("is not decidable", "are not decidable"),
}


def _counted(outcome: Verdict, those: Sequence[Finding]) -> str:
    """How many come out so; of those that hold the tightest, and of those that do not the clearest."""
    count = f"{len(those)} {COUNTED[outcome][len(those) > 1]}"
    if len(those) == 1:
        return f"{count}: {those[0].words}"
    ranked = [part for part in those if part.margin is not None]
    if outcome not in (HOLDS, FAILS) or len(ranked) < len(those):
        return count
    told = min(ranked, key=lambda part: part.margin or 0.0)
    return f"{count}, the {'tightest' if outcome == HOLDS else 'clearest'}: {told.words}"


def held_in(parts: Sequence[Finding]) -> str:
    """In how many of these comparisons a claim holds.

    Example:
        >>> held_in([Finding("holds", "a"), Finding("depends", "b")])
        '1 of 2'
    """
    held, asked = _summed(parts)
    return f"{held} of {asked}"


def best(mine: Curves, rivals: Iterable[Curves], what: str) -> Finding:
    """Whether mine beats all rivals: one clear loss denies it, whoever else is beaten."""
    found = {rival.label: better(mine, rival, what) for rival in rivals}
    by = {outcome: [label for label in found if found[label].verdict == outcome] for outcome in (HOLDS, FAILS, OPEN)}
    verdict: Verdict = FAILS if by[FAILS] else OPEN if by[OPEN] else HOLDS
    tightest = min(found.values(), key=lambda one: one.margin or 0.0)
    words = f"{mine.label}, {CALLED[what]}: better than {len(by[HOLDS])} of {len(found)}"
    words += f", worse than {', '.join(by[FAILS])}" if by[FAILS] else ""
    words += f", undecided against {', '.join(by[OPEN])}" if by[OPEN] else ""
    told = tightest.words.removeprefix(mine.label).strip()
    return Finding(verdict, f"{words} ({'worst' if by[FAILS] else 'tightest'}: {told})", tightest.margin)


def so_far(evidence: Evidence, names: Iterable[str], parts: Parts, first: str = "") -> Finding:
    """A claim about several experiments, from those that are there.

    Until all are, only "depends" is final: a claim that holds here and fails there stays so.
    """
    asked = list(names)
    there = [name for name in asked if name in evidence.runs]
    missing = [name for name in asked if name not in there]
    if not there:
        return Finding("not run", f"needs {', '.join(missing)}")
    found = together([part for name in there for part in parts(name, evidence.curves(name))], first)
    if not missing:
        return found
    first = f"So far, without {', '.join(missing)}: {found.verdict}."
    verdict: Verdict = "depends" if found.verdict == "depends" else "not run"
    short = f"{first} {found.short}" if found.short else ""
    return found._replace(verdict=verdict, words=f"{first} {found.words}", short=short)


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
    margin = mean / wide if 0 < wide < np.inf else float(np.copysign(np.inf, mean))
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
    if verdict == FAILS:
        why = f"{why}, {'better' if gains.mean() > 0 else 'worse'}"
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
    flat = int(np.isfinite(held_in_tail(theirs)).sum())
    if flat:
        words += f" ({theirs.label} learns nothing in {flat} of {len(other)} seeds)"
    return Finding(verdict, words, _least_ratio(other, one))


def unconverged(curve: Curves, what: str) -> Finding:
    """Whether the tail has not come to rest, in any seed."""
    rest = readings.converged(curve, what)
    verdict = FAILS if rest.all() else OPEN if rest.any() else HOLDS
    drift, rough, near = (
        np.asarray(read(curve, what)) for read in (readings.drift, readings.roughness, readings.near_itself)
    )
    words = (
        f"{curve.label}, {CALLED[what]} drifts by {drift.mean():+.2g} over the tail, with roughness "
        f"{rough.mean():.2g}, similar being {near.mean():.2g}"
    )
    return Finding(verdict, words, float(np.min(np.maximum(rough, 4 * np.abs(drift)) / near)))


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
