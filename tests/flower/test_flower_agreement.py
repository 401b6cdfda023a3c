"""Without faults, the strategy with NumPy clients and the simulator agree round by round."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from conftest import small_federation
from numpy_clients import enrolled, first_model, flat, live

import noshow as ns
from noshow.flower import Strategy

A = ns.algorithms
M, K, ROUNDS, SEED = 9, 4, 8, 5
ALGORITHMS = {
    "fedavg": (A.fedavg(0.1, steps=4), "sgd", None),
    "fedavg_variant": (A.fedavg_variant(0.1, steps=4), "sgd", None),
    "fedprox": (A.fedprox(0.1, mu=0.5, steps=4), "prox", 0.5),
    "fedprox_variant": (A.fedprox_variant(0.1, mu=0.5, steps=4), "prox", 0.5),
    "mifa": (A.mifa(ns.rates.inverse_sqrt(0.1), steps=4), "sgd", None),
    "gm": (A.gm(0.5), "momentum", None),
    "cclip": (A.cclip(0.5, radius=0.05), "momentum", None),
    "bucketing_gm": (A.bucketing_gm(0.5), "momentum", None),
    "bucketing_cclip": (A.bucketing_cclip(0.5, radius=0.05), "momentum", None),
}


@functools.cache
def simulated(kind: str) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """The models after every round, and who was sampled, of the algorithms whose clients are of this kind."""
    algorithms = {name: algorithm for name, (algorithm, own, _) in ALGORITHMS.items() if own == kind}
    runs = ns.Simulation.side_by_side(
        small_federation(M),
        ns.models.logistic(features=4, classes=3),
        [ns.Entry(algorithm, sampled=K) for algorithm in algorithms.values()],
        rounds=ROUNDS,
        seeds=[SEED],
        evaluate_every=1,
    )
    models: list[list[np.ndarray]] = [[] for _ in runs]
    while not runs[-1].done:
        for run, after in zip(runs, models, strict=True):
            run.advance()
            after.append(run.thetas[0])
    sampled = [run.history().roll_call.sampled[0] for run in runs]
    return dict(zip(algorithms, zip(models, sampled, strict=True), strict=True))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_strategy_and_simulator_agree_round_by_round(name: str, tmp_path: Path) -> None:
    algorithm, kind, mu = ALGORITHMS[name]
    federation = small_federation(M)
    expected, sampled = simulated(kind)[name]
    strategy = Strategy(
        server=algorithm.server,
        roster=enrolled(tmp_path / "federation.sqlite", federation),
        sampled=K,
        timeout=5.0,
        rate=algorithm.rate,
        sends="gradient" if kind == "momentum" else "model",
        mu=mu,
        seed=SEED,
        trace=tmp_path / "trace.parquet",
    )
    got: list[np.ndarray] = []
    strategy.start(live(federation, kind), first_model(), ROUNDS, evaluate_fn=lambda t, a: got.append(flat(a)))
    assert len(got) == ROUNDS + 1
    for t in range(ROUNDS):
        np.testing.assert_allclose(got[t + 1], expected[t], rtol=0, atol=1e-6)
    assert np.abs(expected[-1]).max() > 0.01
    called = ns.trace.read(tmp_path / "trace.parquet")
    assert [entry.client for entry in called] == [f"client-{i:02}" for i in sampled.ravel()]
    assert called.answered.all()
