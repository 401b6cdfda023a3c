"""The roster: who is registered stays registered, and weights and memories follow those who join and leave."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import small_federation
from fake_grid import FakeGrid, Node, failed
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from numpy_clients import FIRST_NODE, NumpyClient, adding, enrolled, first_model, flat, live, model_of

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
        ("client,n\na,many\n", r"line 2 of .*clients.csv: n is 'many': give a whole number, 1 or more"),
        ("client,n\na,12.5\n", r"line 2 of .*: n is '12.5'"),
        ("client,n\na,\n", r"line 2 of .*: n is ''"),
        ("client,n\na,0\n", "1 or"),
        ("client,n\nb,5\na,0\n", "1 or"),
        ("client,n\nb,5\n\na,1,200\n", "line 4 of .* has 3 cells: give 2, one a column"),
        ("client,n\na,5\n a ,7\n", "line 3 of .* names 'a' once more"),
        ("client,n\n", "names no clients"),
        ("", "first line must name the columns"),
        (f"client,n\n{'a' * 200_000},1\n", "cannot be read: field larger"),
    ],
)
def test_a_bad_file_is_told_in_a_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "clients.csv").write_text(text)
    roster = Roster(tmp_path / "f.sqlite")
    with pytest.raises(ns.NoshowError, match=sentence):
        roster.enrol_file(tmp_path / "clients.csv")
    assert roster.members() == []


def test_a_file_of_another_encoding_is_told(tmp_path: Path) -> None:
    (tmp_path / "clients.csv").write_bytes("client,n\nMünchen,5\n".encode("latin-1"))
    with pytest.raises(ns.NoshowError, match="cannot be read: 'utf-8' codec"):
        Roster(tmp_path / "f.sqlite").enrol_file(tmp_path / "clients.csv")


def test_spaces_around_a_name_are_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "clients.csv").write_text("n, client\n5, a \n")
    roster = Roster(tmp_path / "f.sqlite")
    roster.enrol_file(tmp_path / "clients.csv")
    assert [(m.client, m.n) for m in roster.members()] == [("a", 5)]


def test_a_roster_serves_other_threads_than_its_own(tmp_path: Path) -> None:
    roster = Roster(tmp_path / "f.sqlite")
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(roster.enrol, f"client-{number}", 5) for number in range(40)]:
            done.result()
    assert len(roster.members()) == 40


def test_a_spreadsheets_file_and_numpys_numbers_are_taken(tmp_path: Path) -> None:
    (tmp_path / "clients.csv").write_text("client,n\na,120\n", encoding="utf-8-sig")
    roster = Roster(tmp_path / "f.sqlite")
    roster.enrol_file(tmp_path / "clients.csv")
    roster.enrol("b", np.int64(1200))  # type: ignore[arg-type]
    assert [(m.client, m.n) for m in roster.members()] == [("a", 120), ("b", 1200)]
    with pytest.raises(ns.NoshowError, match=r"'c' has 1\.5 examples: give a whole number"):
        roster.enrol("c", 1.5)  # type: ignore[arg-type]
    numbers: Any = {"sampled": np.int64(2), "seed": np.int64(3), "evaluate_every": np.int32(0)}
    strategy = Strategy(server=ns.servers.average(), roster=roster, timeout=1.0, **numbers)
    strategy.start(FakeGrid({1: adding("a", 120), 2: adding("b", 1200)}), model_of(w=np.zeros(1)), 1)
    with pytest.raises(ns.NoshowError, match=r"sampled is 2\.5: give a whole number"):
        Strategy(server=ns.servers.average(), roster=roster, sampled=2.5, timeout=1.0)  # type: ignore[arg-type]


def changing(folder: Path, nodes: dict[int, Node], change: Callable[[Roster], None]) -> list[tuple[int, str, int, str]]:
    """Six rounds of everybody, and a change of the roster after the second: who was called, with what n, what of it."""
    roster = Roster(folder / "f.sqlite")

    def act(t: int, arrays: ArrayRecord) -> None:
        if t == 2:
            change(roster)

    strategy = Strategy(
        server=ns.servers.average(),
        roster=roster,
        sampled=len(nodes),
        timeout=0.3,
        evaluate_every=0,
        trace=folder / "trace.parquet",
    )
    strategy.start(FakeGrid(nodes), model_of(w=np.zeros(1)), 6, evaluate_fn=act)
    return [(e.round, e.client, e.n, e.reason) for e in ns.trace.read(folder / "trace.parquet")]


def test_who_is_taken_off_and_enrolled_again_is_found_at_its_node(tmp_path: Path) -> None:
    def change(roster: Roster) -> None:
        roster.leave("b")
        roster.enrol("b", 25)

    calls = changing(tmp_path, {1: adding("a", 10), 2: adding("b", 10)}, change)
    assert sorted(calls)[-2:] == [(6, "a", 10, ""), (6, "b", 25, "")]


def test_a_client_under_another_name_is_found_at_its_node(tmp_path: Path) -> None:
    names = {2: "b"}

    def change(roster: Roster) -> None:
        roster.leave("b")
        names[2] = "new"
        roster.enrol("new", 20)

    calls = changing(tmp_path, {1: adding("a", 10), 2: lambda m: adding(names[2], 10)(m)}, change)
    assert sorted(calls)[-2:] == [(6, "a", 10, ""), (6, "new", 20, "")]


def test_who_was_taken_off_stays_off_when_the_server_starts_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = {1: adding("a", 10), 2: adding("b", 10)}
    changing(tmp_path, nodes, lambda roster: roster.leave("b"))
    roster = Roster(tmp_path / "f.sqlite")
    strategy = Strategy(server=ns.servers.average(), roster=roster, sampled=2, timeout=0.3, evaluate_every=0)
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.start(FakeGrid(nodes), model_of(w=np.zeros(1)), 8)
    assert [member.client for member in roster.members()] == ["a"]
    assert "client b, at node 2, was taken off the roster: enrol it to let it in again" in caplog.messages


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

    def counts_in_floats(message: Message) -> Message:
        said = ConfigRecord({"client": "x", "num-examples": 1200.0})
        return Message(RecordDict({"roster": said}), reply_to=message)

    def counts_truth(message: Message) -> Message:
        return Message(RecordDict({"roster": ConfigRecord({"client": "y", "num-examples": True})}), reply_to=message)

    grid.nodes |= {11: lambda message: failed(message, 2), 12: counts_in_floats, 13: counts_truth}
    grid.online |= {11, 12, 13}
    strategy = Strategy(
        server=ns.servers.average(), roster=enrolled(tmp_path / "f.sqlite", federation), sampled=M, timeout=1.0
    )
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.start(grid, first_model(), 3)
    told = [record.getMessage() for record in caplog.records]
    assert sum("node 11 did not say who it is: its app needs a function" in line for line in told) == 1
    assert sum("'num-examples': 1200.0}]: its app must answer with" in line for line in told) == 1
    assert sum("'num-examples': True}]: its app must answer with" in line for line in told) == 1


def test_a_client_is_found_again_at_another_node_that_said_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nodes 1 and 2 both say that they are a; when the one that counts is gone, the other serves."""
    grid = FakeGrid({1: adding("a", 10), 2: adding("a", 10), 3: adding("b", 10)})

    def act(t: int, arrays: ArrayRecord) -> None:
        if t == 2:
            grid.online.discard(2)

    strategy = Strategy(
        server=ns.servers.average(), roster=Roster(tmp_path / "f.sqlite"), sampled=2, timeout=0.5, evaluate_every=0
    )
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.start(grid, model_of(w=np.zeros(1)), 4, evaluate_fn=act)
    told = [record.getMessage() for record in caplog.records]
    assert sum("node 2 now, and was at node 1, still online: give every client a name" in line for line in told) == 1
    assert "client a is found again, at node 1" in told
    assert [line.partition("silent ")[2] for line in told if line.startswith("round ")] == ["nobody"] * 4


def test_a_run_goes_on_when_another_federation_has_written_its_nodes_into_the_file(tmp_path: Path) -> None:
    """Without a round of its own that waits for ever: the nodes are online, and said who they are."""

    def act(t: int, arrays: ArrayRecord) -> None:
        if t == 1:
            for client in ("a", "b"):
                Roster(tmp_path / "f.sqlite").seen_at(client, 100 + ord(client))

    grid = FakeGrid({1: adding("a", 10), 2: adding("b", 10)})
    strategy = Strategy(
        server=ns.servers.average(), roster=Roster(tmp_path / "f.sqlite"), sampled=2, timeout=5.0, evaluate_every=0
    )
    result = strategy.start(grid, model_of(w=np.zeros(1)), 3, evaluate_fn=act)
    assert flat(result.arrays).tolist() == [3.0]


def test_what_changes_on_the_roster_is_told_though_the_server_is_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    roster = Roster(tmp_path / "f.sqlite")
    grid = FakeGrid({1: adding("a", 10), 2: adding("b", 10)})

    def start(rounds: int) -> None:
        own = Strategy(server=ns.servers.average(), roster=roster, sampled=2, timeout=1.0, evaluate_every=0)
        own.start(grid, model_of(w=np.zeros(1)), rounds, evaluate_fn=act)

    def act(t: int, arrays: ArrayRecord) -> None:
        if t == 2:
            roster.enrol("c", 40)

    start(1)
    roster.leave("b")
    roster.enrol("c", 30)
    grid.online.discard(2)
    with caplog.at_level(logging.INFO, "flwr"):
        start(3)
    told = [record.getMessage() for record in caplog.records]
    assert "client b has left with its 10 examples" in told
    assert "client c has joined with 30 examples" in told
    assert "client c has 40 examples now, and had 30" in told
    assert not any(line.startswith("client a has") for line in told)


def test_the_database_is_plain_sqlite(tmp_path: Path) -> None:
    enrolled(tmp_path / "f.sqlite", small_federation(M))
    with sqlite3.connect(tmp_path / "f.sqlite") as database:
        found = database.execute("select client, n from clients where gone is null order by number").fetchall()
    database.close()
    assert found == [(f"client-{i:02}", int(n)) for i, n in enumerate(small_federation(M).sizes)]
