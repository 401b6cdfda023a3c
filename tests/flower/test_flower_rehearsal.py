"""An adversary between a strategy and its replies: whom it silences, against the simulator and plain NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message
from flwr.serverapp.strategy import FedAvg
from moving_nodes import FIRST_NODE, Nodes, model

import noshow as ns
from noshow import trace
from noshow.flower import Roster, Strategy
from noshow.flower.faults import rehearse
from noshow.trace import Trace


def one_hot(client: int, t: int) -> np.ndarray:
    """The larger its number, the farther a client moves, each along its own axis."""
    return (client + 1.0) * np.eye(6)[client]


def test_around_flowers_own_fedavg() -> None:
    """Six clients alike, epsilon = 0.5: the three that move farthest are gone, and the others are averaged."""
    plain = FedAvg()
    result = rehearse(plain, ns.adversaries.largest_reply(), epsilon=0.5).start(
        Nodes(6, one_hot), model(*[0.0] * 6), num_rounds=1
    )
    np.testing.assert_allclose(result.arrays["w"].numpy(), np.array([1, 2, 3, 0, 0, 0]) / 3, rtol=1e-6)
    untouched = plain.start(Nodes(6, one_hot), model(*[0.0] * 6), num_rounds=1)
    np.testing.assert_allclose(untouched.arrays["w"].numpy(), np.arange(1, 7) / 6, rtol=1e-6)


def test_who_is_missing_anyway_counts_first_and_one_reply_always_passes() -> None:
    nodes = Nodes(6, one_hot)
    nodes.dead = {0, 1}
    strategy = rehearse(FedAvg(), ns.adversaries.largest_reply(), epsilon=0.5)
    moved = strategy.start(nodes, model(*[0.0] * 6), num_rounds=1).arrays["w"].numpy()
    np.testing.assert_allclose(moved, np.array([0, 0, 3, 4, 5, 0]) / 3, rtol=1e-6)
    nodes.dead = {0, 1, 2, 3, 4}
    alone = strategy.start(nodes, model(*[0.0] * 6), num_rounds=1).arrays["w"].numpy()
    np.testing.assert_allclose(alone, [0, 0, 0, 0, 0, 6], rtol=1e-6)


def live(folder: Path, adversary: ns.Adversary, nodes: Nodes, sampled: int, rounds: int, **settings: Any) -> Trace:
    """The roll call of a rehearsed run of noshow's strategy."""
    roster = Roster(folder / "federation.sqlite")
    for client, n in enumerate(nodes.sizes):
        roster.enrol(f"site-{client}", n)
    strategy = Strategy(server=ns.servers.average(), roster=roster, sampled=sampled, timeout=0.3, seed=7)
    rehearsed = rehearse(strategy, adversary, roster=roster, seed=7, **settings)
    rehearsed.start(nodes, model(*[0.0] * 6), num_rounds=rounds)
    rehearsed.record(folder / "recorded.parquet")
    recorded = trace.read(folder / "recorded.parquet")
    trace.write(folder / "live.parquet", recorded, sampled, [f"site-{client}" for client in range(len(nodes.sizes))])
    return trace.read(folder / "live.parquet")


SIZES = [40, 10, 30, 90, 20, 60, 50, 80, 70, 15]


def simulated(adversary: ns.Adversary, epsilon: float | None = None) -> ns.History:
    """Eight rounds of ten clients of these sizes, four of them sampled in each."""
    data = [(np.zeros((n, 2), np.float32), np.zeros(n, np.int32)) for n in SIZES]
    return ns.simulate(
        ns.Federation.from_clients(data, test=data[0]),
        ns.models.logistic(features=2, classes=2),
        ns.algorithms.fedavg(0.1, steps=1),
        adversary,
        sampled=4,
        rounds=8,
        epsilon=epsilon,
        seeds=(7,),
    )


@pytest.mark.parametrize(
    ("adversary", "epsilon"),
    [
        (ns.adversaries.random_response([0.2, 0.5, 0.9, 0.4, 0.6] * 2), None),
        (ns.Adversary(lambda state, key, scene: 0.0 * scene.sizes, name="anybody"), 0.6),
    ],
)
def test_the_adversary_silences_whom_it_silences_in_the_simulator(
    adversary: ns.Adversary, epsilon: float | None, tmp_path: Path
) -> None:
    """The same seed, clients and law: the roll calls of the live run and of the simulation are one."""
    history = simulated(adversary, epsilon)
    nodes = Nodes(10, lambda client, t: np.full(6, 0.01), SIZES)
    settings = {} if epsilon is None else {"epsilon": epsilon}
    called = live(tmp_path, adversary, nodes, sampled=4, rounds=8, **settings)
    call = history.roll_call
    assert [entry.client for entry in called] == [f"site-{i}" for i in call.sampled.ravel()]
    assert called.answered.tolist() == call.answered.ravel().tolist()
    assert 0 < called.answered.mean() < 1
    assert {entry.reason for entry in called if entry.status == "silent"} == {"timeout"}


def test_a_live_run_is_replayed_in_the_simulator(tmp_path: Path) -> None:
    """Nodes are gone for good, another is silenced now and then; the simulator then sees the same roll call."""
    nodes = Nodes(10, lambda client, t: np.full(6, 0.01), SIZES)
    roster = Roster(tmp_path / "federation.sqlite")
    for client, n in enumerate(SIZES):
        roster.enrol(f"site-{client}", n)
        roster.seen_at(f"site-{client}", FIRST_NODE + client)
    nodes.dead = {3, 8}
    called = live(tmp_path, ns.adversaries.random_response([1.0] * 5 + [0.5] * 5), nodes, sampled=4, rounds=8)
    call = simulated(ns.adversaries.replay(tmp_path / "live.parquet")).roll_call
    assert [f"site-{i}" for i in call.sampled.ravel()] == [entry.client for entry in called]
    assert call.answered.ravel().tolist() == called.answered.tolist()
    assert {3, 8} <= set(call.sampled[~call.answered].tolist()) - {0, 1, 2, 4}


def test_the_law_goes_by_the_rosters_examples(tmp_path: Path) -> None:
    """Every client is sampled; largest w_i |displacement| first, if its n_i still fits, as plain Python does it."""
    rng = np.random.default_rng(0)
    moves = rng.normal(size=(4, 10, 6)) * 0.1
    nodes = Nodes(10, lambda client, t: moves[t - 1, client], SIZES)
    called = live(tmp_path, ns.adversaries.largest_reply(), nodes, sampled=10, rounds=4, epsilon=0.4)
    for t in range(4):
        room, silenced = 0.4 * sum(SIZES), set()
        for client in sorted(range(10), key=lambda i: -SIZES[i] * np.linalg.norm(moves[t, i])):
            if SIZES[client] <= room:
                room -= SIZES[client]
                silenced.add(f"site-{client}")
        found = {entry.client for entry in called if entry.round == t + 1 and entry.status == "silent"}
        assert found == silenced


def test_replies_that_are_gradients_are_ranked_as_they_are(tmp_path: Path) -> None:
    """The larger the gradient the sooner it is gone, wherever the model is."""

    class Gradients(Nodes):
        def reply(self, client: int, message: Message) -> Message:
            reply = super().reply(client, message)
            if message.metadata.message_type == "train":
                reply.content["arrays"] = model(*one_hot(client, 1))
            return reply

    nodes = Gradients(6, one_hot, [10] * 6)
    roster = Roster(tmp_path / "federation.sqlite")
    server = ns.servers.remember(ns.aggregators.mean())
    strategy = Strategy(server=server, roster=roster, sampled=6, timeout=0.3, rate=1.0, sends="gradient")
    rehearsed = rehearse(strategy, ns.adversaries.largest_reply(), epsilon=0.5, roster=roster)
    start = np.array([0.0, 0, 0, 9, 9, 9])
    moved = rehearsed.start(nodes, model(*start), num_rounds=1).arrays["w"].numpy()
    np.testing.assert_allclose(moved, start - np.array([1, 2, 3, 0, 0, 0]) / 6, rtol=1e-6)


def test_nodes_that_are_not_on_the_roster_always_pass(tmp_path: Path) -> None:
    roster = Roster(tmp_path / "federation.sqlite")
    for client in range(3):
        roster.enrol(f"site-{client}", 10)
        roster.seen_at(f"site-{client}", FIRST_NODE + client)
    nobody_answers = ns.adversaries.random_response(0.0)
    strategy = rehearse(FedAvg(), nobody_answers, roster=roster)
    moved = strategy.start(Nodes(6, one_hot), model(*[0.0] * 6), num_rounds=1).arrays["w"].numpy()
    np.testing.assert_allclose(moved, np.array([0, 0, 0, 4, 5, 6]) / 3, rtol=1e-6)


def test_a_roster_that_knows_none_of_the_nodes_is_told(tmp_path: Path) -> None:
    roster = Roster(tmp_path / "federation.sqlite")
    strategy = rehearse(FedAvg(), ns.adversaries.largest_reply(), epsilon=0.6, roster=roster)
    with pytest.raises(ns.NoshowError, match=r"nobody is on the roster of .*: enrol clients"):
        strategy.configure_train(1, model(*[0.0] * 6), ConfigRecord(), Nodes(6, one_hot))
    roster.enrol("site-0", 10)
    with pytest.raises(ns.NoshowError, match="no node that is called is one of the roster's"):
        strategy.configure_train(1, model(*[0.0] * 6), ConfigRecord(), Nodes(6, one_hot))


def test_the_worst_case_is_the_worst_of_all_sets(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    moves = rng.normal(size=(6, 6))
    sizes = [10, 20, 30, 40, 50, 60]
    called = live(
        tmp_path,
        ns.adversaries.worst_case(),
        Nodes(6, lambda client, t: moves[client], sizes),
        sampled=6,
        rounds=1,
        epsilon=0.5,
    )
    allowed = [
        members
        for members in ([i for i in range(6) if code >> i & 1] for code in range(63))
        if sum(sizes[i] for i in members) <= 0.5 * sum(sizes)
    ]
    worst = max(allowed, key=lambda members: np.linalg.norm(sum((sizes[i] * moves[i] for i in members), np.zeros(6))))
    assert {entry.client for entry in called if entry.status == "silent"} == {f"site-{i}" for i in worst}


def test_what_cannot_be_rehearsed_is_refused() -> None:
    with pytest.raises(ns.NoshowError, match="'largest_reply' acts under the law: give epsilon"):
        rehearse(FedAvg(), ns.adversaries.largest_reply())
    with pytest.raises(ns.NoshowError, match=r"epsilon is 1\.5: give a number from 0"):
        rehearse(FedAvg(), ns.adversaries.largest_reply(), epsilon=1.5)
    with pytest.raises(ns.NoshowError, match="'random_response' acts with the law off: leave epsilon out"):
        rehearse(FedAvg(), ns.adversaries.random_response(0.5), epsilon=0.5)
    with pytest.raises(ns.NoshowError, match="'least_progress' needs the gradient over everybody's data"):
        rehearse(FedAvg(), ns.adversaries.least_progress(), epsilon=0.5)
    with pytest.raises(ns.NoshowError, match="sends is 'grad': give 'model' or 'gradient'"):
        rehearse(FedAvg(), ns.adversaries.random_response(0.5), sends="grad")  # type: ignore[arg-type]
    shadow = ns.adversaries.shadow(ns.algorithms.fedavg(0.1), ns.algorithms.cclip(0.1), candidates=(1, 1))
    with pytest.raises(ns.NoshowError, match="'live federation' cannot draw"):
        rehearse(FedAvg(), shadow, epsilon=0.5).start(Nodes(6, one_hot), model(*[0.0] * 6), num_rounds=1)


@pytest.mark.parametrize(("size", "expected"), [(100, 0.5), (2_000_000_000, 0.5)])
def test_who_is_at_no_node_uses_up_the_law_first(size: int, expected: float, tmp_path: Path) -> None:
    """Three of six were never seen: with epsilon = 0.5 nobody else may be silenced, whatever n_i is."""
    roster = Roster(tmp_path / "f.sqlite")
    for client in range(6):
        roster.enrol(f"site-{client}", size)
    nodes = Nodes(3, lambda client, t: np.ones(1) * (client + 1), [size] * 3)
    own = Strategy(
        server=ns.servers.average(),
        roster=roster,
        sampled=6,
        timeout=0.3,
        evaluate_every=0,
        trace=tmp_path / "t.parquet",
    )
    rehearsed = rehearse(own, ns.adversaries.largest_reply(), epsilon=0.5, roster=roster)
    rehearsed.start(nodes, ArrayRecord({"w": Array(np.zeros(1, np.float32))}), 1)
    assert trace.summarise(trace.read(tmp_path / "t.parquet")).largest_epsilon_t == expected
