"""A trace as a table of rounds and clients."""

from __future__ import annotations

import numpy as np

from noshow.errors import require
from noshow.trace.file import Trace

NOT_CALLED, IS_SILENT, HAS_ANSWERED = -1, 0, 1
MOST_CELLS = 2**31


def presence(trace: Trace) -> np.ndarray:
    """Who answered when, [rounds, clients]: 1 answered, 0 was silent, -1 was not called.

    The first row is the trace's first round, whatever its number; columns are `trace.names`.

    Example:
        >>> from datetime import datetime, UTC
        >>> from noshow.trace import Entry
        >>> now = datetime(2030, 1, 1, tzinfo=UTC)
        >>> trace = Trace.of([Entry(1, "b", "silent", "timeout", 70, now), Entry(3, "a", "answered", "", 50, now)])
        >>> presence(trace).tolist()
        [[-1, 0], [-1, -1], [1, -1]]
    """
    first, last = int(trace.rounds[0]), int(trace.rounds[-1])
    rounds, clients = last - first + 1, len(trace.names)
    require(
        rounds * clients <= MOST_CELLS,
        f"the trace has {clients} clients in rounds {first} to {last}, too many for one table: give a part of it",
    )
    table = np.full((rounds, clients), NOT_CALLED, np.int8)
    table[trace.rounds - first, trace.clients] = np.where(trace.answered, HAS_ANSWERED, IS_SILENT)
    return table


def latest(table: np.ndarray) -> np.ndarray:
    """The same table with each client's latest known status wherever it was not called; before its first, -1.

    Example:
        >>> latest(np.array([[-1, 0], [1, -1], [-1, -1]])).tolist()
        [[-1, 0], [1, 0], [1, 0]]
    """
    rows = np.arange(len(table))[:, None]
    known = np.maximum.accumulate(np.where(table == NOT_CALLED, 0, rows), axis=0)
    return np.take_along_axis(table, known, axis=0)
