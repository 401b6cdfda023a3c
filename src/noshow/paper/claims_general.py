"""The paper's claims in general: its introduction, Section 4, and how Section 7 begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noshow import datasets
from noshow.paper import copies, readings
from noshow.paper.claims_everywhere import trains
from noshow.paper.claims_synthetic import heard
from noshow.paper.experiments import COPIES, EXPERIMENTS
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
from noshow.paper.readings import FAILS, HOLDS, OPEN
from noshow.paper.results import Curves

SHADOW = ("cifar10-0.8", "cifar10-0.2", "cifar10-long", "synthetic-0.9", "synthetic-0.7", "synthetic-long")
FOUR = ("cifar10-0.8", "cifar10-0.2", "synthetic-0.9", "synthetic-0.7")


def _unstable(evidence: Evidence) -> Finding:
    """FedAvg is rougher than its variant; its 1 / (sum of w) is told beside it, and where it does not vary."""
    factors = {name: _normaliser(name, evidence.curves(name)["fedavg"]) for name in FOUR if name in evidence.runs}
    constant = [f"{factor.mean():.1f} in {name}" for name, factor in factors.items() if np.ptp(factor) == 0]
    first = (
        f"1 / (sum of w) is the same in every round of some: {', '.join(constant)}. There its size is shown, not that "
        "it varies"
    )

    def rougher(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
        factor = factors[name]
        varies = "in every round" if np.ptp(factor) == 0 else f"± {factor.std():.1f} over rounds"
        where = f"{name}, 1 / (sum of w) {factor.mean():.1f} {varies}"
        compared = each(smoother, curves, [("fedavg_variant", "fedavg")])
        return [one._replace(words=f"{where}: {one.words}") for one in compared]

    return so_far(evidence, FOUR, rougher, first if constant else "")


def _normaliser(name: str, curve: Curves) -> np.ndarray:
    """FedAvg's 1 / (sum of the responders' w), in every round of every seed."""
    if name.startswith("cifar10"):
        return 100 / curve.responders
    return 10 / heard(curve.seeds, curve.epsilon_t, datasets.synthetic(1, 1).held, sampled=10)


def _independent(evidence: Evidence) -> Finding:
    still = [name for name in SHADOW if name in evidence.runs and _constant(evidence.curves(name))]
    first = "epsilon_t and the number of responders, round by round, of all algorithms of an experiment"
    return so_far(evidence, SHADOW, _paired, f"{first}; constant in {', '.join(still)}" if still else first)


def _constant(curves: Mapping[str, Curves]) -> bool:
    return all(np.ptp(curve.epsilon_t) == 0 for curve in curves.values())


def _paired(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    first, *others = curves.values()
    same = all(
        np.array_equal(first.epsilon_t, other.epsilon_t) and np.array_equal(first.responders, other.responders)
        for other in others
    )
    words = f"{name}, {len(curves)} algorithms: {'equal' if same else 'not equal'}"
    return [Finding(HOLDS if same else FAILS, words)]


def _obeys(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    most = max(float(curve.epsilon_t.max()) for curve in curves.values())
    fewest = min(int(curve.responders.min()) for curve in curves.values())
    law = EXPERIMENTS[name].specs("written", "paper")[""].epsilon or 0.0
    within = most <= np.float32(law) and fewest >= 1  # epsilon_t is kept in 32 bits
    return [Finding(HOLDS if within else FAILS, f"{name}: epsilon_t at most {most:.5f}, {fewest} answer at least")]


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
    return Finding(verdict, f"{preset}, {('fedavg', 'cclip')[which]} {with_spread(found)}", float(found.min()))


def _shared(there: Mapping[str, Sequence[copies.Rehearsed]]) -> str:
    """How many candidates the copy and the data share, seed by seed; by chance it would be their share of all."""
    first, second = copies.CANDIDATES
    chosen = first + second
    parts = []
    for preset, seeds in there.items():
        by_chance = chosen**2 / len(seeds[0].on_copy.by_fedavg)
        parts.append(f"{preset} {'/'.join(str(one.shared) for one in seeds)}, by chance {by_chance:.1f}")
    return (
        f"Candidates that copy and data share, of {chosen}, seed by seed: {'; '.join(parts)}. Rank correlation of the "
        f"clients' changes on the two, yardstick {SHOWN}"
    )


GENERAL = (
    Claim(
        "1",
        "The experiments bear out the theory: its order epsilon (G² + sigma²), and its rates.",
        "Introduction; Section 7",
        (),
        unmeasured(
            "The paper's experiments measure no bound. `noshow bounds RUN` holds a run against floor and ceiling "
            "([how](../docs/bounds.md))."
        ),
    ),
    Claim(
        "1b",
        "The variants train without knowing epsilon (read as: with beta = M/K and nothing else set, every run ends "
        "below its first loss and a blind guess's, ln 10, for Shakespeare ln 80, and not above "
        f"{readings.RISEN:g} times the lowest eighth of the run).",
        "Introduction; Section 7",
        (),
        trains,
    ),
    Claim(
        "2",
        "Plain FedAvg's varying beta, 1 / (sum of the responders' w), can make training unstable (read as: rougher "
        "than the variant with its constant beta = 10).",
        "Section 4",
        (),
        _unstable,
    ),
    Claim(
        "2b",
        "Many local steps make training quicker, and may make it unstable.",
        "Section 5, on s",
        (),
        unmeasured("Cites what others observed; the paper's experiments do not vary the number of steps."),
    ),
    Claim(
        "3",
        "MIFA is a fitting baseline, designed against absence in general, with no benign random pattern.",
        "Section 7",
        (),
        unmeasured("A reason for a choice, with nothing to measure."),
    ),
    Claim(
        "3b",
        "Bucketing lessens what the clients' differing data do, momentum the variance of gradients.",
        "Section 7",
        (),
        unmeasured("What the rules' own authors say of them; the paper shows no experiment without."),
    ),
    Claim(
        "3c",
        "All learning rates and FedProx's mu come from grid searches.",
        "Section 7",
        (),
        unmeasured(
            "No search is shown. Its grid is `noshow sweep paper-grid`; what that would choose was not run. The grid "
            "reads as decades, and two rates of the paper's table, 0.03 and 0.8, are none."
        ),
    ),
    Claim(
        "3d",
        "The variants' beta is M/K = 10 throughout.",
        "Section 7, set-up",
        (),
        unmeasured(
            "A setting, and not throughout: by the paper's numbers M/K is 6.25 for Shakespeare, and round-robin has "
            "sqrt(M/K) and 1. The presets take M/K, and for round-robin these two."
        ),
    ),
)

SCHEME = (
    Claim(
        "4",
        "The shadow scheme uses nothing of the real run (read as: it silences alike whatever the algorithm).",
        "text",
        (),
        _independent,
    ),
    Claim(
        "4b",
        "The scheme silences the clients that matter most.",
        "text",
        (),
        _most_valuable,
    ),
    Claim(
        "5",
        "Runs on independent copies show whose gradients change most (read as: whose do on the data themselves; both "
        "runs with everybody).",
        "text",
        (),
        _foretold,
        picture=f"{COPIES}/{{setting}}/figure.png",
    ),
    Claim(
        "6",
        "The pair of rounds is a choice, and the scheme extends to several pairs.",
        "text",
        (),
        unmeasured("Says that the scheme extends; no result is claimed."),
    ),
    Claim(
        "6b",
        "It obeys the law in every round, and leaves one client at least.",
        "text",
        (),
        lambda evidence: so_far(evidence, SHADOW, _obeys),
    ),
)
