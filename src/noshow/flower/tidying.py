"""A database's log into its place, in the background: no round waits for the disk."""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

ENOUGH = 2**26
"""Bytes in the log that are worth clearing up: right after it, a change takes longer."""

LONG = 2**28
"""Bytes that the log may grow to. It begins anew with a change before which all of it is in its place."""


class Tidying:
    """Clears up the log that SQLite appends changes to, once there are enough of them.

    Nobody else may do so in this process: in SQLite before 3.51.3, a change that begins the log anew while it is
    cleared up for the second time can be lost.
    """

    def __init__(self, path: Path) -> None:
        self._address = f"file:{quote(str(path.absolute()))}?mode=rw"  # which makes no file where there is none
        self._thread = ThreadPoolExecutor(1)
        self._waiting: Future[None] | None = None
        self._written = self._tidied = 0
        self._log = 0

    def note(self, written: int) -> None:
        """So many bytes have been written: begin, if it is worth it and nothing is under way."""
        self._written += written
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
        """Until all is in its place that was written before or meanwhile."""
        # What cannot be cleared up now stays in the log, where it is as safe.
        with suppress(sqlite3.Error), closing(sqlite3.connect(self._address, uri=True)) as database:
            (page,) = database.execute("pragma page_size").fetchone()
            while True:
                self._tidied = self._written
                _, pages, _ = database.execute("pragma wal_checkpoint(passive)").fetchone()
                self._log = page * max(pages, 0)  # it is -1 while another process is at it
                if self._tidied == self._written:
                    return
