"""Who plays a run: whoever opened it last. Two at a time would each write over what the other counts on."""

from __future__ import annotations

import sqlite3
import uuid

from noshow.errors import require

TABLE = "create table if not exists players (run text primary key, player text) without rowid"


class Player:
    """One who may play a run, until another takes it up."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._name = uuid.uuid4().hex

    def take_up(self, database: sqlite3.Connection) -> None:
        """From now on nobody else may change the run: a server that was started again goes on, not the one before."""
        database.execute("replace into players values (?, ?)", (self._run, self._name))

    def check(self, database: sqlite3.Connection) -> None:
        """Raise if another has taken the run up since."""
        found = database.execute("select player from players where run = ?", (self._run,)).fetchone()
        require(
            found == (self._name,),
            f"run {self._run!r} was taken up by another process since, which goes on with it: leave it to that one, "
            "or start again",
        )
