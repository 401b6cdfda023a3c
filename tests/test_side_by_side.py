"""Several runs in one program are the runs that they are alone."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import small_federation

import noshow as ns

MODEL = ns.models.logistic(features=4, classes=3)
RATE = ns.rates.inverse_sqrt(0.1)


def entries() -> list[ns.Entry]:
    """Servers, adversaries, rates and K of their own; one client."""
    client = ns.clients.sgd(steps=3)
    remembers = ns.servers.remember(ns.aggregators.mean())
    return [
        ns.Entry(ns.Algorithm(client, ns.servers.average(), RATE, name="plain"), sampled=5),
        ns.Entry(ns.Algorithm(client, ns.servers.amplify(2.0), RATE), 8, ns.adversaries.random_response(0.5)),
        ns.Entry(ns.Algorithm(client, remembers, ns.rates.constant(0.05)), 4, ns.adversaries.largest_reply(), 0.5),
    ]


def moving() -> list[ns.Entry]:
    """Clients that remember, too."""
    client = ns.clients.momentum(0.9)
    return [
        ns.Entry(ns.Algorithm(client, server, RATE), sampled, ns.adversaries.random_response(0.6))
        for server, sampled in ((ns.servers.average(), 6), (ns.servers.remember(ns.aggregators.mean()), 3))
    ]


def alone(entry: ns.Entry, federation: ns.Federation) -> ns.History:
    return ns.simulate(
        federation,
        MODEL,
        entry.algorithm,
        entry.adversary,
        sampled=entry.sampled,
        epsilon=entry.epsilon,
        rounds=7,
        seeds=[0, 3],
        evaluate_every=3,
    )


@pytest.mark.parametrize(
    ("chosen", "batches", "accelerator"),
    [
        (entries(), "step", True),
        pytest.param(entries(), "full", False, marks=pytest.mark.long),
        pytest.param(moving(), "round", True, marks=pytest.mark.long),
    ],
)
def test_each_run_is_what_it_is_alone(
    monkeypatch: pytest.MonkeyPatch, chosen: list[ns.Entry], batches: str, accelerator: bool
) -> None:
    federation = small_federation().drawing(batches, 6)  # type: ignore[arg-type]
    expected = [alone(entry, federation) for entry in chosen]
    if accelerator:
        monkeypatch.setattr("noshow.devices.on_cpu", lambda: False)
    runs = ns.Simulation.side_by_side(federation, MODEL, chosen, rounds=7, seeds=[0, 3], evaluate_every=3)
    while not all(run.done for run in runs):
        for run in runs:
            run.advance()
    for run, single in zip(runs, expected, strict=True):
        history = run.history()
        np.testing.assert_array_equal(history.roll_call.sampled, single.roll_call.sampled)
        np.testing.assert_array_equal(history.roll_call.answered, single.roll_call.answered)
        np.testing.assert_array_equal(history.evaluated, single.evaluated)
        for ours, theirs in zip(history.scores, single.scores, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


@pytest.mark.long
def test_a_run_put_aside_goes_on_beside_others() -> None:
    federation = small_federation().drawing("step", 6)

    def begin() -> list[ns.Simulation]:
        return ns.Simulation.side_by_side(federation, MODEL, entries(), rounds=6, evaluate_every=2)

    through, first = begin(), begin()
    for runs, chunks in ((through, 6), (first, 3)):
        for _ in range(chunks):
            [run.advance() for run in runs if not run.done]
    second = begin()
    for run, before in zip(second, first, strict=True):
        run.resume(before.snapshot())
    while not second[0].done:
        [run.advance() for run in second]
    for run, whole in zip(second, through, strict=True):
        assert whole.done
        np.testing.assert_array_equal(run.thetas, whole.thetas)


def test_runs_keep_in_step() -> None:
    runs = ns.Simulation.side_by_side(small_federation(), MODEL, entries()[:2], rounds=6, evaluate_every=2)
    runs[0].advance()
    with pytest.raises(ns.NoshowError, match="keep in step"):
        runs[0].advance()
    with pytest.raises(ns.NoshowError, match="advance it first"):
        runs[1].snapshot()
    runs[1].advance()
    assert runs[0].advance() == runs[1].advance()


def test_time_is_shared_out() -> None:
    runs = ns.Simulation.side_by_side(small_federation(), MODEL, entries()[:2], rounds=2)
    while not runs[0].done:
        [run.advance() for run in runs]
    first, second = (run.history().seconds for run in runs)
    assert 0 < first < 3 * second


def test_unlike_clients_are_refused() -> None:
    unlike = [ns.Entry(ns.algorithms.fedavg(0.1, steps=steps), sampled=2) for steps in (1, 2)]
    with pytest.raises(ns.NoshowError, match="can't be played together"):
        ns.Simulation.side_by_side(small_federation(), MODEL, unlike, rounds=1)


def test_built_in_algorithms_share_their_clients() -> None:
    fedavg, variant, mifa = (
        make(0.1, steps=5) for make in (ns.algorithms.fedavg, ns.algorithms.fedavg_variant, ns.algorithms.mifa)
    )
    assert fedavg.client is variant.client is mifa.client
    assert fedavg.client is not ns.algorithms.fedavg(0.1, steps=6).client
