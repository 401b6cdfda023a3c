"""The paper's claims about Shakespeare: Section 7.3."""

from __future__ import annotations

from itertools import product

import numpy as np

from noshow.paper import readings
from noshow.paper.claims_data import text_counted
from noshow.paper.figures import BYZANTINE
from noshow.paper.findings import (
    METRICS,
    Claim,
    Evidence,
    Finding,
    best,
    each,
    gained,
    held_in,
    rounds_in_words,
    smoother,
    together,
    unconverged,
)
from noshow.paper.readings import ACCURACY, FAILS, HOLDS
from noshow.paper.results import Curves

SPEECH, RANDOM = "shakespeare-0.7", "shakespeare-random"
EPSILON = 0.7
FEDAVG_TYPE = ("fedavg", "fedavg_variant", "mifa")


def _smoothest(evidence: Evidence) -> Finding:
    return together(each(smoother, evidence.curves(SPEECH), [("fedavg_variant", "fedavg"), ("fedavg_variant", "mifa")]))


def _best_of_three(evidence: Evidence) -> Finding:
    curves = evidence.curves(SPEECH)
    others = [curves["fedavg"], curves["mifa"]]
    return together([best(curves["fedavg_variant"], others, what) for what in METRICS])


def _best_of_rules(evidence: Evidence) -> Finding:
    first = "Rounds 46-60 of the variant over rounds 751-1000 of the rules"
    curves = evidence.curves(SPEECH)
    rules = [curves[label] for label in BYZANTINE]
    return together([best(curves["fedavg_variant"], rules, what) for what in METRICS], first)


def _sixty_and_a_thousand(evidence: Evidence) -> Finding:
    curves = evidence.curves(SPEECH)
    early, late = (
        [_at_rest(curves[label], what) for label, what in product(labels, METRICS)]
        for labels in (FEDAVG_TYPE, BYZANTINE)
    )
    beyond = [_beyond_sixty(curves[label]) for label in BYZANTINE]
    first = (
        f"At rest by round 60: {held_in(early)} curves of FedAvg, its variant and MIFA. Of the rules: at rest by round "
        f"1000 {held_in(late)} curves, not there by round 60 {held_in(beyond)}"
    )
    return together([*early, *late, *beyond], first)


def _at_rest(curve: Curves, what: str) -> Finding:
    opposite = {HOLDS: FAILS, FAILS: HOLDS}
    moving = unconverged(curve, what)
    words = f"at rest by round {curve.evaluated[-1]}: {moving.words}"
    return Finding(opposite.get(moving.verdict, moving.verdict), words)


def _beyond_sixty(curve: Curves) -> Finding:
    at = int(np.searchsorted(curve.evaluated, 60, side="right")) - 1
    target = _part_of_gain(curve, 0.95)
    verdict = readings.lower(np.asarray(curve.scores.test_accuracy[:, at], np.float64), target)
    needed = rounds_in_words(readings.rounds_to(curve, ACCURACY, target))
    return Finding(verdict, f"not by round 60: {curve.label} has 95 % of its gain in accuracy after {needed} rounds")


def _slow_medians(evidence: Evidence) -> Finding:
    curves = evidence.curves(SPEECH)
    target = _part_of_gain(curves["cclip"], 0.9)
    needed = {label: readings.rounds_to(curves[label], ACCURACY, target) for label in BYZANTINE}
    first = ", ".join(f"{label} {rounds_in_words(rounds)}" for label, rounds in needed.items())
    pairs = product(("cclip", "bucketing_cclip"), ("gm", "bucketing_gm"))
    apart = int(np.diff(curves["cclip"].evaluated).max())
    parts = [
        Finding(readings.later(needed[slow], needed[fast], apart), f"{slow} slower than {fast}") for fast, slow in pairs
    ]
    return together(
        parts,
        f"Rounds to 90 % of cclip's gain in accuracy: {first}. Slower is by more than the {apart} between evaluations",
    )


def _part_of_gain(curve: Curves, part: float) -> np.ndarray:
    first = np.asarray(curve.scores.test_accuracy[:, 0], np.float64)
    target: np.ndarray = first + part * (readings.level(curve, ACCURACY) - first)
    return target


def _largest_replies(evidence: Evidence) -> Finding:
    curve = evidence.curves(SPEECH)["fedavg_variant"]
    within = (curve.responders == 6).all() and curve.epsilon_t.max() <= EPSILON
    words = (
        f"6 of 20 answer in {(curve.responders == 6).mean():.1%} of rounds, epsilon_t from "
        f"{curve.epsilon_t.min():.3f} to {curve.epsilon_t.max():.3f}. Who is silenced has the largest replies by the "
        "adversary's definition."
    )
    return Finding(HOLDS if within else FAILS, words)


def _more_than_by_chance(evidence: Evidence) -> Finding:
    chosen, at_random = evidence.curves(SPEECH), evidence.curves(RANDOM)
    parts = []
    for label, what in product(at_random, METRICS):
        mine, theirs = (readings.level(curves[label], what) for curves in (at_random, chosen))
        parts.append(gained(mine, theirs, f"{label} with 14 silent at random over the largest 14 silent", what))
    return together(parts)


SHAKESPEARE = (
    Claim(
        "15b",
        "The text gives 4,226,158 examples, which LEAF splits into 660 groups; the clients are around 18 % of these "
        "(read as: within one percentage point).",
        "text",
        (),
        text_counted,
    ),
    Claim("16", "The FedAvg variant is smoother than FedAvg and MIFA.", "Fig. 3a", (SPEECH,), _smoothest),
    Claim("17", "The FedAvg variant ends best of the three.", "Fig. 3a", (SPEECH,), _best_of_three),
    Claim(
        "18",
        "The FedAvg variant is best beside the Byzantine-resilient rules, too.",
        "Fig. 3b",
        (SPEECH,),
        _best_of_rules,
    ),
    Claim(
        "19",
        "FedAvg, MIFA and the variant converge in about 60 rounds, the rules need about 1000 (read as: those are at "
        "rest by round 60, and the rules by round 1000 and not by 60).",
        "Fig. 3",
        (SPEECH,),
        _sixty_and_a_thousand,
    ),
    Claim(
        "20",
        "The reason: GM and bucketing GM converge very slowly (read as: slower than the two clipping rules; against "
        "FedAvg, its variant and MIFA, which may be meant, all four are slow: claim 19).",
        "Fig. 3b",
        (SPEECH,),
        _slow_medians,
    ),
    Claim(
        "21",
        "The adversary removes the largest replies, within the law (read as: 14 of 20 in every round).",
        "Fig. 3",
        (SPEECH,),
        _largest_replies,
    ),
    Claim(
        "21b",
        "These are the most important ones (by their norms, the paper says; read as: removing as many at random harms "
        "less).",
        "text on Fig. 3",
        (SPEECH, RANDOM),
        _more_than_by_chance,
    ),
)
