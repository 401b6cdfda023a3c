"""The paper's claims about Synthetic(1,1): Section 7.4 and the second part of the appendix."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np

from noshow import datasets
from noshow.paper import readings
from noshow.paper.claims_cifar10 import TYPES, progress_smoother, same_at
from noshow.paper.claims_data import memory, size_skew
from noshow.paper.claims_everywhere import nowhere_worse, smooth
from noshow.paper.figures import BASELINES, BYZANTINE, VARIANTS
from noshow.paper.findings import (
    CALLED,
    METRICS,
    Claim,
    Evidence,
    Finding,
    Parts,
    alike,
    each,
    held_in,
    of,
    rough_in_words,
    together,
    unconverged,
    with_spread,
)
from noshow.paper.readings import ACCURACY, FAILS, HOLDS, LOSS
from noshow.paper.results import Curves
from noshow.randomness import Purpose, round_key, without_replacement

HIGH, LOW, LONG = "synthetic-0.9", "synthetic-0.7", "synthetic-long"
EQUAL = "cifar10-0.8"
"""An experiment whose clients hold equally much."""
EPSILON = {HIGH: 0.9, LOW: 0.7, LONG: 0.7}
MUCH = 3
"""Who fluctuates much is this many times as rough as a variant."""


def mifa_restless(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """MIFA is three times as rough as the FedAvg variant, and has not converged."""
    mifa, calm = curves["mifa"], curves["fedavg_variant"]
    return [_three_times(mifa, calm, what) for what in METRICS] + [unconverged(mifa, what) for what in METRICS]


def _three_times(mine: Curves, calm: Curves, what: str) -> Finding:
    rough, smooth = readings.roughness(mine, what), readings.roughness(calm, what)
    words = f"{mine.label} {rough_in_words(rough)} v {calm.label} {rough_in_words(smooth)}, roughness of {CALLED[what]}"
    return Finding(readings.lower(smooth, rough, times=MUCH), words, float((rough / smooth).min()) / MUCH)


def on_a_par(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """The variants' levels are similar to the originals'."""
    return each(alike, curves, TYPES)


def lawful(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
    """epsilon_t varies, is zero in some rounds, never above epsilon, and as the captions have it below."""
    used, law = np.stack([curves[label].epsilon_t for label in VARIANTS]), EPSILON[name]
    return [
        Finding(HOLDS if used.std() > 0 else FAILS, f"varies: {used.mean():.3f} ± {used.std():.3f} over rounds"),
        Finding(HOLDS if used.min() == 0 else FAILS, f"nobody silenced in {(used == 0).mean():.2%} of rounds"),
        # Kept as 32-bit numbers, so the law is rounded as they are.
        Finding(HOLDS if used.max() <= np.float32(law) else FAILS, f"never above {law}"),
        Finding(HOLDS if used.max() < np.float32(law) else FAILS, f"below it: at most {used.max():.5f}"),
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
    few = held_in(each(alike, curves, combinations(BASELINES, 2), [ACCURACY]))
    first = (
        f"From {worst} {levels[worst]:.3f} to {best} {levels[best]:.3f}, {levels[best] - levels[worst]:.3f} apart. "
        f"Without the Byzantine-resilient rules {few} hold"
    )
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


SYNTHETIC = (
    Claim(
        "22",
        "The clients' amounts of data are skewed, and follow a power law.",
        "Fig. 4",
        (),
        size_skew,
        picture="power-law.png",
    ),
    Claim(
        "23",
        f"MIFA fluctuates much (read as: {MUCH} times as rough as the FedAvg variant) and has not converged at the "
        "end.",
        "Fig. 5, first row",
        (HIGH,),
        of(HIGH, mifa_restless),
    ),
    Claim(
        "24",
        "The variants do about as well as the originals.",
        "Fig. 5, second row",
        (HIGH,),
        of(HIGH, on_a_par),
    ),
    Claim(
        "25",
        "epsilon_t varies, is zero in some rounds, and never passes epsilon = 0.9, by the caption stays below it.",
        "Fig. 5, third row",
        (HIGH,),
        of(HIGH, lawful),
    ),
    Claim(
        "25b",
        "That epsilon_t varies is due to the clients' unequal amounts of data (read as: where they are equal, it does "
        "not).",
        "Fig. 5, third row",
        (HIGH, EQUAL),
        _by_sizes,
    ),
    Claim(
        "26",
        f"The Byzantine-resilient rules fluctuate much too (read as: {MUCH} times as rough as the variants).",
        "Fig. 6",
        (HIGH,),
        of(HIGH, byzantine_restless),
    ),
    Claim(
        "26b",
        "Other values of epsilon give similar results (read as: claims 23 to 26 have one verdict at both, and most "
        "comparisons alike).",
        "text",
        (HIGH, LOW),
        lambda evidence: same_at(evidence, HIGH, LOW, AT_EPSILON),
    ),
)

SYNTHETIC_APPENDIX = (
    Claim(
        "37",
        "At epsilon = 0.7 the trends are those of 0.9.",
        "Fig. 9 and 10",
        (HIGH, LOW),
        lambda evidence: same_at(evidence, HIGH, LOW, AT_EPSILON),
        repeats="As 26b.",
    ),
    Claim(
        "37b",
        "epsilon_t at 0.7: zero in some rounds, and below epsilon (read as claim 25).",
        "Fig. 9, captions",
        (LOW,),
        of(LOW, lawful),
    ),
    Claim(
        "38",
        "In all experiments the variants run smoothly (read as: smoother than their originals; for round-robin with "
        "beta = sqrt(M/K)).",
        "text on Fig. 9 and 10",
        (),
        smooth,
    ),
    Claim(
        "38b",
        "In all experiments they are as good as every baseline or better (read as: as every algorithm that is none).",
        "text on Fig. 9 and 10",
        (),
        nowhere_worse,
    ),
    Claim(
        "39",
        "The variants need no memory beside the model, unlike MIFA and the Byzantine-resilient rules.",
        "text",
        (),
        memory,
    ),
    Claim(
        "40",
        "After 4000 rounds all algorithms have comparable test accuracies (read as: similar, pair by pair).",
        "Fig. 11b, whose sub-caption names Fig. 8",
        (LONG,),
        _comparable,
    ),
    Claim(
        "41",
        "Algorithms of one type (FedAvg with MIFA; FedProx) end at about one train loss.",
        "Fig. 11b",
        (LONG,),
        _alike_within_types,
    ),
    Claim(
        "42",
        "The variants run smoother.",
        "Fig. 11b",
        (LONG,),
        of(LONG, progress_smoother),
    ),
    Claim(
        "43",
        "With beta so chosen that beta times the responders' weight is below 1, the new model keeps a part of the old, "
        "which smooths it (the paper says if; read as: it is below 1 in every round; the link to smoothness was not "
        "measured).",
        "text on Fig. 11b",
        (LONG,),
        _damped,
    ),
)
