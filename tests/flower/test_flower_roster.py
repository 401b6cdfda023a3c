"""The roster: who is registered stays registered, and weights and memories follow those who join and leave."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from conftest import small_federation
from flwr.app import ArrayRecord, Message
from numpy_clients import FIRST_NODE, NumpyClient, enrolled, first_model, flat, live

import noshow as ns
from noshow.flower import Roster, Strategy

M = 4


def test_a_roster_outlives_its_process(tmp_path: Path) -> None:
    first = Roster(tmp_path / "deep" / "f.sqlite")
    for client, n in [("b", 3), ("a", 5), ("c", 7)]:
        first.enrol(client, n)
    first.seen_at("a", 2**64 - 1)
    first.enrol("b", 4)
    first.leave("c")
    first.enrol("c", 8)
    again = Roster(tmp_path / "deep" / "f.sqlite")
    assert [(m.client, m.n, m.node) for m in again.members()] == [("b", 4, None), ("a", 5, 2**64 - 1), ("c", 8, None)]
    assert len({m.number for m in again.members()} | {3}) == 4  # who comes back is new: number 3 is gone


def test_a_node_is_one_client(tmp_path: Path) -> None:
    roster = Roster(tmp_path / "f.sqlite")
    roster.enrol("a", 1)
    roster.enrol("b", 1)
    roster.seen_at("a", 7)
    roster.seen_at("b", 7)
    assert [(m.client, m.node) for m in roster.members()] == [("a", None), ("b", 7)]


def test_a_roster_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "clients.csv").write_text("client,n\nhospital-a,120\nhospital-b,30\n")
    roster = Roster(tmp_path / "f.sqlite")
    roster.enrol_file(tmp_path / "clients.csv")
    assert [(m.client, m.n) for m in roster.members()] == [("hospital-a", 120), ("hospital-b", 30)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name,n\na,1\n", "columns client and n"),
        ("client,n\na,many\n", "columns client and n"),
        ("client,n\na,0\n", "1 or"),
    ],
)
def test_a_bad_file_is_told_in_a_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "clients.csv").write_text(text)
    with pytest.raises(ns.NoshowError, match=sentence):
        Roster(tmp_path / "f.sqlite").enrol_file(tmp_path / "clients.csv")


def test_what_is_no_database_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "f.sqlite").write_text("certainly not a database, and longer than a header of one hundred bytes" * 3)
    with pytest.raises(ns.NoshowError, match="cannot be used as a roster"):
        Roster(tmp_path / "f.sqlite")
    with pytest.raises(ns.NoshowError, match="cannot be read"):
        Roster(tmp_path / "g.sqlite").enrol_file(tmp_path / "nowhere.csv")


def test_clients_enter_by_the_handshake(tmp_path: Path) -> None:
    federation = small_federation(M)
    roster = Roster(tmp_path / "f.sqlite")
    strategy = Strategy(server=ns.servers.average(), roster=roster, sampled=M, timeout=2.0, rate=0.1)
    strategy.start(live(federation), first_model(), num_rounds=1)
    entered = {m.client: (m.n, m.node) for m in roster.members()}
    assert entered == {f"client-{i:02}": (int(federation.sizes[i]), FIRST_NODE + i) for i in range(M)}


def test_too_few_clients_are_told_in_a_sentence(tmp_path: Path) -> None:
    strategy = Strategy(server=ns.servers.average(), roster=Roster(tmp_path / "f.sqlite"), sampled=M + 1, timeout=0.3)
    with pytest.raises(ns.NoshowError, match="has 4 clients and 5 are to be sampled"):
        strategy.start(live(small_federation(M)), first_model(), num_rounds=1)


def test_who_is_offline_is_sampled_all_the_same_and_comes_back_at_another_node(tmp_path: Path) -> None:
    federation = small_federation(M)
    grid = live(federation)
    grid.online.discard(FIRST_NODE + 1)

    def restart(t: int, arrays: ArrayRecord) -> None:
        if t == 2:
            grid.nodes[99] = grid.nodes.pop(FIRST_NODE + 1)
            grid.online.add(99)

    strategy = Strategy(
        server=ns.servers.average(),
        roster=enrolled(tmp_path / "f.sqlite", federation),
        sampled=M,
        timeout=0.3,
        rate=0.1,
        trace=tmp_path / "trace.parquet",
    )
    strategy.start(grid, first_model(), 5, evaluate_fn=restart)
    reasons = [e.reason for e in ns.trace.read(tmp_path / "trace.parquet") if e.client == "client-01"]
    assert reasons[:2] == ["unavailable"] * 2
    assert reasons[-1] == ""


def test_joining_and_leaving_move_weights_and_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """MIFA by hand: client 0 leaves after round 2, client 4 joins then with an empty memory, all are sampled."""
    federation = small_federation(M + 1)
    grid = live(federation)
    late = grid.nodes[FIRST_NODE + M]
    grid.online.discard(FIRST_NODE + M)
    roster = Roster(tmp_path / "f.sqlite")
    for i in range(M):
        roster.enrol(f"client-{i:02}", int(federation.sizes[i]))

    def change(t: int, arrays: ArrayRecord) -> None:
        if t == 2:
            roster.leave("client-00")
            roster.enrol("client-04", int(federation.sizes[M]))  # known, and not online yet

    strategy = Strategy(
        server=ns.servers.remember(ns.aggregators.mean()), roster=roster, sampled=M, timeout=0.3, rate=0.1
    )
    with caplog.at_level(logging.INFO, "flwr"):
        got = flat(strategy.start(grid, first_model(), 3, evaluate_fn=change).arrays)
    assert isinstance(late, NumpyClient)

    theta = {"bias": np.zeros(3), "weights": np.zeros((3, 4))}
    memory: dict[int, dict[str, np.ndarray]] = {}
    for t in (1, 2, 3):
        present = range(M) if t < 3 else range(1, M + 1)
        for i in present:
            if i < M:
                z = NumpyClient("", federation.of_client(i), "sgd", 4).sgd(theta, {"rate": 0.1})
                memory[i] = {name: (theta[name] - z[name]) / 0.1 for name in theta}
        total = sum(int(federation.sizes[i]) for i in present)
        theta = {
            name: theta[name] - 0.1 * sum(federation.sizes[i] / total * memory[i][name] for i in present if i in memory)
            for name in theta
        }
    expected = np.concatenate([theta["bias"], theta["weights"].ravel()])
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("client client-00 has left") for line in said)
    assert any(line.startswith("client client-04 has joined") for line in said)


def test_a_node_that_does_not_introduce_itself_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    federation = small_federation(M)
    grid = live(federation)

    def rude(message: Message) -> Message:
        return NumpyClient("", federation.of_client(0), "sgd", 1).reply(message, {})

    grid.nodes[11] = rude
    grid.online.add(11)
    strategy = Strategy(
        server=ns.servers.average(), roster=enrolled(tmp_path / "f.sqlite", federation), sampled=M, timeout=1.0
    )
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.start(grid, first_model(), 3)
    assert sum("node 11 did not say who it is" in record.getMessage() for record in caplog.records) == 1


def test_the_database_is_plain_sqlite(tmp_path: Path) -> None:
    enrolled(tmp_path / "f.sqlite", small_federation(M))
    with sqlite3.connect(tmp_path / "f.sqlite") as database:
        found = database.execute("select client, n from clients where gone is null order by number").fetchall()
    database.close()
    assert found == [(f"client-{i:02}", int(n)) for i, n in enumerate(small_federation(M).sizes)]
