"""One of several processes that simulate together, or one alone, for comparison.

python tests/joined.py OUT DEVICES all|few [COORDINATOR PROCESSES PROCESS]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import noshow as ns
from noshow import ensemble


def algorithms() -> list[ns.Algorithm]:
    a = ns.algorithms
    return [
        a.fedavg(0.05, steps=2),
        a.fedavg_variant(0.05, steps=2),
        a.fedprox(0.05, mu=0.1, steps=2),
        a.fedprox_variant(0.05, mu=0.1, steps=2),
        a.mifa(0.05, steps=2),
        a.gm(0.05),
        a.cclip(0.05),
        a.bucketing_gm(0.05),
        a.bucketing_cclip(0.05),
    ]


FEW = ("fedavg_variant", "mifa", "bucketing_gm")
"""One without memory, one whose server remembers, and one whose clients and server do and that shuffles."""
ROUNDS = 50


def federation() -> ns.Federation:
    """Nine clients, one of which outweighs the others: devices, and processes, share its full batch."""
    rng = np.random.default_rng(0)

    def client(size: int) -> tuple[np.ndarray, np.ndarray]:
        x = (rng.normal(size=(size, 4)) + rng.normal(size=4)).astype(np.float32)
        return x, rng.integers(0, 3, size).astype(np.int32)

    return ns.Federation.from_clients([client(n) for n in (30, 4000, 40, 60, 20, 80, 300, 50, 90)], test=client(200))


def play(algorithm: ns.Algorithm, batches: str) -> dict[str, np.ndarray]:
    """All that a run leaves behind, as arrays."""
    run = ns.Simulation(
        federation() if batches == "full" else federation().drawing("step", 8),
        ns.models.logistic(features=4, classes=3),
        algorithm,
        ns.adversaries.largest_reply(),
        sampled=5,
        epsilon=0.6,
        rounds=ROUNDS,
        evaluate_every=20,
        seeds=[3],
    )
    while not run.done:
        run.advance()
    history = run.history()
    kept = {f"score-{name}": scores for name, scores in history.scores._asdict().items()}
    kept |= {f"state-{place}": leaf for place, leaf in enumerate(run.snapshot().state)}
    kept |= {"sampled": history.roll_call.sampled, "answered": history.roll_call.answered}
    return kept | {"model": np.asarray(ravel_pytree(history.models[0])[0])}


def cases(which: str) -> Iterator[tuple[ns.Algorithm, str]]:
    """Algorithms on full batches, and two on drawn ones, the clients' part of a round being the same for all."""
    for algorithm in algorithms():
        if which == "few" and algorithm.name not in FEW:
            continue
        yield algorithm, "full"
        if algorithm.name in ("fedprox_variant", "mifa"):
            yield algorithm, "step"


def main() -> None:
    out, devices, which, *where = sys.argv[1:]
    jax.config.update("jax_num_cpu_devices", int(devices))
    if where:
        ns.distributed.join(where[0], int(where[1]), int(where[2]))
    # By their own clocks process 0 would play one round at a time, and process 1 as many as it can: they must agree.
    ensemble.SECONDS_A_CHUNK = 1e-6 if ns.distributed.first() else 1e6
    kept = {
        f"{algorithm.name}/{batches}/{name}": array
        for algorithm, batches in cases(which)
        for name, array in play(algorithm, batches).items()
    }
    np.savez(out, devices=len(jax.devices()), allow_pickle=False, **kept)


if __name__ == "__main__":
    main()
