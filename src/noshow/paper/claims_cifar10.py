"""The paper's claims about CIFAR-10 under the shadow adversary: Section 7.2 and the first part of the appendix."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product

import numpy as np

from noshow.evaluate import Metrics
from noshow.paper import readings
from noshow.paper.claims_data import label_skew, skew_by_alpha
from noshow.paper.figures import BASELINES, BYZANTINE, VARIANTS
from noshow.paper.findings import (
    CALLED,
    METRICS,
    Claim,
    Evidence,
    Finding,
    Parts,
    alike,
    best,
    better,
    each,
    far_better,
    gained,
    level_of,
    of,
    smoother,
    together,
    unconverged,
    unmeasured,
    with_spread,
)
from noshow.paper.readings import ACCURACY, FAILS, HOLDS, LOSS
from noshow.paper.results import Curves

HIGH, LOW, LONG = "cifar10-0.8", "cifar10-0.2", "cifar10-long"
TYPES = (("fedavg_variant", "fedavg"), ("fedprox_variant", "fedprox"))


def outperform(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """Each variant beats every algorithm that is none."""
    others = [curves[label] for label in (*BASELINES, *BYZANTINE) if label not in VARIANTS]
    return [best(curves[label], others, what) for label, what in product(VARIANTS, METRICS)]


def progress_smoother(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """Each variant is smoother than its original."""
    return each(smoother, curves, TYPES)


def improve_much(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """Each variant beats its original by far."""
    return each(far_better, curves, TYPES)


def mifa_above_fedavg(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """MIFA beats FedAvg."""
    return each(better, curves, [("mifa", "fedavg")])


def mifa_below_variants(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """Each variant beats MIFA."""
    return each(better, curves, [(label, "mifa") for label in VARIANTS])


def byzantine_far_behind(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """Each variant beats each Byzantine-resilient rule by far."""
    return each(far_better, curves, product(VARIANTS, BYZANTINE))


AT_EPSILON: dict[str, Parts] = {
    "8": outperform,
    "9": progress_smoother,
    "10": improve_much,
    "11": mifa_above_fedavg,
    "12": mifa_below_variants,
    "13": byzantine_far_behind,
}
GENERALLY = {number: claim for number, claim in AT_EPSILON.items() if number != "13"}
"""What the appendix says of epsilon = 0.2 in general; of the Byzantine-resilient rules it says something else."""


def same_at(evidence: Evidence, one: str, other: str, claims: Mapping[str, Parts]) -> Finding:
    """Whether claims come out alike in two experiments; with the rank correlation of the nine levels."""
    parts = [_same_claim(evidence, one, other, number, claim) for number, claim in claims.items()]
    ranks = [f"{CALLED[what]} {_ranks(evidence, one, other, what):.2f}" for what in METRICS]
    same, not_same = (
        ", ".join(number for number, part in zip(claims, parts, strict=True) if part.verdict == verdict) or "none"
        for verdict in (HOLDS, FAILS)
    )
    first = f"{one} v {other}: alike in claims {same}; not in {not_same}. Ranks of levels correlate by "
    return together(parts, first + ", ".join(ranks))


def _same_claim(evidence: Evidence, one: str, other: str, number: str, claim: Parts) -> Finding:
    there, here = claim(one, evidence.curves(one)), claim(other, evidence.curves(other))
    alike = sum(mine.verdict == yours.verdict for mine, yours in zip(there, here, strict=True))
    first, second = together(there).verdict, together(here).verdict
    verdicts = f"{first} in both" if first == second else f"{first} in {one}, {second} in {other}"
    words = f"claim {number} {verdicts}, {alike} of {len(there)} comparisons alike"
    return Finding(HOLDS if first == second and 2 * alike > len(there) else FAILS, words)


def _ranks(evidence: Evidence, one: str, other: str, what: str) -> float:
    there, here = evidence.curves(one), evidence.curves(other)
    means = [np.array([readings.level(curves[label], what).mean() for label in there]) for curves in (there, here)]
    return readings.rank_correlation(*means)


def _answering(evidence: Evidence, name: str, count: int) -> Finding:
    curve = next(iter(evidence.curves(name).values()))
    share = float((curve.responders == count).mean())
    words = (
        f"{name}: {count} of 10 answer in {share:.1%} of rounds, {curve.responders.mean():.2f} on average "
        f"(from {curve.responders.min()} to {curve.responders.max()})"
    )
    return Finding(HOLDS if share == 1 else FAILS, words)


def _comparable(evidence: Evidence) -> Finding:
    return together(each(alike, evidence.curves(LOW), combinations(("fedavg", "mifa", "fedavg_variant"), 2)))


def _best_accuracy(evidence: Evidence) -> Finding:
    curves = evidence.curves(LOW)
    others = [curves[label] for label in BASELINES if label != "fedprox_variant"]
    return together([best(curves["fedprox_variant"], others, ACCURACY)])


def _all_but_gm(evidence: Evidence) -> Finding:
    curves, three = evidence.curves(LOW), [label for label in BYZANTINE if label != "gm"]
    parts = each(alike, curves, combinations(three, 2))
    parts += each(alike, curves, product(three, ("fedavg", "fedavg_variant", "mifa")))
    return together(parts + each(better, curves, [(label, "gm") for label in three]))


def _eight_and_two(evidence: Evidence) -> Finding:
    return together([_answering(evidence, LOW, 8), _answering(evidence, HIGH, 2)])


def _in_contrast(evidence: Evidence) -> Finding:
    return together([_gap_shrinks(evidence, label, what) for label in BYZANTINE if label != "gm" for what in METRICS])


def _gap_shrinks(evidence: Evidence, label: str, what: str) -> Finding:
    wide, narrow = (
        readings.gain(readings.level(curves["fedavg_variant"], what), readings.level(curves[label], what), what)
        for curves in (evidence.curves(HIGH), evidence.curves(LOW))
    )
    words = f"{label}, {CALLED[what]}: behind by {with_spread(wide)} at 0.8, by {with_spread(narrow)} at 0.2"
    room = float((wide - 2 * narrow).mean() / (abs(wide.mean()) or 1.0))
    return Finding(readings.lower(narrow, wide, times=2), words, room)


def _unconverged(evidence: Evidence) -> Finding:
    curves = {label: evidence.curves(LOW)[label] for label in BYZANTINE}
    levels = ", ".join(f"{label} {level_of(curve, LOSS)}" for label, curve in curves.items())
    first = f"Levels of the loss, ln 10 = 2.303 being that of a model that knows nothing: {levels}"
    return together([unconverged(curve, what) for curve in curves.values() for what in METRICS], first)


def _prolonged(evidence: Evidence) -> Finding:
    curves = evidence.curves(LONG)
    claimed = [_later(curves[label], what) for label in ("bucketing_gm", "bucketing_cclip") for what in METRICS]
    others = " and ".join(_later(curves[label], ACCURACY).words for label in ("gm", "cclip"))
    return together(claimed, f"Rounds 3501-4000 over 1501-2000. Of the others nothing is claimed: {others}")


def _later(curve: Curves, what: str) -> Finding:
    late, early = readings.level(curve, what, 0.875), readings.level(curve, what, 0.375, 0.5)
    return gained(late, early, f"{curve.label} late over early", what)


def _still_best(evidence: Evidence) -> Finding:
    """The variants' levels at 2000 rounds, as the figure's lines, against the rules at 4000."""
    short, long = evidence.curves(LOW), evidence.curves(LONG)
    mine = short["fedprox_variant"]
    rivals = [short["fedavg_variant"], *(_end_of(long[label]) for label in BYZANTINE)]
    return together([best(mine, rivals, what) for what in METRICS])


def _end_of(curve: Curves) -> Curves:
    """The last 500 of 4000 rounds, as the tail of a shorter run has them."""
    late = curve.evaluated >= curve.evaluated[-1] // 2
    scores = Metrics(*(np.asarray(values)[:, late] for values in curve.scores))
    return curve._replace(
        label=f"{curve.label} at 4000", evaluated=curve.evaluated[late] - curve.evaluated[-1] // 2, scores=scores
    )


CIFAR10 = (
    Claim(
        "7",
        "Dirichlet(0.1) gives clients label mixes that are far apart.",
        "Fig. 1",
        (),
        label_skew,
        picture="dirichlet-populations.png",
    ),
    Claim(
        "7b",
        "The smaller alpha, the further apart (read as: the mean total variation falls from each alpha to the next).",
        "text",
        (),
        skew_by_alpha,
    ),
    Claim("8", "Both variants beat every other algorithm.", "Fig. 2", (HIGH,), of(HIGH, outperform)),
    Claim(
        "9",
        "The variants' curves are smoother than the originals'.",
        "Fig. 2",
        (HIGH,),
        of(HIGH, progress_smoother),
    ),
    Claim(
        "10",
        "The variants' gain over the originals is large (read as: by far; smoothness, which the sentence may mean, is "
        "claim 9).",
        "Fig. 2",
        (HIGH,),
        of(HIGH, improve_much),
    ),
    Claim("11", "MIFA is better than FedAvg.", "Fig. 2", (HIGH,), of(HIGH, mifa_above_fedavg)),
    Claim("12", "MIFA is worse than the variants.", "Fig. 2", (HIGH,), of(HIGH, mifa_below_variants)),
    Claim(
        "13",
        "The Byzantine-resilient rules are far behind the variants.",
        "Fig. 2",
        (HIGH,),
        of(HIGH, byzantine_far_behind),
    ),
    Claim(
        "14",
        "At epsilon = 0.8 two clients answer in every round.",
        "Appendix, text on Fig. 8",
        (HIGH,),
        lambda evidence: _answering(evidence, HIGH, 2),
        repeats="The second half of 32.",
    ),
    Claim(
        "15",
        "Other values of epsilon give similar results (read as: claims 8 to 13 have one verdict at both, and most "
        "comparisons alike).",
        "text",
        (HIGH, LOW),
        lambda evidence: same_at(evidence, HIGH, LOW, AT_EPSILON),
    ),
)

CIFAR10_APPENDIX = (
    Claim(
        "27",
        "At epsilon = 0.2 things are on the whole as at 0.8 (read as claim 15, but for the Byzantine-resilient rules, "
        "which the paper excepts).",
        "Fig. 7",
        (HIGH, LOW),
        lambda evidence: same_at(evidence, HIGH, LOW, GENERALLY),
    ),
    Claim(
        "28",
        "The variants fluctuate less.",
        "Fig. 7",
        (LOW,),
        of(LOW, progress_smoother),
    ),
    Claim("29", "FedAvg, MIFA and the FedAvg variant are on a par.", "Fig. 7", (LOW,), _comparable),
    Claim(
        "30",
        "The FedProx variant has the best test accuracy of the five.",
        "Fig. 7",
        (LOW,),
        _best_accuracy,
    ),
    Claim(
        "31",
        "All Byzantine-resilient rules but plain GM reach similar results (read as: similar to each other and to the "
        "FedAvg type, and better than GM).",
        "Fig. 8",
        (LOW,),
        _all_but_gm,
    ),
    Claim(
        "32",
        "Eight answer a round against two (read as: in every round). Given as the reason for 31; whether it is the "
        "reason was not measured.",
        "Fig. 8",
        (LOW, HIGH),
        _eight_and_two,
    ),
    Claim(
        "32b",
        "That these rules come near at epsilon = 0.2 is in sharp contrast to 0.8 (read as: less than half is left of "
        "what the FedAvg variant has over each of the three).",
        "Fig. 2 and 8",
        (HIGH, LOW),
        _in_contrast,
    ),
    Claim("33", "The four rules have not converged after 2000 rounds.", "Fig. 8", (LOW,), _unconverged),
    Claim("34", "With 4000 rounds both bucketing rules get better.", "Fig. 11a", (LONG,), _prolonged),
    Claim(
        "35",
        "The FedProx variant is best even then (read as: by the variants' levels after 2000 rounds, the figure's "
        "lines, against the rules after 4000).",
        "Fig. 11a",
        (LOW, LONG),
        _still_best,
    ),
    Claim(
        "36",
        "The rules are not their authors' own: here they remember the momenta of absent clients.",
        "text",
        (),
        unmeasured("Says how the method is built; noshow's rules remember them too."),
    ),
)
