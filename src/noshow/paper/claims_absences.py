"""The paper's claims about the round-robin adversary, and random response: the end of the appendix."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from noshow.paper import readings
from noshow.paper.claims_data import two_classes
from noshow.paper.claims_everywhere import GRID
from noshow.paper.figures import ONE, ROOT, VARIANTS, Runs
from noshow.paper.findings import (
    CALLED,
    METRICS,
    Claim,
    Evidence,
    Finding,
    best,
    held_in,
    rounds_in_words,
    together,
)
from noshow.paper.readings import ACCURACY, FAILS, HOLDS, LOSS
from noshow.paper.results import Curves

CHANCE = "random-response"
AMPLIFIED = f"fedavg_variant{ROOT}"


def _cells_won(evidence: Evidence) -> Finding:
    parts = [_against_all(cell, curves, what) for cell, curves in evidence.runs[GRID].items() for what in METRICS]
    return together(parts, f"Nine cells, by accuracy and by loss: {held_in(parts)} won")


def _against_all(cell: str, curves: Mapping[str, Curves], what: str) -> Finding:
    found = best(curves[AMPLIFIED], [curve for label, curve in curves.items() if label != AMPLIFIED], what)
    return found._replace(words=f"{cell}{found.words.removeprefix(AMPLIFIED)}")


def _more_is_smoother(evidence: Evidence) -> Finding:
    runs = evidence.runs[GRID]
    labels = list(next(iter(runs.values())))
    found = [_falls_with_sampled(runs, label, what) for label, what in product(labels, METRICS)]
    first = f"Steps from K = 5 to 10 and from 10 to 30, by algorithm and r: smoother in every seed in {held_in(found)}"
    return together(found, first)


def _falls_with_sampled(runs: Runs, label: str, what: str) -> Finding:
    """What becomes of the roughness, and in how many steps it falls."""
    rough = {cell: readings.roughness(curves[label], what) for cell, curves in runs.items()}
    comparisons = [
        Finding(readings.lower(rough[f"K{more}-r{groups}"], rough[f"K{fewer}-r{groups}"]), "")
        for groups in (4, 5, 10)
        for fewer, more in ((5, 10), (10, 30))
    ]
    means = [np.mean([rough[f"K{sampled}-r{groups}"].mean() for groups in (4, 5, 10)]) for sampled in (5, 10, 30)]
    found, falls = together(comparisons), " → ".join(f"{mean:.3g}" for mean in means)
    words = f"{label}, {CALLED[what]} {falls} ({held_in(comparisons)} in every seed)"
    return Finding(found.verdict, words, counts=found.counts)


def _amplified_is_faster(evidence: Evidence) -> Finding:
    pairs = [(cell, curves, name) for (cell, curves), name in product(evidence.runs[GRID].items(), VARIANTS)]
    by_accuracy = [_faster(cell, curves, name, ACCURACY) for cell, curves, name in pairs]
    throughout = sum(_ahead(curves, name) == len(MARKS) for _, curves, name in pairs)
    first = (
        "Rounds to the level that beta = 1 ends at, seed by seed, beta = sqrt(M/K) v beta = 1. By accuracy "
        f"{held_in(by_accuracy)} hold; less loss at all of the rounds {', '.join(map(str, MARKS))} in {throughout}"
    )
    return together([_faster(cell, curves, name, LOSS) for cell, curves, name in pairs], first)


MARKS = (210, 510, 1005)
"""Evaluated rounds near the beginning, at a quarter and at half of a run."""


def _faster(cell: str, curves: Mapping[str, Curves], name: str, what: str) -> Finding:
    root, one = curves[f"{name}{ROOT}"], curves[f"{name}{ONE}"]
    target = readings.level(one, what)
    quick, slow = (readings.rounds_to(curve, what, target) for curve in (root, one))
    needed = f"{cell}, {name}: {rounds_in_words(quick)} v {rounds_in_words(slow)}"
    words = f"{needed} (less loss at {_ahead(curves, name)} of {len(MARKS)} rounds)"
    return Finding(
        readings.lower(quick, slow), words, float((slow / quick).min()) if np.isfinite(quick).all() else None
    )


def _ahead(curves: Mapping[str, Curves], name: str) -> int:
    """At how many of the marked rounds beta = sqrt(M/K) has less loss in every seed."""
    root, one = curves[f"{name}{ROOT}"], curves[f"{name}{ONE}"]
    at = np.searchsorted(one.evaluated, MARKS)
    return int((root.scores.train_loss[:, at] < one.scores.train_loss[:, at]).all(0).sum())


def _one_of_r(evidence: Evidence) -> Finding:
    parts = []
    for cell, curves in evidence.runs[GRID].items():
        used, expected = next(iter(curves.values())).epsilon_t, 1 / int(cell.split("-r")[1])
        error = float(used.std() / np.sqrt(used.size))
        off = abs(float(used.mean()) - expected) / error
        words = f"{cell}: {used.mean():.4f}, {off:.1f} standard errors from {expected:g}"
        parts.append(Finding(HOLDS if off <= 3 else FAILS, words, 3 - off))
    return together(parts, "Mean epsilon_t, within 3 standard errors of what is expected")


def _no_claim(evidence: Evidence) -> Finding:
    words = "The paper names the scheme in a heading and reports nothing."
    if CHANCE in evidence.runs:
        means = {cell: next(iter(curves.values())).epsilon_t.mean() for cell, curves in evidence.runs[CHANCE].items()}
        words += f" Ours: mean epsilon_t {', '.join(f'{mean:.3f} at {cell}' for cell, mean in means.items())}."
    return Finding("no measurement", words)


ABSENCES = (
    Claim(
        "44",
        "The FedAvg variant with beta = sqrt(M/K) beats all others.",
        "Fig. 12 and 13 (the text says 4)",
        (GRID,),
        _cells_won,
    ),
    Claim("45", "A larger K makes curves smoother.", "Fig. 12 and 13", (GRID,), _more_is_smoother),
    Claim(
        "46",
        "beta = sqrt(M/K) trains faster than beta = 1 (read as: the mean of five evaluations is sooner at the train "
        "loss that beta = 1 ends at; rougher curves may be there early).",
        "Fig. 12 and 13",
        (GRID,),
        _amplified_is_faster,
    ),
    Claim("47", "One r-th of the clients is silent on average.", "text", (GRID,), _one_of_r),
    Claim(
        "48",
        "Clients hold two classes each, and their data are far apart (read as: as in claim 7).",
        "text",
        (),
        two_classes,
    ),
    Claim("49", "The variants were tested under random response as well.", "a heading", (), _no_claim),
)
