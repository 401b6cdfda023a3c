"""Traces from CSV files: rounds and who answered, or the seconds in which clients were available."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from noshow.csv_cells import Cells, cells_of, header_of, whole_number
from noshow.errors import NoshowError, require
from noshow.trace.file import ANSWERED, BEGINNING, SILENT, Entry, Trace

UNAVAILABLE = "unavailable"
INTERVALS = ("client", "start", "end")
CALLS = ("round", "client", "status")
OPTIONAL = ("reason", "n")
MICROSECONDS = 1_000_000
LONGEST = 2**53 // MICROSECONDS
"""Seconds beyond which microseconds are no longer exact: more than 280 years."""
MOST_ROWS = 50_000_000


def from_csv(path: str | Path, round_seconds: float | None = None, examples: int = 1) -> Trace:
    """The trace in a CSV file of one of two forms, told apart by its first line.

    `client,start,end`: from second `start` to second `end` the client was available; a client may have many lines.
    Rounds of `round_seconds` follow each other from the earliest start, as many as end by the latest end. Every client
    is called in every round, and answers if it is available from the round's beginning to its end.

    `round,client,status`, and `reason` and `n` if there are such columns: a line a call, in any order.

    Args:
        path: the file.
        round_seconds: how long a round takes. Intervals need it; for calls only `time` follows from it, 1 if left out.
        examples: n of every client, where the file has no column n.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "phones.csv"
        ...     _ = file.write_text("client,start,end\\nanna,0,30\\nbert,5,20\\n")
        ...     trace = from_csv(file, round_seconds=10)
        >>> [(entry.round, entry.client, entry.status) for entry in trace][:4]
        [(0, 'anna', 'answered'), (0, 'bert', 'silent'), (1, 'anna', 'answered'), (1, 'bert', 'answered')]
    """
    file = Path(path)
    require(
        round_seconds is None or 1e-6 <= round_seconds <= LONGEST,
        f"round_seconds is {round_seconds}: give a number of seconds above zero",
    )
    require(1 <= examples < 2**63, f"examples is {examples}: give 1 or more")
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            return _of_lines(csv.reader(opened, strict=True), round_seconds, examples, file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise NoshowError(f"{file} cannot be read: {error}") from None


def _of_lines(lines: Any, round_seconds: float | None, examples: int, file: Path) -> Trace:
    header = header_of(lines)
    if sorted(header) == sorted(INTERVALS):
        if round_seconds is None:
            raise NoshowError(f"{file} has intervals: say how long a round takes, in round_seconds")
        return _of_intervals(cells_of(lines, header, file), round(round_seconds * MICROSECONDS), examples, file)
    once = len(set(header)) == len(header)
    require(
        once and set(CALLS) <= set(header) <= {*CALLS, *OPTIONAL},
        f"{file} begins with {','.join(header)[:80]!r}: give the columns {','.join(INTERVALS)}, or "
        f"{','.join(CALLS)}, and {' and '.join(OPTIONAL)} beside them if they are known",
    )
    return _of_calls(cells_of(lines, header, file), round_seconds or 1.0, examples)


def _of_calls(lines: Iterator[Cells], round_seconds: float, examples: int) -> Trace:
    entries = [_call(cells, round_seconds, examples) for cells in lines]
    return Trace.of(sorted(entries, key=lambda entry: entry.round))


def _call(cells: Cells, round_seconds: float, examples: int) -> Entry:
    number = cells.read("round", whole_number, "a whole number, 0 or more")
    n = cells.read("n", whole_number, "a whole number, 1 or more") if "n" in cells.texts else examples
    try:
        time = BEGINNING + timedelta(seconds=number * round_seconds)
    except OverflowError:
        raise NoshowError(f"{cells.where}: round {number} would be after the year 9999: give shorter rounds") from None
    return Entry(number, cells.texts["client"], cells.texts["status"], cells.texts.get("reason", ""), n, time)


def _of_intervals(lines: Iterator[Cells], length: int, examples: int, file: Path) -> Trace:
    """All in microseconds."""
    import pyarrow as pa

    available: dict[str, list[tuple[int, int]]] = {}
    for cells in lines:
        start, end = (cells.read(name, _microseconds, "a number of seconds") for name in ("start", "end"))
        require(start <= end, f"{cells.where} ends before it starts: exchange the two")
        available.setdefault(cells.texts["client"], []).append((start, end))
    require(bool(available), f"{file} has no intervals: a trace needs one or more")
    begin = min(start for own in available.values() for start, _ in own)
    rounds, clients = (max(end for own in available.values() for _, end in own) - begin) // length, len(available)
    require(rounds >= 1, f"{file} ends before its first round does: give shorter rounds")
    require(
        rounds * clients <= MOST_ROWS,
        f"{file} makes {rounds:,} rounds of {clients:,} clients, too many for a trace: give longer rounds",
    )
    there = np.zeros((rounds, clients), bool)
    for column, own in enumerate(available.values()):
        for start, end in _joined(own):
            # The rounds that lie as a whole in the interval: from its start, rounded up, to its end, rounded down.
            there[-((begin - start) // length) : (end - begin) // length, column] = True
    numbers, codes = (index.reshape(-1) for index in np.indices(there.shape, np.int32))

    def text(codes: np.ndarray, words: list[str]) -> pa.Array[Any]:
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words)).cast(pa.string())

    silent = (~there).reshape(-1).astype(np.int8)
    return Trace.of_columns(
        [
            pa.array(numbers),
            text(codes, list(available)),
            text(silent, [ANSWERED, SILENT]),
            text(silent, ["", UNAVAILABLE]),
            pa.array(np.full(there.size, examples, np.int64)),
            pa.array(begin + numbers.astype(np.int64) * length).cast(pa.timestamp("us", tz="UTC")),
        ]
    )


def _joined(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same times in as few intervals as possible: those that touch or overlap are one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _microseconds(text: str) -> int:
    seconds = float(text)
    if not math.isfinite(seconds) or abs(seconds) > LONGEST:
        raise ValueError
    return round(seconds * MICROSECONDS)
