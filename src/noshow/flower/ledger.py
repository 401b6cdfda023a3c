"""A run in the roster's database: model, memory, metrics and the roll call, one whole round after the other."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array

from noshow.errors import require
from noshow.flower import ahead, player
from noshow.flower.memory import raw
from noshow.flower.player import Player
from noshow.flower.roster import Roster
from noshow.flower.tidying import Tidying
from noshow.trace import Entry

_TABLES = f"""
{ahead.TABLE};
{player.TABLE};
create table if not exists runs (run text primary key, settings text, round integer, theta blob, members text);
create table if not exists memory (run text, array integer, number integer, piece blob,
    primary key (run, array, number));
create table if not exists heard (run text, number integer, round integer, primary key (run, number)) without rowid;
create table if not exists metrics (run text, round integer, kind text, metrics text,
    primary key (run, round, kind)) without rowid;
create table if not exists fixed (run text, name text, dtype text, shape text, stype text, data blob,
    primary key (run, name));
create table if not exists roll_call (run text, round integer, place integer, client text, status text, reason text,
    n integer, time text, primary key (run, round, place)) without rowid;
"""

Metrics = Mapping[str, Any]


class Kept(NamedTuple):
    """A run as it was after its last whole round: `members` are those whom the memory is of, `fixed` the arrays that
    are not trained, and `heard` each client's last round with an answer."""

    round: int
    theta: np.ndarray
    members: list[int]
    memory: dict[tuple[int, int], bytes]
    fixed: dict[str, Array]
    heard: dict[int, int]
    metrics: dict[tuple[int, str], Metrics]


def forget(roster: Roster, run: str) -> None:
    """Remove a run from the roster's file, when nobody plays it: its model, memory, metrics and roll call.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     forget(Roster(f"{folder}/federation.sqlite"), "third")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        noshow.errors.NoshowError: ...federation.sqlite has no run 'third': give one that it has
    """
    Ledger(roster, run).forget()


class Ledger:
    """One run's pages.

    Example:
        >>> import tempfile, numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = Ledger(Roster(f"{folder}/federation.sqlite"), "first")
        ...     _ = ledger.take_up({"sampled": 2}) or ledger.begin({"sampled": 2}, np.zeros(3, np.float32), {})
        ...     ledger.take_up({"sampled": 2}).round
        0
    """

    def __init__(self, roster: Roster, run: str) -> None:
        self._roster, self._run = roster, run
        self.tidying = Tidying(roster.path)
        self._player = Player(run)
        self.rows = ahead.RowsAhead(roster, run, self._player, self.tidying)
        with roster.transaction() as database:
            for statement in _TABLES.split(";"):
                database.execute(statement)
            database.execute("pragma wal_autocheckpoint = 0")  # tidying does it

    def begin(self, settings: Metrics, theta: np.ndarray, fixed: Mapping[str, Array]) -> Kept:
        """A new run with this first model: what is trained of it, and the arrays that are not."""
        run = self._run
        with self._roster.transaction() as database:
            self._player.check(database)
            most = database.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
            require(
                theta.nbytes < most,
                f"the model has {theta.size:,} numbers that are trained: a run is kept in SQLite, which takes "
                f"{most // 4:,} at most; train fewer of them, such as those of adapters",
            )
            row = (run, json.dumps(settings), 0, theta.tobytes(), "[]")
            database.execute("insert into runs values (?, ?, ?, ?, ?)", row)
            arrays = [(run, name, a.dtype, json.dumps(list(a.shape)), a.stype, a.data) for name, a in fixed.items()]
            database.executemany("insert into fixed values (?, ?, ?, ?, ?, ?)", arrays)
        return Kept(0, theta, [], {}, dict(fixed), {}, {})

    def take_up(self, settings: Metrics, by_rows: bool = True) -> Kept | None:
        """The run as it was left, if it was begun; from now on this one plays it, and no other.

        Raises if it was begun with other settings. Servers that take all of a round's replies at once keep nothing
        `by_rows`: what was kept so becomes their memory.
        """
        with self._roster.transaction() as database:
            found = database.execute(
                "select settings, round, theta, members from runs where run = ?", (self._run,)
            ).fetchone()
            if found is not None:
                self._check(json.loads(found[0]), json.loads(json.dumps(settings)))
            self._player.take_up(database)
            if found is None:
                return None
            if not by_rows:
                self.rows.settle_in_memory(database)
            memory = {(array, number): piece for array, number, piece in self._rows(database, "memory")}
            return Kept(
                found[1],
                np.frombuffer(found[2], np.float32).copy(),
                json.loads(found[3]),
                memory | {(0, number): piece for number, piece in self.rows.load(database).items()},
                {
                    name: Array(dtype, tuple(json.loads(shape)), stype, data)
                    for name, dtype, shape, stype, data in self._rows(database, "fixed")
                },
                dict(self._rows(database, "heard")),
                {(t, kind): json.loads(text) for t, kind, text in self._rows(database, "metrics")},
            )

    def close_round(
        self,
        t: int,
        theta: np.ndarray,
        members: list[int],
        memory: Mapping[tuple[int, int], np.ndarray],
        heard: Sequence[int],
        entries: Iterable[Entry],
        metrics: Metrics,
    ) -> None:
        """All that round t changed, at once: should the process die, the round has happened or it has not."""
        run = self._run
        self.rows.settle()
        pieces = [(run, *key, raw(piece)) for key, piece in memory.items()]
        written = theta.nbytes + sum(piece.nbytes for *_, piece in pieces)
        with self.tidying.after(written), self._roster.transaction() as database:
            self._player.check(database)
            (before,) = database.execute("select members from runs where run = ?", (run,)).fetchone()
            closed = database.execute(
                "update runs set round = ?, theta = ?, members = ? where run = ? and round = ?",
                (t, theta.data, json.dumps(members), run, t - 1),
            )
            require(
                closed.rowcount == 1,
                f"round {t} of run {run!r} is over, and the run is elsewhere, because another strategy has played it "
                "meanwhile: make a new Strategy, which goes on from there",
            )
            gone = [(run, number) for number in set(json.loads(before)).difference(members)]
            for table in ("memory", "heard"):
                database.executemany(f"delete from {table} where run = ? and number = ?", gone)
            self.rows.keep(database, members, heard)
            # Large pieces: over the old ones, in a table with row ids, they are written in a third of the time.
            database.executemany(
                "insert into memory values (?, ?, ?, ?) on conflict do update set piece = excluded.piece", pieces
            )
            database.executemany("replace into heard values (?, ?, ?)", [(run, number, t) for number in heard])
            rows = [
                (run, t, place, e.client, e.status, e.reason, e.n, e.time.isoformat())
                for place, e in enumerate(entries)
            ]
            database.executemany("replace into roll_call values (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            database.execute("replace into metrics values (?, ?, ?, ?)", (run, t, "train", json.dumps(metrics)))
        self.rows.turn(heard)

    def note(self, t: int, kind: str, metrics: Metrics) -> None:
        """More metrics of round t: of the clients' evaluation (`evaluate`), or of the server's own (`server`)."""
        with self.tidying.after(), self._roster.transaction() as database:
            self._player.check(database)
            row = (self._run, t, kind, json.dumps(metrics))
            database.execute("replace into metrics values (?, ?, ?, ?)", row)

    def amend(self, t: int, client: str, reason: str) -> None:
        """Why a client was silent in round t has turned out after its end."""
        with self.tidying.after(), self._roster.transaction() as database:
            self._player.check(database)
            database.execute(
                "update roll_call set reason = ? where run = ? and round = ? and client = ? and status = 'silent'",
                (reason, self._run, t, client),
            )

    def answered(self, t: int) -> list[str]:
        """The clients that answered in round t."""
        with self._roster.transaction() as database:
            rows = database.execute(
                "select client from roll_call where run = ? and round = ? and status = 'answered' order by place",
                (self._run, t),
            )
            return [client for (client,) in rows]

    def roll_call(self) -> list[Entry]:
        """Who was sampled and who answered, in all rounds so far."""
        with self._roster.transaction() as database:
            rows = database.execute(
                "select round, client, status, reason, n, time from roll_call where run = ? order by round, place",
                (self._run,),
            )
            return [Entry(t, who, status, why, n, datetime.fromisoformat(at)) for t, who, status, why, n, at in rows]

    def forget(self) -> None:
        """Remove all that is kept of the run; raises where there is none of this name."""
        tables = [statement.split("(")[0].split()[-1] for statement in _TABLES.split(";") if statement.strip()]
        with self.tidying.after(), self._roster.transaction() as database:
            found = database.execute("select 1 from runs where run = ?", (self._run,)).fetchone()
            require(found is not None, f"{self._roster.path} has no run {self._run!r}: give one that it has")
            for table in tables:
                database.execute(f"delete from {table} where run = ?", (self._run,))

    def _rows(self, database: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
        rows = database.execute(f"select * from {table} where run = ?", (self._run,))
        return [row[1:] for row in rows]

    def _check(self, begun: Metrics, now: Metrics) -> None:
        other = [name for name in now if begun.get(name) != now[name]]
        require(
            not other,
            f"run {self._run!r} was begun with another {', '.join(other)}: give what it was begun with, or another run",
        )
