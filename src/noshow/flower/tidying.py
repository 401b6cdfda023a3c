"""A database's log into its place, in the background: no round waits for the disk."""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

ENOUGH = 2**26
"""Bytes in the log that are worth clearing up: right after it, a change takes longer."""

LONG = 8 * ENOUGH
"""Bytes that the log may be behind. While changes go on, what is cleared up never reaches its end, and it grows."""


class Tidying:
    """Clears up the log that SQLite appends changes to, once there are enough of them.

    Nobody else may do so in this process: in SQLite before 3.51.3, a change that begins the log anew while it is
    cleared up for the second time can be lost.
    """

    def __init__(self, path: Path) -> None:
        self._address = f"file:{quote(str(path.absolute()))}?mode=rw"  # which makes no file where there is none
        self._thread = ThreadPoolExecutor(1)
        self._waiting: Future[None] | None = None
        self._written = 0

    def note(self, written: int) -> None:
        """So many bytes have been written: begin, if it is worth it and nothing is under way."""
        self._written += written
        if self._written >= ENOUGH and (self._waiting is None or self._waiting.done()):
            self._begin()

    def keep_up(self) -> None:
        """Before a change: where the log is long, until all of it is in its place."""
        if self._written >= LONG:
            self.wait()
            self._begin()
            self.wait()

    def wait(self) -> None:
        """Until nothing is under way."""
        if self._waiting is not None:
            self._waiting.result()

    def _begin(self) -> None:
        self._written = 0
        self._waiting = self._thread.submit(self._tidy)

    def _tidy(self) -> None:
        # What cannot be cleared up now stays in the log, where it is as safe.
        with suppress(sqlite3.Error), closing(sqlite3.connect(self._address, uri=True)) as database:
            database.execute("pragma wal_checkpoint(passive)")
