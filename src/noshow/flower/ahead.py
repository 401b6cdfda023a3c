"""Clients' rows on disk before their round is over: written while other replies are waited for.

Every client has two slots. One holds the row that counts, written in the round in which the client was last heard; the
other takes the next one. The transaction that closes a round moves `heard` on, and with it which slot counts: should
the process die before, what was written ahead means nothing.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from noshow.errors import NoshowError
from noshow.flower.player import Player
from noshow.flower.roster import Roster
from noshow.flower.tidying import ENOUGH, Tidying

TABLE = """create table if not exists said (run text, number integer, slot integer, round integer, piece blob,
    primary key (run, number, slot))"""

_COUNTS = "said join heard using (run, number, round) where run = ?"


class _Ahead(NamedTuple):
    t: int
    number: int
    piece: memoryview


class RowsAhead:
    """One run's rows, written by a thread of their own."""

    def __init__(self, roster: Roster, run: str, player: Player, tidying: Tidying) -> None:
        self._roster, self._run, self._player, self._tidying = roster, run, player, tidying
        self._slots: dict[int, int] = {}
        self._waiting: deque[_Ahead] = deque()
        self._spoken: set[int] = set()
        self._writes: list[Future[None]] = []
        self._thread = ThreadPoolExecutor(1)

    def load(self, database: sqlite3.Connection) -> dict[int, bytes]:
        """The rows that count, by the clients' numbers."""
        counts = database.execute(f"select number, slot, piece from {_COUNTS}", (self._run,)).fetchall()
        self._slots = {number: slot for number, slot, _ in counts}
        return {number: piece for number, _, piece in counts}

    def write(self, t: int, number: int, row: np.ndarray) -> None:
        """Begin to write a row that counts if the client is among those heard in round t."""
        self._waiting.append(_Ahead(t, number, row.data))
        self._spoken.add(number)
        self._writes = [one for one in self._writes if not one.done()]
        if all(one.running() or one.done() for one in self._writes):  # one that has not begun takes this row along
            self._writes.append(self._thread.submit(self._try))

    def settle(self) -> None:
        """Until all is written; what could not be before is tried once more, and raises what is wrong."""
        for one in self._writes:
            one.cancel()
        wait(self._writes)
        self._writes = []
        self._write()

    def turn(self, heard: Iterable[int]) -> None:
        """The round is over: rows of those who were heard count now."""
        self._slots |= {number: self._spare(number) for number in self._spoken.intersection(heard)}
        self._spoken = set()

    def keep(self, database: sqlite3.Connection, numbers: Collection[int], heard: Iterable[int]) -> None:
        """Forget all others, and what was kept in another form of those whose rows of this round will count."""
        there = database.execute("select distinct number from said where run = ?", (self._run,))
        gone = [(self._run, number) for number in {number for (number,) in there}.difference(numbers)]
        database.executemany("delete from said where run = ? and number = ?", gone)
        replaced = [(self._run, number) for number in self._spoken.intersection(heard)]
        database.executemany("delete from memory where run = ? and array = 0 and number = ?", replaced)

    def settle_in_memory(self, database: sqlite3.Connection) -> None:
        """Let the rows that count be pieces of a memory instead, as servers without such rows keep theirs."""
        database.execute(
            f"insert into memory select run, 0, number, piece from {_COUNTS} "
            "on conflict do update set piece = excluded.piece",
            (self._run,),
        )
        database.execute("delete from said where run = ?", (self._run,))

    def _try(self) -> None:
        # A lock or a full disk may be gone by the end of the round, and no thread could tell anybody before.
        with suppress(NoshowError):
            self._write()

    def _write(self) -> None:
        """Write all that waits. A transaction is no longer than it must be: others wait for its end."""
        while self._waiting:
            self._tidying.keep_up()
            self._write_some()

    def _write_some(self) -> None:
        rows, taken = [], 0
        while self._waiting and taken < ENOUGH:
            rows.append(self._waiting.popleft())
            taken += rows[-1].piece.nbytes
        try:
            with self._tidying.after(taken), self._roster.transaction() as database:
                self._player.check(database)
                # Large pieces: over the old ones, in a table with row ids, they are written in a third of the time.
                database.executemany(
                    "insert into said values (?, ?, ?, ?, ?) on conflict do update set "
                    "round = excluded.round, piece = excluded.piece",
                    [(self._run, row.number, self._spare(row.number), row.t, row.piece) for row in rows],
                )
        except BaseException:
            self._waiting.extendleft(reversed(rows))
            raise

    def _spare(self, number: int) -> int:
        return 1 - self._slots.get(number, 1)
