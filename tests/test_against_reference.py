"""The engine against the slow, obvious program: the same samples, batches and silences, the same model to 1e-5."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from conftest import small_federation
from jax.flatten_util import ravel_pytree
from reference import Choices, Hyper, Problem, train

import noshow as ns
from noshow.local import draw_batch, step_key
from noshow.randomness import Purpose, round_key

A = ns.algorithms
ROUNDS, SAMPLED, SEED = 20, 5, 3
M = 13  # odd: one bucket holds a single point

CASES = {
    "fedavg": (A.fedavg(0.1, steps=4), Hyper("fedavg", 0.1, steps=4)),
    "fedavg_variant": (A.fedavg_variant(0.1, steps=4), Hyper("fedavg_variant", 0.1, steps=4, beta=M / SAMPLED)),
    "fedprox": (A.fedprox(0.1, mu=0.5, steps=4), Hyper("fedprox", 0.1, steps=4, mu=0.5)),
    "fedprox_variant": (
        A.fedprox_variant(0.1, mu=0.5, steps=4, damping=1.0, beta=1.5),
        Hyper("fedprox_variant", 0.1, steps=4, mu=0.5, damping=1.0, beta=1.5),
    ),
    "mifa": (A.mifa(0.1, steps=4), Hyper("mifa", 0.1, steps=4)),
    "gm": (A.gm(0.5), Hyper("gm", 0.5)),
    "cclip": (A.cclip(0.5, radius=0.05), Hyper("cclip", 0.5, radius=0.05)),
    "bucketing_gm": (A.bucketing_gm(0.5, damping=1.0), Hyper("bucketing_gm", 0.5, damping=1.0)),
    "bucketing_cclip": (A.bucketing_cclip(0.5, radius=0.05), Hyper("bucketing_cclip", 0.5, radius=0.05)),
}


@functools.partial(jax.jit, static_argnums=(0, 1))
def drawn(batches: str, batch_size: int, held: int, t: int, client: int, step: int) -> tuple[jax.Array, jax.Array]:
    key = jax.random.fold_in(round_key(SEED, t, Purpose.BATCHES), client)
    return draw_batch(held, batch_size, step_key(key, batches, step))  # type: ignore[arg-type]


def rows(federation: ns.Federation, t: int, client: int, step: int) -> list[int]:
    """Which of its examples the engine gave a client: the whole data set, or its keyed draw."""
    held = int(federation.held[client])
    if federation.batches == "full" or federation.batch_size is None:
        return list(range(held))
    chosen, weights = drawn(federation.batches, federation.batch_size, held, t, client, step)
    return np.asarray(chosen)[np.asarray(weights) > 0].tolist()


def shuffle(t: int) -> list[int]:
    key, _ = jax.random.split(round_key(SEED, t, Purpose.SERVER))
    return np.asarray(jax.random.permutation(key, M)).tolist()


MODES = ["full", "round", "step"]
# Every algorithm in one of the modes, every mode with three of them; the other pairs are for `make test-all`.
PAIRS = [
    pytest.param(name, mode, marks=[] if (number + place) % len(MODES) == 0 else pytest.mark.long)
    for number, name in enumerate(CASES)
    for place, mode in enumerate(MODES)
]


@pytest.mark.parametrize(("name", "batches"), PAIRS)
def test_engine_agrees_with_the_slow_program(name: str, batches: str, model: ns.Model) -> None:
    algorithm, hyper = CASES[name]
    federation = small_federation(M).drawing(batches, None if batches == "full" else 8)  # type: ignore[arg-type]
    history = ns.simulate(
        federation,
        model,
        algorithm,
        ns.adversaries.largest_reply(),
        sampled=SAMPLED,
        epsilon=0.6,
        rounds=ROUNDS,
        seeds=[SEED],
        evaluate_every=6,
    )
    call = history.roll_call
    assert not call.answered.all(), "the adversary silenced nobody: the case would prove nothing"
    problem = Problem(
        clients=[federation.of_client(i) for i in range(M)],
        sizes=federation.sizes.tolist(),
        features=4,
        classes=3,
        batch=lambda t, client, step: rows(federation, t, client, step),
    )
    choices = Choices(
        responders=[call.responders(0, t).tolist() for t in range(ROUNDS)],
        shuffles=[shuffle(t) for t in range(ROUNDS)],
    )
    expected = train(problem, hyper, choices)
    got = np.asarray(ravel_pytree(history.models[0])[0], np.float64)
    assert np.linalg.norm(got - expected) <= 1e-5 * np.linalg.norm(expected)
