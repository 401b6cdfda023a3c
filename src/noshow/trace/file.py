"""A trace on disk: written whole or not at all, read back strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noshow.errors import NoshowError, require
from noshow.files import write_whole

if TYPE_CHECKING:
    import pyarrow

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""Where there is no clock, time counts from here."""
ANSWERED = "answered"
SILENT = "silent"
K, REGISTERED = b"sampled", b"registered"
"""The keys of the file's metadata that hold K, and the names of all registered clients where they are known."""


class Entry(NamedTuple):
    """One sampled client in one round.

    Example:
        >>> from datetime import datetime, UTC
        >>> Entry(3, "hospital-a", "silent", "timeout", 500, datetime(2030, 1, 1, tzinfo=UTC)).reason
        'timeout'
    """

    round: int
    client: str
    status: str
    reason: str
    n: int
    time: datetime


@dataclass(frozen=True, eq=False)
class Trace:
    """Who was called and who answered: `Entry` after `Entry`, in the order of rounds.

    `sampled` is K, the clients called in a round; `registered` names clients, called or not, where they are known. The
    columns are there as arrays, one number a row.

    Example:
        >>> from datetime import datetime, UTC
        >>> now = datetime(2030, 1, 1, tzinfo=UTC)
        >>> trace = Trace.of([Entry(1, "a", "answered", "", 50, now), Entry(1, "b", "silent", "timeout", 70, now)])
        >>> trace.sampled, trace.names, trace.answered.tolist(), [entry.reason for entry in trace]
        (2, ['a', 'b'], [True, False], ['', 'timeout'])
    """

    table: pyarrow.Table
    sampled: int
    registered: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[Entry], sampled: int | None = None, registered: Iterable[str] = ()) -> Trace:
        """A trace of these rows; raises where they make none. K is the most clients of a round if left out."""
        import pyarrow as pa

        entries = [Entry(*row) for row in rows]
        for entry in entries:
            aware = isinstance(entry.time, datetime) and entry.time.tzinfo is not None
            require(aware, f"the time of round {entry.round} is {entry.time!r}: give a datetime with its time zone")
        try:
            columns = [pa.array([entry[k] for entry in entries], field.type) for k, field in enumerate(_schema())]
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise NoshowError(f"the rows make no trace: {error}") from None
        return cls.of_columns(columns, sampled, registered)

    @classmethod
    def of_columns(
        cls, columns: Sequence[pyarrow.Array[Any]], sampled: int | None = None, registered: Iterable[str] = ()
    ) -> Trace:
        """A trace of columns, in the order and of the types of an `Entry`; raises where they make none."""
        import pyarrow as pa

        table = pa.Table.from_arrays(list(columns), schema=_schema())
        most = np.unique(table.column("round").to_numpy(), return_counts=True)[1].max(initial=0)
        trace = cls(table, int(most) if sampled is None else sampled, tuple(registered))
        _check(trace, "the trace")
        return trace

    def __iter__(self) -> Iterator[Entry]:
        columns = (self.table.column(field.name).to_pylist() for field in _schema())
        return map(Entry._make, zip(*columns, strict=True))

    def __len__(self) -> int:
        return self.table.num_rows

    @cached_property
    def rounds(self) -> np.ndarray:
        """The round of each row."""
        return self.table.column("round").to_numpy()

    @cached_property
    def names(self) -> list[str]:
        """All clients that were called or are registered, in the order of their names: client-2 before client-10."""
        return sorted({*_encoded(self.table, "client").dictionary.to_pylist(), *self.registered}, key=_place)

    @cached_property
    def clients(self) -> np.ndarray:
        """The client of each row, as its place in `names`."""
        encoded = _encoded(self.table, "client")
        places = {name: place for place, name in enumerate(self.names)}
        return np.array([places[name] for name in encoded.dictionary.to_pylist()])[encoded.indices]

    @cached_property
    def answered(self) -> np.ndarray:
        """Whether each row's client answered."""
        return _equal(self.table, "status", ANSWERED)

    @cached_property
    def n(self) -> np.ndarray:
        """n_i of each row's client, at that time."""
        return self.table.column("n").to_numpy()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.is_instance_schema(cls)  # what a function that takes a trace asks of its argument


def write(path: str | Path, rows: Iterable[Entry], sampled: int | None = None, registered: Iterable[str] = ()) -> None:
    """Write a trace; a file of that name is replaced, and is the old one or the new one at any moment.

    Args:
        path: the file.
        rows: a `Trace`, or its entries in the order of rounds.
        sampled: K; if left out, that of the `Trace`, or the most clients of a round.
        registered: the names of all clients, so that those who were never called are known, too.

    Example:
        >>> import tempfile
        >>> from datetime import datetime, UTC
        >>> now = datetime(2030, 1, 1, tzinfo=UTC)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(f"{folder}/live.parquet", [Entry(1, "a", "silent", "timeout", 70, now)], sampled=10)
        ...     trace = read(f"{folder}/live.parquet")
        >>> trace.sampled, [entry.reason for entry in trace]
        (10, ['timeout'])
    """
    import pyarrow.parquet as pq

    names = tuple(registered)
    trace = rows if isinstance(rows, Trace) and sampled is None and not names else Trace.of(rows, sampled, names)
    metadata = {K: str(trace.sampled).encode()}
    if trace.registered:
        metadata[REGISTERED] = json.dumps(trace.registered).encode()
    table = trace.table.replace_schema_metadata(metadata)
    write_whole(Path(path), lambda part: pq.write_table(table, part, write_page_checksum=True))


def read(path: str | Path) -> Trace:
    """The trace in a file; raises, in one sentence, where the file is not exactly one.

    Example:
        >>> read("nowhere.parquet")
        Traceback (most recent call last):
        noshow.errors.NoshowError: there is no trace nowhere.parquet: give a file that was recorded or imported
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = Path(path)
    require(file.is_file(), f"there is no trace {file}: give a file that was recorded or imported")
    try:
        # A file object, not a name: names that look like addresses are not followed, folders not searched.
        with file.open("rb") as opened, pq.ParquetFile(opened, page_checksum_verification=True) as parquet:
            _check_columns(parquet.schema_arrow, str(file))
            table = parquet.read([field.name for field in _schema()])
        table.validate(full=True)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise NoshowError(f"{file} cannot be read as a trace: {printable(str(error).partition(chr(10))[0])}") from None
    trace = Trace(table, _sampled_in(table, str(file)), _registered_in(table, str(file)))
    _check(trace, str(file))
    return trace


def printable(text: str) -> str:
    """Text from a file as a terminal may show it: control characters are written out.

    Example:
        >>> printable("Zürich 1"), printable("\\x1b[31mred")
        ('Zürich 1', "'\\\\x1b[31mred'")
    """
    return text if text.isprintable() else repr(text)


def _place(name: str) -> list[Any]:
    """What names are ordered by: client-2 before client-10. Text and numbers take turns, so that like meets like."""
    numbers_and_text = [
        (len(part.lstrip("0")), part.lstrip("0")) if turn % 2 else part
        for turn, part in enumerate(re.split("([0-9]+)", name))
    ]
    return [numbers_and_text, name]


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    columns: Any = {
        "round": pa.int32(),
        "client": pa.string(),
        "status": pa.string(),
        "reason": pa.string(),
        "n": pa.int64(),
        "time": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema(columns)


def _encoded(table: pyarrow.Table, name: str) -> Any:
    """A column of text as numbers and what they stand for."""
    return table.column(name).combine_chunks().dictionary_encode()


def _equal(table: pyarrow.Table, name: str, text: str) -> np.ndarray:
    """Which rows of a column hold this text."""
    encoded = _encoded(table, name)
    return np.array([value == text for value in encoded.dictionary.to_pylist()], bool)[encoded.indices]


def _check_columns(found: pyarrow.Schema, where: str) -> None:
    for field in _schema():
        require(field.name in found.names, f"{where} is no trace: it has no column {field.name!r}")
        kind = found.field(field.name).type
        require(kind == field.type, f"{where} is no trace: its column {field.name!r} is {kind}, not {field.type}")


def _sampled_in(table: pyarrow.Table, where: str) -> int:
    text = (table.schema.metadata or {}).get(K, b"").decode("ascii", "replace")
    require(text.isdecimal() and len(text) < 10, f"{where} is no trace: its metadata say sampled = {text!r}")
    return int(text)


def _registered_in(table: pyarrow.Table, where: str) -> tuple[str, ...]:
    text = (table.schema.metadata or {}).get(REGISTERED, b"[]")
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    require(listed, f"{where} is no trace: its metadata have something else than a list of names as registered")
    return tuple(names or ())


def _check(trace: Trace, where: str) -> None:
    """Raise unless the rows make a trace."""
    table, rounds = trace.table, trace.rounds
    require(len(trace) > 0, f"{where} is empty: a trace has one row or more")
    for name in table.column_names:
        require(table.column(name).null_count == 0, f"{where} has a row without {name}: fill it in")
    back = np.flatnonzero(rounds[1:] < rounds[:-1])
    if back.size:
        before, after = rounds[back[0]], rounds[back[0] + 1]
        raise NoshowError(f"{where} goes back from round {before} to round {after}: give rows in the order of rounds")
    require(rounds[0] >= 0, f"{where} has a round {rounds[0]}: rounds are 0 or more")
    for status in table.column("status").unique().to_pylist():
        require(status in (ANSWERED, SILENT), f"{where} has a status {status!r}: give {ANSWERED!r} or {SILENT!r}")
    excused = np.flatnonzero(trace.answered & ~_equal(table, "reason", ""))
    if excused.size:
        reason = table.column("reason")[int(excused[0])].as_py()
        raise NoshowError(f"{where} has a reason {reason!r} for an answer: leave it empty there")
    require(int(trace.n.min()) >= 1, f"{where} has a client with n = {trace.n.min()}: give 1 example or more")
    require("" not in trace.names, f"{where} has a client without a name: give each its own")
    times = table.column("time").to_numpy()
    dated = times.min() >= np.datetime64("0001-01-01", "us") and times.max() < np.datetime64("9999-12-31", "us")
    require(bool(dated), f"{where} has a time that is in none of the years 1 to 9999: mend it")
    calls = rounds.astype(np.int64) * len(trace.names) + trace.clients
    order = np.argsort(calls, kind="stable")
    again = order[1:][np.diff(calls[order]) == 0]
    if again.size:
        name = trace.names[trace.clients[again[0]]]
        raise NoshowError(f"{where} has client {name!r} twice in round {rounds[again[0]]}: give it once a round")
    most = int(np.unique(rounds, return_counts=True)[1].max())
    require(most <= trace.sampled, f"{where} has {most} clients in a round, and sampled = {trace.sampled}: mend one")
