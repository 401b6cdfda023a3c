"""Clients' rows on disk before their round is over: written while other replies are waited for.

Every client has two slots. One holds the row that counts, written in the round in which the client was last heard; the
other takes the next one. The transaction that closes a round moves `heard` on, and with it which slot counts: should
the process die before, what was written ahead means nothing.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from noshow.errors import require
from noshow.flower.roster import Roster
from noshow.flower.tidying import Tidying

TABLE = """create table if not exists said (run text, number integer, slot integer, round integer, writer text,
    piece blob, primary key (run, number, slot))"""

PLAYED_TWICE = "another process plays run {run!r} too: let one of them go on"


class _Ahead(NamedTuple):
    t: int
    number: int
    piece: memoryview


class RowsAhead:
    """One run's rows, written by a thread of their own."""

    def __init__(self, roster: Roster, run: str, tidying: Tidying) -> None:
        self._roster, self._run, self._tidying = roster, run, tidying
        self._writer = uuid.uuid4().hex
        self._slots: dict[int, int] = {}
        self._waiting: deque[_Ahead] = deque()
        self._written: set[int] = set()
        self._writes: list[Future[None]] = []
        self._thread = ThreadPoolExecutor(1)

    def load(self, database: sqlite3.Connection, heard: Mapping[int, int]) -> dict[int, bytes]:
        """The rows that count, by the clients' numbers."""
        found = database.execute("select number, slot, round, piece from said where run = ?", (self._run,))
        counts = [(number, slot, piece) for number, slot, t, piece in found if heard.get(number) == t]
        self._slots = {number: slot for number, slot, _ in counts}
        return {number: piece for number, _, piece in counts}

    def write(self, t: int, number: int, row: np.ndarray) -> None:
        """Begin to write a row that counts if the client is among those heard in round t."""
        self._waiting.append(_Ahead(t, number, row.data))
        self._writes.append(self._thread.submit(self._write))

    def settle(self) -> None:
        """Wait until all is written; raises what went wrong."""
        writes, self._writes = self._writes, []
        for write in writes:
            write.result()

    def check(self, database: sqlite3.Connection, t: int, heard: Iterable[int]) -> None:
        """Raise if another process has written over what is about to count."""
        mine = "select number from said where run = ? and round = ? and writer = ?"
        there = {number for (number,) in database.execute(mine, (self._run, t, self._writer))}
        require(self._written.intersection(heard) <= there, PLAYED_TWICE.format(run=self._run))

    def turn(self, heard: Iterable[int]) -> None:
        """The round is over: rows of those who were heard count now."""
        self._slots |= {number: self._spare(number) for number in self._written.intersection(heard)}
        self._written = set()

    def _write(self) -> None:
        """Write all that waits, in one transaction."""
        rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if not rows:
            return
        with self._roster.transaction() as database:
            (t,) = database.execute("select round from runs where run = ?", (self._run,)).fetchone()
            require(all(row.t == t + 1 for row in rows), PLAYED_TWICE.format(run=self._run))
            # Large pieces: over the old ones, in a table with row ids, they are written in a third of the time.
            database.executemany(
                "insert into said values (?, ?, ?, ?, ?, ?) on conflict do update set "
                "round = excluded.round, writer = excluded.writer, piece = excluded.piece",
                [(self._run, row.number, self._spare(row.number), row.t, self._writer, row.piece) for row in rows],
            )
        self._written |= {row.number for row in rows}
        self._tidying.note(sum(row.piece.nbytes for row in rows))

    def _spare(self, number: int) -> int:
        return 1 - self._slots.get(number, 1)
