"""A trace as a table of rounds and clients."""

from __future__ import annotations

import numpy as np

from noshow.errors import require
from noshow.trace.file import Trace

NOT_CALLED, IS_SILENT, HAS_ANSWERED = -1, 0, 1
MOST_CELLS = 2**30
"""To replay a trace takes 4 bytes a cell, so 4 GB."""
BLOCK = 2**20
"""How many cells `latest` works on at a time: for each it takes some 20 bytes."""


def presence(trace: Trace, most: int = MOST_CELLS) -> np.ndarray:
    """Who answered when, [rounds, clients]: 1 answered, 0 was silent, -1 was not called.

    The first row is the trace's first round, whatever its number; columns are `trace.names`. Raises where there are
    more than `most` cells.

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
        rounds * clients <= most,
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
    rounds, clients = table.shape
    width = max(1, BLOCK // max(1, rounds))
    rows = np.arange(rounds, dtype=np.int32)[:, None]
    filled = np.empty_like(table)
    for start in range(0, clients, width):
        part = table[:, start : start + width]
        known = np.maximum.accumulate(np.where(part == NOT_CALLED, np.int32(0), rows), axis=0)
        filled[:, start : start + width] = np.take_along_axis(part, known, axis=0)
    return filled
