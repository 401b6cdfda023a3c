"""The paper's claims in general: its introduction, Section 4, and how Section 7 begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noshow import datasets
from noshow.paper import copies, readings
from noshow.paper.claims_synthetic import EVERYWHERE, heard
from noshow.paper.experiments import COPIES
from noshow.paper.figures import VARIANTS
from noshow.paper.findings import (
    Claim,
    Evidence,
    Finding,
    each,
    smoother,
    so_far,
    together,
    unmeasured,
    with_spread,
)
from noshow.paper.readings import FAILS, HOLDS, LOSS, OPEN
from noshow.paper.results import Curves

SHADOW = ("cifar10-0.8", "cifar10-0.2", "cifar10-long", "synthetic-0.9", "synthetic-0.7", "synthetic-long")
CLASSES = {"shakespeare-0.7": 80}
"""What a model chooses from; elsewhere ten classes."""
FOUR = ("cifar10-0.8", "cifar10-0.2", "synthetic-0.9", "synthetic-0.7")


def _learns(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    return [_falls(name, curves[label]) for label in VARIANTS if label in curves]


def _falls(name: str, curve: Curves) -> Finding:
    first, last = curve.scores.train_loss[:, 0], readings.level(curve, LOSS)
    blind = np.log(CLASSES.get(name, 10))
    lowest = float(np.mean(curve.scores.train_loss, axis=0).min())
    words = f"{name}, {curve.label}: loss from {first.mean():.3f} to {with_spread(last)}, lowest {lowest:.3f}"
    bar = np.minimum(first, blind)
    return Finding(readings.lower(last, bar), words, float(((bar - last) / bar).min()))


def _unstable(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """FedAvg is rougher than its variant; its 1 / (sum of w) is told beside it."""
    curve = curves["fedavg"]
    if name.startswith("cifar10"):
        factor = 100 / curve.responders
    else:
        factor = 10 / heard(curve.seeds, curve.epsilon_t, datasets.synthetic(1, 1).held, sampled=10)
    varies = "in every round" if factor.std() == 0 else f"± {factor.std():.1f} over rounds"
    where = f"{name}, 1 / (sum of w) {factor.mean():.1f} {varies}"
    return [
        one._replace(words=f"{where}: {one.words}") for one in each(smoother, curves, [("fedavg_variant", "fedavg")])
    ]


ALIKE = "epsilon_t and the number of responders, round by round"


def _paired(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    first, *others = curves.values()
    same = all(
        np.array_equal(first.epsilon_t, other.epsilon_t) and np.array_equal(first.responders, other.responders)
        for other in others
    )
    constant = ", being constant" if np.ptp(first.epsilon_t) == 0 else ""
    words = f"{name}, {len(curves)} algorithms: {'equal' if same else 'not equal'}{constant}"
    return [Finding(HOLDS if same else FAILS, words)]


def _most_valuable(evidence: Evidence) -> Finding:
    if evidence.setting == "published":
        return Finding(FAILS, "By the setting itself: all 100 clients are candidates, in random order.")
    return Finding(
        "no measurement",
        "The idea behind it; what silence at random does instead was measured for Shakespeare's adversary (claim 21).",
    )


SHOWN = 0.5
"""Changes on the copy show those on the data where their ranks correlate by more than this."""


def _foretold(evidence: Evidence) -> Finding:
    if not evidence.rehearsed:
        return Finding("not run", f"needs {COPIES}")
    there = {preset: [one for one in evidence.rehearsed if one.preset == preset] for preset in copies.PRESETS}
    first = _shared(there)
    if evidence.setting == "published":
        first = f"(All clients are candidates in this setting: it takes no choice.) {first}"
    return together([_by_rule(preset, there[preset], which) for preset in there for which in (0, 1)], first)


def _by_rule(preset: str, seeds: Sequence[copies.Rehearsed], which: int) -> Finding:
    found = np.array([readings.rank_correlation(one.on_copy[which], one.on_data[which]) for one in seeds])
    verdict = HOLDS if (found > SHOWN).all() else OPEN if (found > SHOWN).any() else FAILS
    return Finding(verdict, f"{preset}, {('fedavg', 'cclip')[which]} {with_spread(found)}")


def _shared(there: Mapping[str, Sequence[copies.Rehearsed]]) -> str:
    first, second = copies.CANDIDATES
    chosen = first + second
    parts = []
    for preset, seeds in there.items():
        by_chance = chosen**2 / len(seeds[0].on_copy.by_fedavg)
        shared = "/".join(str(one.shared) for one in seeds)
        parts.append(f"{shared} in {preset}, seed by seed, where {by_chance:.1f} would be by chance")
    return (
        f"Of the {chosen} candidates, the copy shares with the data {', and '.join(parts)}. Rank correlation of the "
        f"clients' changes on the copy and on the data, yardstick {SHOWN}"
    )


GENERAL = (
    Claim(
        "1",
        "The experiments bear out the theory: the variants train without knowing epsilon (read as: with beta = M/K and "
        "nothing else set, every run ends below its first loss and a blind guess's, ln 10, for Shakespeare ln 80).",
        "Introduction; Section 7",
        (),
        lambda evidence: so_far(evidence, EVERYWHERE, _learns),
    ),
    Claim(
        "2",
        "Plain FedAvg's choice of beta, 1 / (sum of the responders' w), can make training unstable (read as: rougher "
        "than the variant with its beta = 10).",
        "Section 4",
        (),
        lambda evidence: so_far(evidence, FOUR, _unstable),
    ),
    Claim(
        "3",
        "MIFA is a fitting baseline.",
        "Section 7",
        (),
        unmeasured("A reason for a choice, with nothing to measure."),
    ),
    Claim(
        "4",
        "The shadow scheme uses nothing of the real run (read as: it silences alike whatever the algorithm).",
        "Section 7.1",
        (),
        lambda evidence: so_far(evidence, SHADOW, _paired, ALIKE),
    ),
    Claim(
        "4b",
        "The scheme silences the clients that matter most.",
        "Section 7.1",
        (),
        _most_valuable,
    ),
    Claim(
        "5",
        "Runs on independent copies show which clients' gradients change most in the real run.",
        "Section 7.1",
        (),
        _foretold,
    ),
    Claim(
        "6",
        "The pair of rounds is a choice, and the scheme extends to several pairs.",
        "Section 7.1",
        (),
        unmeasured("Says that the scheme extends; no result is claimed."),
    ),
)
