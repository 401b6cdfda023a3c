"""A trace in numbers: how many answered, why the others did not, how much of the data was silent."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from noshow import budget
from noshow.trace.file import Trace

MOST_SILENT = 10
UNSAID = "(no reason given)"


class Silences(NamedTuple):
    """How often a client was called, and how often it was silent."""

    client: str
    silent: int
    called: int


class Summary(NamedTuple):
    """The numbers of `noshow trace summary`.

    `rounds` are those in which anybody was called, `clients` all that are known. epsilon_t is the silent clients' n
    over K N / M, where K are those called in the round, and M and N count the clients that were ever called, each with
    its last n.
    """

    first: int
    last: int
    rounds: int
    clients: int
    sampled: int
    calls: int
    answered: int
    reasons: dict[str, int]
    mean_epsilon_t: float
    largest_epsilon_t: float
    largest_in: int
    most_silent: list[Silences]


def summarise(trace: Trace) -> Summary:
    """What a trace comes to. Reasons come most frequent first, and clients the most often silent first, up to ten.

    Example:
        >>> from datetime import datetime, UTC
        >>> from noshow.trace import Entry
        >>> now = datetime(2030, 1, 1, tzinfo=UTC)
        >>> summary = summarise(Trace.of([Entry(1, "a", "answered", "", 50, now),
        ...                               Entry(1, "b", "silent", "timeout", 150, now)]))
        >>> summary.reasons, summary.mean_epsilon_t, summary.most_silent
        ({'timeout': 1}, 0.75, [Silences(client='b', silent=1, called=1)])
    """
    rounds, turn, called = np.unique(trace.rounds, return_inverse=True, return_counts=True)
    used = budget.used_fraction(_silent_examples(trace, turn, len(rounds)), called, _last_sizes(trace))
    return Summary(
        first=int(rounds[0]),
        last=int(rounds[-1]),
        rounds=len(rounds),
        clients=len(trace.names),
        sampled=trace.sampled,
        calls=len(trace),
        answered=int(trace.answered.sum()),
        reasons=_reasons(trace),
        mean_epsilon_t=float(used.mean()),
        largest_epsilon_t=float(used.max()),
        largest_in=int(rounds[used.argmax()]),
        most_silent=_most_silent(trace),
    )


def _silent_examples(trace: Trace, turn: np.ndarray, rounds: int) -> np.ndarray:
    silent = np.zeros(rounds, np.int64)
    np.add.at(silent, turn, np.where(trace.answered, 0, trace.n))
    return silent


def _last_sizes(trace: Trace) -> np.ndarray:
    sizes = np.zeros(len(trace.names), np.int64)
    sizes[trace.clients] = trace.n  # rows are in order of rounds: the last one stays
    return sizes[sizes > 0]


def _reasons(trace: Trace) -> dict[str, int]:
    import pyarrow as pa

    silent = trace.table.column("reason").filter(pa.array(~trace.answered))
    counts = Counter(reason or UNSAID for reason in silent.to_pylist())
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _most_silent(trace: Trace) -> list[Silences]:
    called = np.bincount(trace.clients, minlength=len(trace.names))
    silent = np.bincount(trace.clients[~trace.answered], minlength=len(trace.names))
    order = np.argsort(-silent, kind="stable")[:MOST_SILENT]
    return [Silences(trace.names[k], int(silent[k]), int(called[k])) for k in order if silent[k]]
