"""Who is registered: names, their numbers of examples, and the nodes they were last seen at, in SQLite.

Clients stay on the roster while they are offline: that they are sampled all the same is what makes silence visible.
"""

from __future__ import annotations

import csv
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from noshow.csv_cells import Cells, cells_of, header_of, whole_number
from noshow.errors import NoshowError, require, whole

# Node ids are unsigned 64-bit numbers, and SQLite's are signed: they are kept as text.
_TABLE = """
create table if not exists clients (
    number integer primary key autoincrement,
    client text not null,
    n integer not null,
    node text,
    joined text not null,
    gone text
)
"""
_ONCE = "create unique index if not exists present on clients (client) where gone is null"


class Member(NamedTuple):
    """A registered client: `number` counts those who ever joined, `n` is n_i, `node` where it was last seen."""

    number: int
    client: str
    n: int
    node: int | None


class Roster:
    """The registered clients of a federation, in a SQLite file that other processes may change at any time.

    Args:
        path: the file; it is made where there is none. The runs of a `Strategy` are kept in it too.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     roster = Roster(f"{folder}/federation.sqlite")
        ...     roster.enrol("hospital-a", 1200)
        ...     roster.enrol("hospital-b", 300)
        ...     roster.leave("hospital-a")
        ...     [(member.client, member.n) for member in roster.members()]
        [('hospital-b', 300)]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._database = _opened(self.path)
        self._one_at_a_time = threading.RLock()  # a notebook makes the roster, and Flower's own thread uses it
        weakref.finalize(self, self._database.close)
        with self.transaction() as database:
            database.execute(_TABLE)
            database.execute(_ONCE)

    def members(self) -> list[Member]:
        """Those who are registered now, in the order in which they joined."""
        with self.transaction() as database:
            rows = database.execute("select number, client, n, node from clients where gone is null order by number")
            return _members(rows)

    def once(self, numbers: Iterable[int]) -> list[Member]:
        """Those of these numbers, whether they are registered still or not."""
        wanted = set(numbers)
        with self.transaction() as database:
            rows = database.execute("select number, client, n, node from clients order by number")
            return [member for member in _members(rows) if member.number in wanted]

    def enrol(self, client: str, n: int) -> None:
        """Register a client with n examples, or give a registered one another number of them."""
        self._enrol([(client, n)])

    def enrol_file(self, path: str | Path) -> None:
        """Register the clients of a CSV file with the columns `client` and `n`: all of them, or nobody."""
        try:
            with Path(path).open(encoding="utf-8-sig", newline="") as file:  # spreadsheets begin files with a mark
                rows = _clients(csv.reader(file, strict=True), Path(path))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise NoshowError(f"{path} cannot be read: {error}") from None
        self._enrol(rows)

    def _enrol(self, rows: list[tuple[str, int]]) -> None:
        known = [(client, _examples(client, n)) for client, n in rows]
        with self.transaction() as database:
            for client, n in known:
                found = database.execute("update clients set n = ? where client = ? and gone is null", (n, client))
                if found.rowcount == 0:
                    database.execute("insert into clients (client, n, joined) values (?, ?, ?)", (client, n, _now()))

    def was_taken_off(self, client: str) -> bool:
        """Whether this client was registered once, and is not any more."""
        with self.transaction() as database:
            rows = database.execute("select gone from clients where client = ?", (client,)).fetchall()
        return len(rows) > 0 and all(gone is not None for (gone,) in rows)

    def leave(self, client: str) -> None:
        """Take a client off the roster: it is not sampled any more, and its data no longer count."""
        with self.transaction() as database:
            left = database.execute(
                "update clients set gone = ?, node = null where client = ? and gone is null", (_now(), client)
            )
            require(left.rowcount > 0, f"client {client!r} is not on the roster of {self.path}: check its name")

    def seen_at(self, client: str, node: int) -> None:
        """A registered client has introduced itself from this node."""
        with self.transaction() as database:
            database.execute("update clients set node = null where node = ?", (str(node),))
            database.execute("update clients set node = ? where client = ? and gone is null", (str(node), client))

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The database, for changes that all happen or do not."""
        with self._one_at_a_time:
            try:
                self._database.execute("begin immediate")
                yield self._database
                self._database.execute("commit")
            except sqlite3.DatabaseError as error:
                raise NoshowError(f"{self.path} cannot be used as a roster: {error}") from None
            finally:
                if self._database.in_transaction:
                    self._database.execute("rollback")


def _members(rows: Iterable[tuple[Any, ...]]) -> list[Member]:
    return [Member(number, client, n, node and int(node)) for number, client, n, node in rows]


def _opened(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.OperationalError) as error:
        raise NoshowError(f"{path} cannot be opened: {error}") from None
    try:
        # A killed process leaves the last whole transaction: changes are appended to a log. It is cleared up every
        # 13 MB, but for runs, which do that themselves. Large pages make large models quick to write.
        database.execute("pragma page_size = 65536")
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        database.execute("pragma wal_autocheckpoint = 200")
    except sqlite3.DatabaseError as error:
        database.close()
        raise NoshowError(f"{path} cannot be used as a roster: {error}") from None
    return database


def _clients(lines: Any, file: Path) -> list[tuple[str, int]]:
    header = header_of(lines)
    require(
        len(set(header)) == len(header) and {"client", "n"} <= set(header),
        f"{file} is no roster: its first line must name the columns client and n",
    )
    told: dict[str, Cells] = {}
    for cells in cells_of(lines, header, file):
        client = cells.texts["client"]
        require(client not in told, f"{cells.where} names {client!r} once more: give each client one line")
        told[client] = cells
    require(len(told) > 0, f"{file} names no clients: give a line for each")
    return [(name, cells.read("n", whole_number, "a whole number, 1 or more")) for name, cells in told.items()]


def _examples(client: str, n: int) -> int:
    """A number of examples as SQLite keeps it; it would keep one of NumPy's as bytes."""
    require(client != "", "a client has no name: give each its own")
    count = whole(n, f"client {client!r} has {n!r} examples")
    require(1 <= count < 2**31, f"client {client!r} has {count} examples: give 1 or more, and fewer than 2^31")
    return count


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
