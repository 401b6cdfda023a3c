"""The paper's claims about Synthetic(1,1): Section 7.4 and the second part of the appendix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np

from noshow import datasets
from noshow.paper import readings
from noshow.paper.claims_cifar10 import TYPES, progress_smoother, same_at
from noshow.paper.claims_data import memory, size_skew
from noshow.paper.figures import BYZANTINE, VARIANTS
from noshow.paper.findings import (
    CALLED,
    METRICS,
    Claim,
    Evidence,
    Finding,
    Parts,
    alike,
    better,
    each,
    held_in,
    of,
    rough_in_words,
    smoother,
    so_far,
    together,
    unconverged,
    with_spread,
)
from noshow.paper.readings import ACCURACY, FAILS, HOLDS, LOSS, OPEN
from noshow.paper.results import Curves
from noshow.randomness import Purpose, round_key, without_replacement

HIGH, LOW, LONG = "synthetic-0.9", "synthetic-0.7", "synthetic-long"
EQUAL = "cifar10-0.8"
"""An experiment whose clients hold equally much."""
EPSILON = {HIGH: 0.9, LOW: 0.7, LONG: 0.7}
EVERYWHERE = ("cifar10-0.8", "cifar10-0.2", "shakespeare-0.7", HIGH, LOW, LONG)
"""The paper's experiments with curves of the variants; the round-robin grid has claims of its own."""
MUCH = 3
"""Who fluctuates much is this many times as rough as a variant."""


def mifa_restless(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """MIFA is three times as rough as the FedAvg variant, and has not converged."""
    mifa, calm = curves["mifa"], curves["fedavg_variant"]
    return [_three_times(mifa, calm, what) for what in METRICS] + [unconverged(mifa, what) for what in METRICS]


def _three_times(mine: Curves, calm: Curves, what: str) -> Finding:
    rough, smooth = readings.roughness(mine, what), readings.roughness(calm, what)
    words = f"{mine.label} {rough_in_words(rough)} v {calm.label} {rough_in_words(smooth)}, roughness of {CALLED[what]}"
    return Finding(readings.lower(smooth, rough, times=MUCH), words)


def on_a_par(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """The variants' levels are similar to the originals'."""
    return each(alike, curves, TYPES)


def lawful(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """epsilon_t varies, is zero in some rounds, and never above epsilon."""
    used, law = np.stack([curves[label].epsilon_t for label in VARIANTS]), EPSILON[name]
    return [
        Finding(HOLDS if used.std() > 0 else FAILS, f"varies: {used.mean():.3f} ± {used.std():.3f} over rounds"),
        Finding(HOLDS if used.min() == 0 else FAILS, f"nobody silenced in {(used == 0).mean():.2%} of rounds"),
        # Kept as 32-bit numbers, so the law is rounded as they are.
        Finding(HOLDS if used.max() <= np.float32(law) else FAILS, f"largest {used.max():.4f}, the law being {law}"),
    ]


def _by_sizes(evidence: Evidence) -> Finding:
    unequal, equal = (evidence.curves(name)["fedavg_variant"].epsilon_t for name in (HIGH, EQUAL))
    return together(
        [
            Finding(HOLDS if np.ptp(unequal) > 0 else FAILS, f"{HIGH}, unequal: {_around(unequal)}"),
            Finding(HOLDS if np.ptp(equal) == 0 else FAILS, f"{EQUAL}, 500 images each: {_around(equal)}"),
        ]
    )


def _around(used: np.ndarray) -> str:
    return f"epsilon_t {used.mean():.3f} ± {used.std():.3f} over rounds"


def byzantine_restless(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """Each Byzantine-resilient rule is three times as rough as each variant."""
    return each(_rougher, curves, product(VARIANTS, BYZANTINE))


def _rougher(variant: Curves, rule: Curves, what: str) -> Finding:
    calm, rough = readings.roughness(variant, what), readings.roughness(rule, what)
    words = f"{rule.label} over {variant.label}, {CALLED[what]} {with_spread(rough / calm)} times as rough"
    return Finding(readings.lower(calm, rough, times=MUCH), words, float((rough / calm).min()))


AT_EPSILON: dict[str, Parts] = {
    "23": mifa_restless,
    "24": on_a_par,
    "25": lawful,
    "26": byzantine_restless,
}


def _comparable(evidence: Evidence) -> Finding:
    curves = evidence.curves(LONG)
    levels = {label: float(readings.level(curve, ACCURACY).mean()) for label, curve in curves.items()}
    best, worst = max(levels, key=levels.__getitem__), min(levels, key=levels.__getitem__)
    first = f"From {worst} {levels[worst]:.3f} to {best} {levels[best]:.3f}, {levels[best] - levels[worst]:.3f} apart"
    return together(each(alike, curves, combinations(curves, 2), [ACCURACY]), first)


def _alike_within_types(evidence: Evidence) -> Finding:
    pairs = [*combinations(("fedavg", "fedavg_variant", "mifa"), 2), ("fedprox", "fedprox_variant")]
    return together(each(alike, evidence.curves(LONG), pairs, [LOSS]))


def _damped(evidence: Evidence) -> Finding:
    """beta = M/K here, so that beta times the responders' weight is what `heard` gives."""
    curve = evidence.curves(LONG)["fedavg_variant"]
    weight = heard(curve.seeds, curve.epsilon_t, datasets.synthetic(1, 1).held, sampled=10)
    share = (weight < 1).mean(1)
    words = (
        f"beta times the responders' weight is below 1 in {share.mean():.1%} ± {100 * readings.spread(share):.1f} "
        f"points of rounds; its median is {np.median(weight):.3f} and its largest {weight.max():.2f}."
    )
    return Finding(HOLDS if (share == 1).all() else FAILS if (share == 0).all() else "depends", words)


def heard(seeds: np.ndarray, epsilon_t: np.ndarray, held: np.ndarray, sampled: int) -> np.ndarray:
    """(M/K) times the responders' share of all data, in every round of every seed.

    That is (M/K) times the sampled clients' share, less epsilon_t; who is sampled follows from the seed.

    Example:
        >>> import numpy as np
        >>> heard(np.array([0]), np.array([[0.25, 0.0]]), np.full(8, 10), sampled=4).tolist()
        [[0.75, 1.0]]
    """
    clients, rounds = len(held), epsilon_t.shape[1]

    def drawn(seed: jax.Array, t: jax.Array) -> jax.Array:
        return without_replacement(round_key(seed, t, Purpose.SAMPLE), clients, sampled)

    over_rounds = jax.vmap(drawn, in_axes=(None, 0))
    ids = jax.jit(jax.vmap(over_rounds, in_axes=(0, None)))(jnp.asarray(seeds, jnp.uint32), jnp.arange(rounds))
    called = held[np.asarray(ids)].sum(-1) / held.sum()
    weight: np.ndarray = called * clients / sampled - epsilon_t
    return weight


def _everywhere(evidence: Evidence) -> Finding:
    there = [evidence.curves(name) for name in EVERYWHERE if name in evidence.runs]
    level, calm = ([part for curves in there for part in parts(curves)] for parts in (_against_all, _against_original))
    first = f"Similar or better in {held_in(level)} comparisons, smoother in {held_in(calm)}"
    return so_far(evidence, EVERYWHERE, _nowhere_worse, first)


def _nowhere_worse(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """Similar to or better than every baseline, and smoother than the original; levels are in the table."""
    return [
        _tally(f"{name}, similar or better", _against_all(curves)),
        _tally(f"{name}, smoother", _against_original(curves)),
    ]


def _against_all(curves: Mapping[str, Curves]) -> list[Finding]:
    variants = [label for label in VARIANTS if label in curves]
    return each(_not_worse, curves, product(variants, [label for label in curves if label not in VARIANTS]))


def _against_original(curves: Mapping[str, Curves]) -> list[Finding]:
    return each(_smoother, curves, [(variant, original) for variant, original in TYPES if variant in curves])


def _not_worse(mine: Curves, theirs: Curves, what: str) -> Finding:
    ahead = better(mine, theirs, what).verdict
    return Finding(HOLDS if ahead == HOLDS else alike(mine, theirs, what).verdict, theirs.label)


def _smoother(mine: Curves, theirs: Curves, what: str) -> Finding:
    return Finding(smoother(mine, theirs, what).verdict, theirs.label)


def _tally(title: str, parts: Sequence[Finding]) -> Finding:
    counts = [f"{outcome} {sum(part.verdict == outcome for part in parts)}" for outcome in (HOLDS, FAILS, OPEN)]
    denied = Counter(part.words for part in parts if part.verdict == FAILS)
    against = f" (by {', '.join(f'{label} {count}' for label, count in denied.items())})" if denied else ""
    words = f"{title}: {counts[0]}, {counts[1]}{against}, {counts[2]}"
    return Finding(together(parts).verdict, words)


SECTION, APPENDIX = "Section 7.4", "Appendix, Synthetic"

SYNTHETIC = (
    Claim("22", "The clients' amounts of data follow a power law.", f"{SECTION}, Fig. 4", (), size_skew),
    Claim(
        "23",
        f"MIFA fluctuates much (read as: {MUCH} times as rough as the FedAvg variant) and has not converged at the "
        "end.",
        f"{SECTION}, Fig. 5, first row",
        (HIGH,),
        of(HIGH, mifa_restless),
    ),
    Claim(
        "24",
        "The variants do about as well as the originals.",
        f"{SECTION}, Fig. 5, second row",
        (HIGH,),
        of(HIGH, on_a_par),
    ),
    Claim(
        "25",
        "epsilon_t varies, is zero in some rounds, and never passes epsilon.",
        f"{SECTION}, Fig. 5, third row",
        (HIGH,),
        of(HIGH, lawful),
    ),
    Claim(
        "25b",
        "That epsilon_t varies is due to the clients' unequal amounts of data (read as: where they are equal, it does "
        "not).",
        f"{SECTION}, Fig. 5, third row",
        (HIGH, EQUAL),
        _by_sizes,
    ),
    Claim(
        "26",
        f"The Byzantine-resilient rules fluctuate much too (read as: {MUCH} times as rough as the variants).",
        f"{SECTION}, Fig. 6",
        (HIGH,),
        of(HIGH, byzantine_restless),
    ),
    Claim(
        "26b",
        "Other values of epsilon give similar results.",
        SECTION,
        (HIGH, LOW),
        lambda evidence: same_at(evidence, HIGH, LOW, AT_EPSILON),
    ),
)

SYNTHETIC_APPENDIX = (
    Claim(
        "37",
        "At epsilon = 0.7 the trends are those of 0.9.",
        f"{APPENDIX}, Fig. 9 and 10",
        (HIGH, LOW),
        lambda evidence: same_at(evidence, HIGH, LOW, AT_EPSILON),
    ),
    Claim(
        "38",
        "In all experiments the variants run smoothly (read as: smoother than their originals) and are as good as "
        "every baseline or better. (Round-robin has claims of its own, 44 to 46.)",
        APPENDIX,
        (),
        _everywhere,
    ),
    Claim(
        "39",
        "The variants need no memory beside the model, unlike MIFA and the Byzantine-resilient rules.",
        APPENDIX,
        (),
        memory,
    ),
    Claim(
        "40",
        "After 4000 rounds all algorithms have about one test accuracy.",
        f"{APPENDIX}, Fig. 11b",
        (LONG,),
        _comparable,
    ),
    Claim(
        "41",
        "Algorithms of one type (FedAvg with MIFA; FedProx) end at about one train loss.",
        f"{APPENDIX}, Fig. 11b",
        (LONG,),
        _alike_within_types,
    ),
    Claim(
        "42",
        "The variants run smoother.",
        f"{APPENDIX}, Fig. 11b",
        (LONG,),
        of(LONG, progress_smoother),
    ),
    Claim(
        "43",
        "The reason: beta times the responders' weight is below 1, so that the new model keeps a part of the old (read "
        "as: in every round).",
        f"{APPENDIX}, text on Fig. 11b",
        (LONG,),
        _damped,
    ),
)
