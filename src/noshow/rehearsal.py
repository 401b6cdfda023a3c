"""What adversaries do before round 0: they prepare, and may play the training beforehand to learn from it."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from noshow.contracts import Adversary, Algorithm, Memory, Model
from noshow.ensemble import LONGEST_CHUNK
from noshow.federation import Federation
from noshow.precision import Precision, products_in
from noshow.program import Program, setting_for
from noshow.randomness import Purpose, run_key
from noshow.rates import curve
from noshow.rounds import Probe


def prepare(
    adversary: Adversary, federation: Federation, model: Model, seeds: Sequence[int], precision: Precision | None = None
) -> Memory:
    """What the adversary needs to know before round 0, one row a seed."""
    with products_in(precision):
        states = [adversary.init(run_key(seed, Purpose.PREPARE), federation, model) for seed in seeds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def rehearse(
    federation: Federation, model: Model, algorithm: Algorithm, *, rounds: int, seed: int, probe: Probe
) -> np.ndarray:
    """Play with full participation, nobody silenced; what `probe` sees of the work, [rounds, M, ...] by client id.

    A run that overflows never comes back: of one in which the probe sees no number, later rounds are not played.
    """
    from noshow.adversaries import nobody

    setting = setting_for(federation, model, algorithm, nobody(), federation.clients, 0.0, 1)._replace(probe=probe)
    program = Program(setting, federation, None, [seed], curve(algorithm.rate, rounds), min(rounds, LONGEST_CHUNK))
    called: list[np.ndarray] = []
    probed: list[np.ndarray] = []
    while program.t < rounds and (not probed or np.isfinite(probed[-1]).all()):
        record = program.play(rounds - program.t)
        called.append(np.asarray(record.ids))
        probed.append(np.asarray(record.probed))
    ids, seen = np.concatenate(called)[:, 0], np.concatenate(probed)[:, 0]
    return np.take_along_axis(seen, np.argsort(ids, axis=1), axis=1)
