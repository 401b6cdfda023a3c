"""A run in the roster's database: rows written ahead of their round's end, locks, and two who would play one run."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import noshow as ns
from noshow.flower import Roster, ahead, forget, tidying
from noshow.flower.ledger import Ledger


def test_what_is_written_ahead_counts_when_its_round_is_closed(tmp_path: Path) -> None:
    ledger, theta = begun(tmp_path / "f.sqlite")

    def read() -> dict[int, list[float]]:
        """As a server would that starts after a kill now, with a copy of the file."""
        with sqlite3.connect(tmp_path / "f.sqlite") as now, sqlite3.connect(tmp_path / "copy.sqlite") as copy:
            now.backup(copy)
        return kept_rows(tmp_path / "copy.sqlite")

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
    ledger.close_round(4, theta, [7], {}, [], [], {})
    assert read() == {7: [2.5] * 3}, "client 8 has left"


def begun(file: Path) -> tuple[Ledger, np.ndarray]:
    ledger, theta = Ledger(Roster(file), "run"), np.zeros(3, np.float32)
    assert ledger.take_up({}) is None
    ledger.begin({}, theta, {})
    return ledger, theta


def kept_rows(file: Path) -> dict[int, list[float]]:
    kept = Ledger(Roster(file), "run").take_up({})
    assert kept is not None
    return {number: np.frombuffer(row, np.float32).tolist() for (_, number), row in kept.memory.items()}


def test_who_takes_a_run_up_goes_on_and_who_had_it_does_not(tmp_path: Path) -> None:
    mine, theta = begun(tmp_path / "f.sqlite")
    mine.rows.write(1, 7, np.full(3, 1.0, np.float32))
    mine.rows.settle()
    theirs = Ledger(Roster(tmp_path / "f.sqlite"), "run")
    with pytest.raises(ns.NoshowError, match="begun with another sampled"):
        theirs.take_up({"sampled": 3})
    mine.rows.write(1, 8, np.full(3, 1.0, np.float32))
    mine.rows.settle()  # who was refused has not taken it up
    theirs.take_up({})
    theirs.rows.write(1, 7, np.full(3, 2.0, np.float32))
    mine.rows.write(1, 7, np.full(3, 3.0, np.float32))
    with pytest.raises(ns.NoshowError, match="run 'run' was taken up by another process since"):
        mine.close_round(1, theta, [7], {}, [7], [], {})
    theirs.close_round(1, theta, [7], {}, [7], [], {})
    assert kept_rows(tmp_path / "f.sqlite") == {7: [2.0] * 3}


def test_two_who_begin_a_run_do_not_both_go_on(tmp_path: Path) -> None:
    first, second = (Ledger(Roster(tmp_path / "f.sqlite"), "run") for _ in range(2))
    assert first.take_up({}) is None
    assert second.take_up({}) is None
    with pytest.raises(ns.NoshowError, match="taken up by another"):
        first.begin({}, np.zeros(3, np.float32), {})
    second.begin({}, np.ones(3, np.float32), {})


def test_a_lock_in_the_middle_of_a_round_is_waited_out(tmp_path: Path) -> None:
    """What could not be written then is written at the end of the round."""
    roster = Roster(tmp_path / "f.sqlite")
    ledger, theta = begun(tmp_path / "f.sqlite")
    with ledger._roster.transaction() as database:
        database.execute("pragma busy_timeout = 50")
    with closing(sqlite3.connect(roster.path, isolation_level=None)) as other:
        other.execute("begin immediate")
        ledger.rows.write(1, 7, np.full(3, 1.0, np.float32))
        ledger.rows.write(1, 8, np.full(3, 2.0, np.float32))
        with pytest.raises(ns.NoshowError, match="locked"):
            ledger.close_round(1, theta, [7, 8], {}, [7, 8], [], {})
        other.execute("rollback")
    ledger.close_round(1, theta, [7, 8], {}, [7, 8], [], {})
    assert kept_rows(tmp_path / "f.sqlite") == {7: [1.0] * 3, 8: [2.0] * 3}


def test_a_long_lock_is_waited_for_once_and_not_for_every_reply(tmp_path: Path) -> None:
    ledger, theta = begun(tmp_path / "f.sqlite")
    with ledger._roster.transaction() as database:
        database.execute("pragma busy_timeout = 300")
    with closing(sqlite3.connect(tmp_path / "f.sqlite", isolation_level=None)) as other:
        other.execute("begin immediate")
        for number in range(30):
            ledger.rows.write(1, number, np.full(3, number, np.float32))
        started = time.monotonic()
        with pytest.raises(ns.NoshowError, match="locked"):
            ledger.close_round(1, theta, list(range(30)), {}, list(range(30)), [], {})
        assert time.monotonic() - started < 3.0  # a wait for each would be 9 s
        other.execute("rollback")
    ledger.close_round(1, theta, list(range(30)), {}, list(range(30)), [], {})
    assert kept_rows(tmp_path / "f.sqlite") == {number: [float(number)] * 3 for number in range(30)}


def test_who_came_and_left_in_a_round_that_was_never_closed_is_forgotten(tmp_path: Path) -> None:
    ledger, theta = begun(tmp_path / "f.sqlite")
    ledger.rows.write(1, 7, np.full(3, 1.0, np.float32))
    ledger.rows.write(1, 8, np.full(3, 2.0, np.float32))
    ledger.rows.settle()
    again = Ledger(Roster(tmp_path / "f.sqlite"), "run")
    assert again.take_up({}) is not None
    again.rows.write(1, 8, np.full(3, 2.0, np.float32))
    again.close_round(1, theta, [8], {}, [8], [], {})
    with sqlite3.connect(tmp_path / "f.sqlite") as database:
        assert {number for (number,) in database.execute("select number from said")} == {8}


def test_who_had_a_run_taken_away_stops_before_the_next_call(tmp_path: Path) -> None:
    mine, theta = begun(tmp_path / "f.sqlite")
    mine.close_round(1, theta, [7], {}, [], [], {})
    mine.note(1, "evaluate", {"loss": 1.0})
    theirs = Ledger(Roster(tmp_path / "f.sqlite"), "run")
    theirs.take_up({})
    theirs.note(1, "evaluate", {"loss": 2.0})
    for change in (lambda: mine.note(1, "evaluate", {"loss": 3.0}), lambda: mine.amend(1, "client", "late")):
        with pytest.raises(ns.NoshowError, match="taken up by another"):
            change()
    kept = theirs.take_up({})
    assert kept is not None
    assert kept.metrics == {(1, "train"): {}, (1, "evaluate"): {"loss": 2.0}}


def test_a_model_that_sqlite_cannot_hold_is_refused_in_one_sentence(tmp_path: Path) -> None:
    roster = Roster(tmp_path / "f.sqlite")
    ledger = Ledger(roster, "run")
    ledger.take_up({})
    with roster.transaction() as database:
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4000)
    with pytest.raises(ns.NoshowError, match=r"the model has 1,000 numbers that are trained: .* takes 1,000 at most"):
        ledger.begin({}, np.zeros(1000, np.float32), {})


def test_the_log_stays_short_while_rows_are_written_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ahead, tidying):
        monkeypatch.setattr(module, "ENOUGH", 2**20)
    monkeypatch.setattr(tidying, "LONG", 2**22)
    ledger, theta = begun(tmp_path / "f.sqlite")
    row = np.ones(2**16, np.float32)  # a quarter of a megabyte
    for t in range(1, 9):
        for number in range(40):
            ledger.rows.write(t, number, t * row)
        ledger.close_round(t, theta, list(range(40)), {}, list(range(40)), [], {})
    ledger.tidying.wait()
    log = tmp_path / "f.sqlite-wal"
    assert log.stat().st_size < 4 * 2**22  # it would be 100 MB
    kept = Ledger(Roster(tmp_path / "f.sqlite"), "run").take_up({})
    assert kept is not None
    assert all(set(np.frombuffer(piece, np.float32)) == {8.0} for piece in kept.memory.values())
    assert len(kept.memory) == 40


def test_a_log_that_is_all_in_its_place_is_not_cleared_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that is there before it is told of may have been cleared up already."""
    monkeypatch.setattr(tidying, "ENOUGH", 1)
    roster = Roster(tmp_path / "f.sqlite")
    cleared = counted_clearings(monkeypatch)
    tidy = tidying.Tidying(roster.path)
    with tidy.after(10):
        roster.enrol("a", 1)
        with tidy.after(10):  # a second change, whose end begins a clearing of both
            roster.enrol("b", 2)
        tidy.wait()
    tidy.wait()
    assert len(cleared) == 1
    with tidy.after(10):
        roster.enrol("c", 3)
    tidy.wait()
    assert len(cleared) == 2


def counted_clearings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one whenever the log is cleared up by a connection that is opened from now on."""
    cleared: list[str] = []
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def counting(*args: object, **options: object) -> sqlite3.Connection:
        database = connect(*args, **options)
        database.set_trace_callback(lambda line: cleared.append(line) if "wal_checkpoint" in line else None)
        return database

    monkeypatch.setattr(sqlite3, "connect", counting)
    return cleared


class Starting(Future[None]):
    """Work that begins right after it was found not to have begun."""

    def running(self) -> bool:
        found = super().running()
        if not found and not self.done():
            self.set_running_or_notify_cancel()
        return found


def test_no_writing_is_lost_sight_of_when_it_begins_meanwhile(tmp_path: Path) -> None:
    ledger, _ = begun(tmp_path / "f.sqlite")
    starting = Starting()
    ledger.rows._writes = [starting]
    ledger.rows.write(1, 7, np.full(3, 1.0, np.float32))
    assert starting in ledger.rows._writes
    starting.set_result(None)
    ledger.rows.settle()
    with sqlite3.connect(tmp_path / "f.sqlite") as database:
        assert database.execute("select number from said").fetchall() == [(7,)]


def test_the_log_of_a_small_model_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite writes whole pages: a round of a few bytes takes hundreds of thousands in the log."""
    monkeypatch.setattr(tidying, "ENOUGH", 2**23)
    ledger, theta = begun(tmp_path / "f.sqlite")
    for t in range(1, 201):
        ledger.close_round(t, theta, [7], {}, [7], [], {})
        ledger.note(t, "evaluate", {"loss": 1.0})
        ledger.tidying.wait()
    assert (tmp_path / "f.sqlite-wal").stat().st_size < 2**24  # it would be 60 MB


def test_a_run_that_is_forgotten_is_gone_and_others_stay(tmp_path: Path) -> None:
    roster = Roster(tmp_path / "f.sqlite")
    for run in ("first", "second"):
        ledger = Ledger(roster, run)
        ledger.take_up({})
        ledger.begin({}, np.zeros(3, np.float32), {})
        ledger.rows.write(1, 7, np.full(3, 1.0, np.float32))
        ledger.close_round(1, np.ones(3, np.float32), [7], {}, [7], [], {})
    forget(roster, "first")
    with roster.transaction() as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        found = {
            run
            for table in tables
            if "run" in [column for _, column, *_ in database.execute(f"pragma table_info({table})")]
            for (run,) in database.execute(f"select run from {table}")
        }
    assert found == {"second"}
    assert Ledger(roster, "first").take_up({}) is None
    with pytest.raises(ns.NoshowError, match="has no run 'first': give one that it has"):
        forget(roster, "first")
