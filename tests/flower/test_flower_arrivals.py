"""Replies are taken as they come: however they come, and whatever is wrong with some, the model is the same bits."""

from __future__ import annotations

import gc
import sqlite3
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import small_federation
from fake_grid import FakeGrid, failed
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from numpy_clients import FIRST_NODE, adding, enrolled, first_model, flat, live, model_of

import noshow as ns
from noshow.flower import Roster, Strategy
from noshow.flower.faults import rehearse
from noshow.flower.ways import Recalling

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


def unmarked(server: ns.Server) -> ns.Server:
    """The same rule, of which nothing is known but its step."""
    return server._replace(step=lambda *parts: server.step(*parts), linear=False)


@pytest.mark.parametrize("name", SERVERS)
def test_a_way_of_its_own_is_the_servers_own_step(name: str, tmp_path: Path) -> None:
    def end(server: ns.Server, file: str) -> np.ndarray:
        return played(server, grid_with(lambda i: 0.01 * (7 * i % M)), tmp_path / file)

    models = [end(SERVERS[name], "own.sqlite"), end(unmarked(SERVERS[name]), "plain.sqlite")]
    np.testing.assert_allclose(models[0], models[1], rtol=0, atol=1e-6)


def test_a_memory_in_the_form_of_before_is_taken_over(tmp_path: Path) -> None:
    """Rows used to be kept in the table `memory`, by servers that take all replies at once they still are."""
    server = SERVERS["mifa"]
    before = unmarked(server)

    def play(rule: ns.Server, rounds: int, file: str) -> np.ndarray:
        roster = enrolled(tmp_path / file, small_federation(M)) if rounds == 2 else Roster(tmp_path / file)
        strategy = Strategy(server=rule, roster=roster, sampled=4, timeout=5.0, rate=0.1, evaluate_every=0)
        return flat(strategy.start(live(small_federation(M)), first_model(), rounds).arrays)

    play(before, 2, "old.sqlite")
    play(server, 2, "new.sqlite")
    with sqlite3.connect(tmp_path / "old.sqlite") as database:
        assert database.execute("select count(*) from memory").fetchone()[0] >= 4
    np.testing.assert_allclose(play(server, 5, "old.sqlite"), play(server, 5, "new.sqlite"), rtol=0, atol=1e-6)


def test_a_rule_of_ones_own_takes_over_what_was_kept_row_by_row(tmp_path: Path) -> None:
    """It may change rows of those who are silent, and be left and taken up again: the rows are those it made."""
    ours = ns.servers.remember(ns.aggregators.mean())

    def fading(state: Any, theta: Any, replies: ns.Replies, rate: Any) -> Any:
        return ours.step(0.5 * state, theta, replies, rate)

    def play(server: ns.Server, rounds: int, file: str) -> np.ndarray:
        roster = Roster(tmp_path / file)
        strategy = Strategy(server=server, roster=roster, sampled=4, timeout=5.0, rate=0.1, evaluate_every=0)
        return flat(strategy.start(live(small_federation(M)), first_model(), rounds).arrays)

    faded = ours._replace(step=fading)
    ends = []
    for file, first in (("rows.sqlite", ours), ("whole.sqlite", unmarked(ours))):
        enrolled(tmp_path / file, small_federation(M))
        play(first, 3, file)
        play(faded, 4, file)
        play(faded, 5, file)
        ends.append([play(first, 7, file), play(faded, 8, file)])
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-6)


class Halving(Strategy):
    """Changes what replies hold, as strategies that clip or decrypt do."""

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        mine = list(replies)
        for reply in mine:
            record = reply.content["arrays"]
            for name, array in record.items():
                record[name] = Array(0.5 * array.numpy())
        return super().aggregate_train(server_round, mine)


def test_what_a_strategy_around_makes_of_replies_is_what_counts(tmp_path: Path) -> None:
    grid = FakeGrid({1: adding("a", 10), 2: adding("b", 10)})
    strategy = Halving(
        server=ns.servers.average(), roster=Roster(tmp_path / "f.sqlite"), sampled=2, timeout=5.0, evaluate_every=0
    )
    # Each client adds 1 to the model: half of (0 + 1), then half of (0.5 + 1).
    assert flat(strategy.start(grid, model_of(w=np.zeros(2)), 2).arrays).tolist() == [0.75, 0.75]


def test_a_round_that_is_not_the_next_is_refused(tmp_path: Path) -> None:
    strategy = Strategy(
        server=SERVERS["mifa"], roster=enrolled(tmp_path / "f.sqlite", small_federation(M)), sampled=4, timeout=5.0
    )
    grid = live(small_federation(M))
    strategy.start(grid, first_model(), 2)
    with pytest.raises(ns.NoshowError, match="round 1 is asked for, and run 'run' is at round 3"):
        strategy.configure_train(1, first_model(), ConfigRecord(), grid)


def test_who_has_left_is_forgotten(tmp_path: Path) -> None:
    """Neither memory nor file grows with those who come and go."""
    roster = Roster(tmp_path / "f.sqlite")
    strategy = Strategy(server=SERVERS["mifa"], roster=roster, sampled=3, timeout=5.0, rate=0.1, evaluate_every=0)
    for t in range(1, 7):
        for member in roster.members():
            roster.leave(member.client)
        grid = FakeGrid({10 * t + i: adding(f"client {t}-{i}", 10) for i in range(3)})
        strategy.start(grid, model_of(w=np.zeros(2)), t)
    here = {member.number for member in roster.members()}
    with sqlite3.connect(roster.path) as database:
        for table in ("said", "heard"):
            assert {number for (number,) in database.execute(f"select number from {table}")} == here
    assert len(here) == 3
    assert strategy._session is not None
    assert strategy._session.heard.keys() == here
    assert isinstance(strategy._session._way, Recalling)
    assert strategy._session._way._recollection._rows.keys() == here


def test_overflows_are_told_by_reasons_and_not_by_warnings(tmp_path: Path) -> None:
    """Sums are worked out in threads, each of which would warn for itself."""
    grid = FakeGrid({1: adding("a", 10, 3e38), 2: adding("b", 10, -3e38), 3: adding("c", 10, 3e38)})
    strategy = Strategy(
        server=SERVERS["mifa"], roster=Roster(tmp_path / "f.sqlite"), sampled=3, timeout=5.0, rate=0.1, evaluate_every=0
    )
    first = model_of(w=np.zeros(2**19, np.float32))
    assert not flat(strategy.start(grid, first, 1).arrays).any()


def test_a_run_does_not_go_back_where_two_strategies_play_it_in_turn(tmp_path: Path) -> None:
    """A rehearsal is a copy of its strategy and plays the same run; each has its own idea of where that is."""
    strategy = Strategy(
        server=SERVERS["mifa"],
        roster=enrolled(tmp_path / "f.sqlite", small_federation(M)),
        sampled=4,
        timeout=5.0,
        rate=0.1,
        evaluate_every=0,
        trace=tmp_path / "trace.parquet",
    )
    rehearsed = rehearse(strategy, ns.adversaries.nobody(), epsilon=0.5)
    grid = live(small_federation(M))
    rehearsed.start(grid, first_model(), 1)
    strategy.start(grid, first_model(), 3)
    with pytest.raises(ns.NoshowError, match="round 2 of run 'run' is over, and the run is elsewhere"):
        rehearsed.start(grid, first_model(), 3)
    strategy.start(grid, first_model(), 4)
    assert [entry.round for entry in ns.trace.read(tmp_path / "trace.parquet")] == [
        t for t in (1, 2, 3, 4) for _ in "four"
    ]


def test_a_memory_in_the_form_of_before_is_kept_once(tmp_path: Path) -> None:
    roster = enrolled(tmp_path / "f.sqlite", small_federation(M))

    def play(rule: ns.Server, rounds: int) -> None:
        strategy = Strategy(server=rule, roster=roster, sampled=M, timeout=5.0, rate=0.1, evaluate_every=0)
        strategy.start(live(small_federation(M)), first_model(), rounds)

    play(unmarked(SERVERS["mifa"]), 1)
    play(SERVERS["mifa"], 2)
    with sqlite3.connect(roster.path) as database:
        assert database.execute("select count(*) from memory").fetchone() == (0,)
        assert database.execute("select count(*) from said").fetchone() == (M,)


def test_replies_of_one_round_are_gone_when_the_next_is_played(tmp_path: Path) -> None:
    alive: list[weakref.ref[Message]] = []
    counts: list[int] = []
    node = adding("a", 10)

    def watched(message: Message) -> Message | None:
        if message.metadata.message_type == "train":
            gc.collect()
            counts.append(sum(seen() is not None for seen in alive))
        reply = node(message)
        if reply is not None and message.metadata.message_type == "train":
            alive.append(weakref.ref(reply))
        return reply

    strategy = Strategy(
        server=SERVERS["mifa"], roster=Roster(tmp_path / "f.sqlite"), sampled=1, timeout=5.0, evaluate_every=0
    )
    strategy.start(FakeGrid({1: watched}), model_of(w=np.zeros(2)), 3)
    assert counts == [0, 0, 0]
