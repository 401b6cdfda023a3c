"""A real federation of processes that are killed, stopped and fail in every way: its model is the simulator's."""

from __future__ import annotations

import csv
import json
import signal
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from conftest import small_federation
from live_processes import LiveFederation, live_federation, wait_until

import noshow as ns
from noshow.flower.session import sample

STEPS, RATE = 4, 0.1


def prepare(folder: Path, federation: ns.Federation, plan: dict[str, dict[int, str]]) -> None:
    """The clients' data, the roster and the plan of faults, as files."""
    with (folder / "clients.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["client", "n"])
        for i in range(federation.clients):
            x, y = federation.of_client(i)
            np.savez(folder / f"client-{i:02}.npz", x=x, y=y)
            rows.writerow([f"client-{i:02}", len(y)])
    (folder / "plan.json").write_text(json.dumps(plan))


def rounds_played(folder: Path) -> int:
    file = folder / "federation.sqlite"
    if not file.exists():
        return -1
    database = sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=10.0)
    try:
        found = database.execute("select round from runs").fetchone()
    except sqlite3.OperationalError:  # the table is not there yet
        return -1
    finally:
        database.close()
    return -1 if found is None else int(found[0])


def simulated(
    federation: ns.Federation, trace: ns.trace.Trace, algorithm: str, sampled: int, rounds: int
) -> dict[str, np.ndarray]:
    """The simulator's model, with the silences of the trace."""
    silent = np.zeros((rounds, federation.clients), bool)
    for entry in trace:
        silent[entry.round - 1, int(entry.client[-2:])] = entry.status == "silent"

    def score(state: None, key: ns.contracts.Key, scene: ns.Scene) -> ns.contracts.Array:
        import jax.numpy as jnp

        return jnp.where(jnp.asarray(silent)[scene.t, scene.ids], 0.0, -jnp.inf)

    history = ns.simulate(
        federation,
        ns.models.logistic(features=4, classes=3),
        getattr(ns.algorithms, algorithm)(RATE, steps=STEPS),
        ns.Adversary(score, lawful=False, name="as recorded"),
        sampled=sampled,
        rounds=rounds,
        evaluate_every=rounds,
    )
    assert [f"client-{i:02}" for i in history.roll_call.sampled[0].ravel()] == [entry.client for entry in trace]
    return history.models[0]


def check_model(folder: Path, federation: ns.Federation, algorithm: str, sampled: int, rounds: int) -> ns.trace.Trace:
    trace = ns.trace.read(folder / "trace.parquet")
    expected = simulated(federation, trace, algorithm, sampled, rounds)
    with np.load(folder / "final.npz") as final:
        for name in ("bias", "weights"):
            np.testing.assert_allclose(final[name], expected[name], rtol=0, atol=1e-6)
            assert np.abs(final[name]).max() > 0.01
    return trace


def play(live: LiveFederation, folder: Path, actions: dict[int, list[tuple[str, int]]], **settings: object) -> None:
    """Run the app; do what is to be done to nodes as soon as the round before has ended."""
    live.run(folder=str(folder), **settings)
    for t in sorted(actions):
        wait_until(lambda t=t: rounds_played(folder) >= t - 1, 300.0, f"round {t} begins")  # type: ignore[misc]
        for what, number in actions[t]:
            if what == "start":
                live.start_node(number)
            else:
                live.signal(number, signal.Signals[what])
    wait_until((folder / "final.npz").exists, 300.0, "the run ends")


@pytest.mark.slow
def test_a_small_live_federation(tmp_path: Path) -> None:
    federation = small_federation(3)
    prepare(tmp_path, federation, {"client-01": {1: "raise"}, "client-02": {2: "nan"}})
    with live_federation(tmp_path) as live:
        for i in range(3):
            live.start_node(i)
        play(live, tmp_path, {}, algorithm="mifa", rounds=2, sampled=3, timeout=30.0)
    trace = check_model(tmp_path, federation, "mifa", 3, 2)
    seen = {(entry.client, entry.round): entry.reason for entry in trace}
    assert seen["client-01", 1] == "error"
    assert seen["client-02", 2] == "not finite"
    assert list(seen.values()).count("") == 4


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["fedavg_variant", "mifa"])
def test_a_live_federation_in_which_everything_goes_wrong(algorithm: str, tmp_path: Path) -> None:
    clients, sampled, rounds, timeout = 6, 4, 18, 20.0
    federation = small_federation(clients)
    called = {t: sample(0, t - 1, clients, sampled).tolist() for t in range(1, rounds + 1)}
    # A client that crashed or was late may still be at it in the round after: the next fault is another one's.
    faults, faulty = {}, {}
    for t, fault in enumerate(["raise", "nan", "infinity", "shape", "names", "norm", "late", "crash"], start=1):
        faulty[t] = next(i for i in called[t] if i != faulty.get(t - 1))
        faults[t] = fault
    stopped = next(i for i in called[10] if i != faulty[8])
    killed = next(i for i in called[11] if i not in (faulty[8], stopped) and i in called[16] + called[17] + called[18])
    gone = next(i for i in called[12] if i not in (faulty[8], stopped, killed))
    plan: dict[str, dict[int, str]] = {}
    for t, fault in faults.items():
        plan.setdefault(f"client-{faulty[t]:02}", {})[t] = fault
    prepare(tmp_path, federation, plan)
    actions = {
        10: [("SIGSTOP", stopped)],
        11: [("SIGCONT", stopped), ("SIGKILL", killed)],
        12: [("start", killed), ("SIGTERM", gone)],
    }
    with live_federation(tmp_path) as live:
        for i in range(clients):
            live.start_node(i)
        play(live, tmp_path, actions, algorithm=algorithm, rounds=rounds, sampled=sampled, timeout=timeout)
    trace = check_model(tmp_path, federation, algorithm, sampled, rounds)
    seen = {(entry.round, int(entry.client[-2:])): entry.reason for entry in trace}
    assert {fault: seen[t, faulty[t]] for t, fault in faults.items() if t < 7} == {
        "raise": "error",
        "nan": "not finite",
        "infinity": "not finite",
        "shape": "shapes",
        "names": "names",
        "norm": "norm",
    }
    assert seen[7, faulty[7]] == "late"
    assert seen[8, faulty[8]] in ("crash", "timeout")  # Flower may notice only when it is over
    assert seen[10, stopped] in ("late", "timeout")
    assert seen[11, killed] in ("timeout", "unavailable")
    assert seen[12, gone] in ("unavailable", "timeout")
    assert "" in {reason for (t, client), reason in seen.items() if client == killed and t > 15}
