"""The paper's claims about Shakespeare: Section 7.3."""

from __future__ import annotations

from itertools import product

import numpy as np

from noshow.paper import readings
from noshow.paper.figures import BYZANTINE
from noshow.paper.findings import (
    CALLED,
    METRICS,
    Claim,
    Evidence,
    Finding,
    better,
    each,
    gained,
    rough_in_words,
    rounds_in_words,
    together,
    unconverged,
)
from noshow.paper.readings import ACCURACY, FAILS, HOLDS
from noshow.paper.results import Curves

SPEECH, RANDOM = "shakespeare-0.7", "shakespeare-random"
EPSILON = 0.7
FEDAVG_TYPE = ("fedavg", "fedavg_variant", "mifa")


def _smoothest(evidence: Evidence) -> Finding:
    curves = evidence.curves(SPEECH)
    parts = []
    for label, what in product(("fedavg", "mifa"), METRICS):
        mine, theirs = (readings.steps(curves[name], what) for name in ("fedavg_variant", label))
        words = f"fedavg_variant {rough_in_words(mine)} v {label} {rough_in_words(theirs)}, {CALLED[what]}"
        parts.append(Finding(readings.lower(mine, theirs), words))
    return together(parts, "Median change between successive evaluations after round 10")


def _best_of_three(evidence: Evidence) -> Finding:
    return together(each(better, evidence.curves(SPEECH), [("fedavg_variant", "fedavg"), ("fedavg_variant", "mifa")]))


def _best_of_rules(evidence: Evidence) -> Finding:
    first = "Rounds 46-60 of the variant over rounds 751-1000 of the rules"
    return together(each(better, evidence.curves(SPEECH), [("fedavg_variant", rule) for rule in BYZANTINE]), first)


def _sixty_and_a_thousand(evidence: Evidence) -> Finding:
    curves = evidence.curves(SPEECH)
    opposite = {HOLDS: FAILS, FAILS: HOLDS}
    parts = []
    for label, what in product(FEDAVG_TYPE, METRICS):
        moving = unconverged(curves[label], what)
        parts.append(Finding(opposite.get(moving.verdict, moving.verdict), f"{moving.words} (at rest by 60)"))
    for label in BYZANTINE:
        needed = readings.rounds_to(curves[label], ACCURACY, _part_of_gain(curves[label], 0.95))
        verdict = readings.lower(np.full(len(needed), 60.0), needed)
        parts.append(
            Finding(verdict, f"{label} needs {rounds_in_words(needed)} rounds to 95 % of its gain in accuracy")
        )
    return together(parts)


def _slow_medians(evidence: Evidence) -> Finding:
    curves = evidence.curves(SPEECH)
    target = _part_of_gain(curves["cclip"], 0.9)
    needed = {label: readings.rounds_to(curves[label], ACCURACY, target) for label in BYZANTINE}
    first = ", ".join(f"{label} {rounds_in_words(rounds)}" for label, rounds in needed.items())
    pairs = product(("cclip", "bucketing_cclip"), ("gm", "bucketing_gm"))
    parts = [Finding(readings.lower(needed[fast], needed[slow]), f"{slow} slower than {fast}") for fast, slow in pairs]
    return together(parts, f"Rounds to 90 % of cclip's gain in accuracy: {first}")


def _part_of_gain(curve: Curves, part: float) -> np.ndarray:
    first = np.asarray(curve.scores.test_accuracy[:, 0], np.float64)
    target: np.ndarray = first + part * (readings.level(curve, ACCURACY) - first)
    return target


def _largest_replies(evidence: Evidence) -> Finding:
    chosen, at_random = evidence.curves(SPEECH), evidence.curves(RANDOM)
    curve = chosen["fedavg_variant"]
    within = (curve.responders == 6).all() and curve.epsilon_t.max() <= EPSILON
    words = (
        f"within the law: 6 of 20 answer in {(curve.responders == 6).mean():.1%} of rounds, epsilon_t from "
        f"{curve.epsilon_t.min():.3f} to {curve.epsilon_t.max():.3f}"
    )
    parts = [Finding(HOLDS if within else FAILS, words)]
    for label, what in product(at_random, METRICS):
        mine, theirs = (readings.level(curves[label], what) for curves in (at_random, chosen))
        parts.append(gained(mine, theirs, f"{label} with 14 silent at random over the largest 14 silent", what))
    return together(parts)


SHAKESPEARE = (
    Claim("16", "The FedAvg variant is smoother than FedAvg and MIFA.", "Section 7.3, Fig. 3a", (SPEECH,), _smoothest),
    Claim("17", "The FedAvg variant ends best of the three.", "Section 7.3, Fig. 3a", (SPEECH,), _best_of_three),
    Claim(
        "18",
        "The FedAvg variant beats the Byzantine-resilient rules.",
        "Section 7.3, Fig. 3b",
        (SPEECH,),
        _best_of_rules,
    ),
    Claim(
        "19",
        "FedAvg, MIFA and the variant converge in about 60 rounds, the rules need about 1000.",
        "Section 7.3, Fig. 3",
        (SPEECH,),
        _sixty_and_a_thousand,
    ),
    Claim("20", "GM and bucketing GM are the slow ones.", "Section 7.3, Fig. 3b", (SPEECH,), _slow_medians),
    Claim(
        "21",
        "The adversary removes the most important replies, within the law (read as: removing as many at random harms "
        "less).",
        "Section 7.3, Fig. 3",
        (SPEECH, RANDOM),
        _largest_replies,
    ),
)
