"""The few findings that matter most, a line each, at the top of the page; a line is there only where it is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from noshow.paper.experiments import SETTINGS
from noshow.paper.findings import Evidence, Finding, better, level_of
from noshow.paper.readings import ACCURACY, HOLDS, level

MOST, FEW = 0.75, 0.25
"""So many of a claim's comparisons are most of them, and so many are few."""
Counts = tuple[int, int]
"""How many comparisons hold, of how many."""


class Line(NamedTuple):
    """A sentence, the number of the claim that it is about, and for which counts in the two settings it is true."""

    says: str
    claim: str
    true: Callable[[Sequence[Counts]], bool]


def in_short(found: Mapping[str, Mapping[str, Finding]], evidence: Mapping[str, Evidence]) -> list[str]:
    """The lines, from what is found of each claim, by its number and by setting, and from the curves."""
    return [f"- {line}" for line in (*_of_claims(found), *_best_on_images(evidence))]


def mostly(counts: Sequence[Counts]) -> bool:
    """Whether most comparisons hold, in both settings.

    Example:
        >>> mostly([(3, 4), (9, 10)]), mostly([(1, 4), (9, 10)])
        (True, False)
    """
    return all(held >= MOST * asked for held, asked in counts)


def seldom(counts: Sequence[Counts]) -> bool:
    """Whether few comparisons hold, in both settings.

    Example:
        >>> seldom([(1, 4), (0, 10)]), seldom([(1, 4), (9, 10)])
        (True, False)
    """
    return all(held <= FEW * asked for held, asked in counts)


def not_always(counts: Sequence[Counts]) -> bool:
    """Whether some comparisons hold and some do not, in both settings.

    Example:
        >>> not_always([(1, 4), (3, 4)]), not_always([(4, 4), (3, 4)])
        (True, False)
    """
    return all(0 < held < asked for held, asked in counts)


LINES = (
    Line("The paper's variants mostly run smoother than plain FedAvg and FedProx, as it says", "38", mostly),
    Line("They are not as good as every baseline or better in all experiments", "38b", not_always),
    Line("The Byzantine-resilient rules are far behind them on CIFAR-10 with epsilon = 0.8, as it says", "13", mostly),
    Line("On Shakespeare, with one seed, the FedAvg variant is not best beside these rules", "18", seldom),
    Line("After 4000 rounds on Synthetic(1,1) few pairs of algorithms have comparable accuracies", "40", seldom),
    Line("With round-robin the FedAvg variant with beta = sqrt(M/K) does not beat all others", "44", seldom),
    Line("But it mostly comes sooner than beta = 1 to where that ends, as the paper says", "46", mostly),
)


def _of_claims(found: Mapping[str, Mapping[str, Finding]]) -> Iterator[str]:
    for line in LINES:
        both = [found[line.claim][setting] for setting in SETTINGS]
        counts = [finding.tally for finding in both]
        if all(finding.verdict != "not run" for finding in both) and line.true(counts):
            held = ", ".join(f"{held} of {asked}" for held, asked in counts)
            yield f"{line.says} (claim {line.claim}: {held})."


def _best_on_images(evidence: Mapping[str, Evidence]) -> Iterator[str]:
    """Where MIFA, which the paper has behind the variants, beats every other algorithm."""
    for setting in SETTINGS:
        curves = evidence[setting].runs.get("cifar10-0.8", {}).get("", {})
        others = [curve for label, curve in curves.items() if label != "mifa"]
        if others and all(better(curves["mifa"], other, ACCURACY).verdict == HOLDS for other in others):
            rivals = max(others, key=lambda curve: float(level(curve, ACCURACY).mean()))
            yield (
                f"In `{setting}`, MIFA, which the paper has behind the variants, beats them all on CIFAR-10 with "
                f"epsilon = 0.8: accuracy {level_of(curves['mifa'], ACCURACY)}, then {rivals.label} "
                f"{level_of(rivals, ACCURACY)} (claims 8 and 12)."
            )
