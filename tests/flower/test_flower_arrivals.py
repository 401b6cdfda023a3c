"""Replies are taken as they come: however they come, and whatever is wrong with some, the model is the same bits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import small_federation
from fake_grid import FakeGrid, failed
from flwr.app import Message
from numpy_clients import FIRST_NODE, enrolled, first_model, flat, live

import noshow as ns
from noshow.flower import Roster, Strategy
from noshow.flower.ledger import Ledger

M, ROUNDS = 11, 4
SERVERS: dict[str, ns.Server] = {
    "average": ns.servers.average(),
    "amplify": ns.servers.amplify(),
    "mifa": ns.servers.remember(ns.aggregators.mean()),
    "mifa in bfloat16": ns.servers.remember(ns.aggregators.mean(), memory="bfloat16"),
    "bucketing": ns.servers.remember(ns.aggregators.bucketed(2, ns.aggregators.geometric_median())),
}


def spoilt(reply: Message) -> Message:
    """The reply with NaN in it: it comes as an answer, is taken into sums, and turns out to be none."""
    record = reply.content["arrays"]
    for name, array in record.items():
        values = array.numpy().copy()
        values.flat[0] = np.nan
        record[name] = type(array)(values)
    return reply


def grid_with(delays: Callable[[int], float]) -> FakeGrid:
    """Client 3 raises in round 2, client 5 sends NaN in every round; replies take as long as told."""
    grid = live(small_federation(M))
    well, odd = grid.nodes[FIRST_NODE + 3], grid.nodes[FIRST_NODE + 5]

    def raising(message: Message) -> Message | None:
        is_training = message.metadata.message_type == "train"
        return failed(message, 2) if is_training and message.content["config"]["server-round"] == 2 else well(message)

    def spoiling(message: Message) -> Message | None:
        reply = odd(message)
        return spoilt(reply) if reply is not None and message.metadata.message_type == "train" else reply

    grid.nodes |= {FIRST_NODE + 3: raising, FIRST_NODE + 5: spoiling}
    grid.delay = {FIRST_NODE + i: delays(i) for i in range(M)}
    return grid


def played(server: ns.Server, grid: FakeGrid, file: Path) -> np.ndarray:
    strategy = Strategy(
        server=server, roster=enrolled(file, small_federation(M)), sampled=9, timeout=5.0, rate=0.1, evaluate_every=0
    )
    return flat(strategy.start(grid, first_model(), ROUNDS).arrays)


@pytest.mark.parametrize("name", SERVERS)
def test_the_order_in_which_replies_come_changes_nothing(name: str, tmp_path: Path) -> None:
    ways = {"at once": lambda i: 0.0, "in order": lambda i: 0.02 * i, "the other way": lambda i: 0.02 * (M - i)}
    models = [played(SERVERS[name], grid_with(delays), tmp_path / f"{way}.sqlite") for way, delays in ways.items()]
    assert np.abs(models[0]).max() > 0.01
    for model in models[1:]:
        np.testing.assert_array_equal(model, models[0])


@pytest.mark.parametrize("name", SERVERS)
def test_a_way_of_its_own_is_the_servers_own_step(name: str, tmp_path: Path) -> None:
    def end(server: ns.Server, file: str) -> np.ndarray:
        return played(server, grid_with(lambda i: 0.01 * (7 * i % M)), tmp_path / file)

    plain = SERVERS[name]._replace(linear=False, remembers=None)
    models = [end(SERVERS[name], "own.sqlite"), end(plain, "plain.sqlite")]
    np.testing.assert_allclose(models[0], models[1], rtol=0, atol=1e-6)


def test_a_memory_in_the_form_of_before_is_taken_over(tmp_path: Path) -> None:
    """Rows used to be kept in the table `memory`, by servers that take all replies at once they still are."""
    server = SERVERS["mifa"]
    before = server._replace(remembers=None)

    def play(rule: ns.Server, rounds: int, file: str) -> np.ndarray:
        roster = enrolled(tmp_path / file, small_federation(M)) if rounds == 2 else Roster(tmp_path / file)
        strategy = Strategy(server=rule, roster=roster, sampled=4, timeout=5.0, rate=0.1, evaluate_every=0)
        return flat(strategy.start(live(small_federation(M)), first_model(), rounds).arrays)

    play(before, 2, "old.sqlite")
    play(server, 2, "new.sqlite")
    with sqlite3.connect(tmp_path / "old.sqlite") as database:
        assert database.execute("select count(*) from memory").fetchone()[0] >= 4
    np.testing.assert_allclose(play(server, 5, "old.sqlite"), play(server, 5, "new.sqlite"), rtol=0, atol=1e-6)


def test_what_is_written_ahead_counts_when_its_round_is_closed(tmp_path: Path) -> None:
    roster = Roster(tmp_path / "f.sqlite")
    ledger = Ledger(roster, "run")
    theta = np.zeros(3, np.float32)
    ledger.begin({}, theta, {})

    def read() -> dict[int, list[float]]:
        """As a server would that starts now."""
        kept = Ledger(roster, "run").kept({})
        assert kept is not None
        return {number: np.frombuffer(row, np.float32).tolist() for (_, number), row in kept.memory.items()}

    def write(t: int, number: int, value: float) -> None:
        ledger.rows.write(t, number, np.full(3, value, np.float32))
        ledger.rows.settle()

    write(1, 7, 1.0)
    write(1, 8, 1.5)
    assert read() == {}
    ledger.close_round(1, theta, [7, 8], {}, [7, 8], [], {})
    assert read() == {7: [1.0] * 3, 8: [1.5] * 3}
    write(2, 7, 2.0)
    write(2, 8, np.nan)
    assert read() == {7: [1.0] * 3, 8: [1.5] * 3}, "round 2 is not over"
    write(2, 7, 2.5)
    ledger.close_round(2, theta, [7, 8], {}, [7], [], {})
    assert read() == {7: [2.5] * 3, 8: [1.5] * 3}, "client 8 does not count as heard in round 2"
    write(3, 8, 3.0)
    ledger.close_round(3, theta, [7, 8], {}, [8], [], {})
    assert read() == {7: [2.5] * 3, 8: [3.0] * 3}


def test_rows_of_another_process_are_not_taken_for_ones_own(tmp_path: Path) -> None:
    roster = Roster(tmp_path / "f.sqlite")
    mine, theirs = Ledger(roster, "run"), Ledger(Roster(tmp_path / "f.sqlite"), "run")
    theta = np.zeros(3, np.float32)
    mine.begin({}, theta, {})
    for ledger, value in ((mine, 1.0), (theirs, 2.0)):
        ledger.rows.write(1, 7, np.full(3, value, np.float32))
        ledger.rows.settle()
    with pytest.raises(ns.NoshowError, match="another process plays run 'run' too"):
        mine.close_round(1, theta, [7], {}, [7], [], {})
    theirs.close_round(1, theta, [7], {}, [7], [], {})
    mine.rows.write(1, 7, theta)
    with pytest.raises(ns.NoshowError, match="another process plays run 'run' too"):
        mine.close_round(1, theta, [7], {}, [7], [], {})
