"""A database's log into its place, in the background: no round waits for the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

ENOUGH = 2**26
"""Bytes in the log that are worth clearing up: right after it, a change takes longer."""

COMMIT = 2**19
"""Bytes that a change takes in the log at the most beside what it is about: SQLite writes whole pages of each table."""

LONG = 2**28
"""Bytes that the log may grow to. It begins anew with a change before which all of it is in its place."""


class Tidying:
    """Clears up the log that SQLite appends changes to, once there are enough of them.

    In SQLite before 3.51.3, a change that begins the log anew can be lost where a log that is all in its place is
    cleared up once more meanwhile. So a clearing begins only with something to clear up: after a change that lies, from
    its beginning to its end, behind the last clearing that left nothing. For what other processes do to the file nobody
    here can vouch.
    """

    def __init__(self, path: Path) -> None:
        self._address = f"file:{quote(str(path.absolute()))}?mode=rw"  # which makes no file where there is none
        self._thread = ThreadPoolExecutor(1)
        self._waiting: Future[None] | None = None
        self._written = self._tidied = 0
        self._log = 0
        self._emptied = 0
        self._changed_since = -1

    @contextmanager
    def after(self, change: int = 0) -> Iterator[None]:
        """Around a change of so many bytes: begin after it, if it is worth it and nothing is under way."""
        emptied = self._emptied
        yield
        self._changed_since = max(self._changed_since, emptied)
        self._written += change + COMMIT
        if self._written - self._tidied >= ENOUGH and (self._waiting is None or self._waiting.done()):
            self._waiting = self._thread.submit(self._tidy)

    def keep_up(self) -> None:
        """Before a change: where the log is long, wait until it can begin anew."""
        if self._log + self._written - self._tidied >= LONG:
            self.wait()
            self._waiting = self._thread.submit(self._tidy)
            self.wait()
            self._log = 0

    def wait(self) -> None:
        """Until nothing is under way."""
        if self._waiting is not None:
            self._waiting.result()

    def _tidy(self) -> None:
        """Until all is in its place that was written before or meanwhile, if anything was."""
        if self._changed_since < self._emptied:
            return
        # What cannot be cleared up now stays in the log, where it is as safe.
        with suppress(sqlite3.Error), closing(sqlite3.connect(self._address, uri=True)) as database:
            (page,) = database.execute("pragma page_size").fetchone()
            while True:
                self._tidied = self._written
                _, pages, placed = database.execute("pragma wal_checkpoint(passive)").fetchone()
                self._log = page * max(pages, 0)  # it is -1 while another process is at it
                self._emptied += placed == pages
                if placed == pages or self._tidied == self._written:
                    return
