"""Roll calls, packed for a page: who answered and who was silenced, a client a row and a round a column."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from noshow.history import History, RollCall
from noshow.report.labels import Labels
from noshow.report.series import short

MOST_CLIENTS = 1000
"""Rows of a picture; of more clients the most often silenced are shown."""
MOST_COLUMNS = 4000
"""Columns of a picture; of more rounds several share a column."""
ANSWERED, SILENCED = 1, 2


class Totals(NamedTuple):
    """How often each client answered and was silenced [M]."""

    answered: np.ndarray
    silenced: np.ndarray


def totals(ids: np.ndarray, answered: np.ndarray, clients: int) -> Totals:
    """Count one seed's roll call, ids and whether they answered [T, K].

    Example:
        >>> import numpy as np
        >>> counted = totals(np.array([[0, 2], [2, 1]]), np.array([[True, False], [False, True]]), clients=4)
        >>> counted.answered.tolist(), counted.silenced.tolist()
        ([1, 1, 0, 0], [0, 0, 2, 0])
    """
    return Totals(np.bincount(ids[answered], minlength=clients), np.bincount(ids[~answered], minlength=clients))


def packed(ids: np.ndarray, answered: np.ndarray, shown: np.ndarray, together: int) -> str:
    """The picture's cells, two bits each, row after row, four cells a byte from the lowest bits up; gzip, base64.

    A cell is 0 if the client was not sampled, 1 if it answered, 2 if it was silenced; where `together` rounds share a
    column, 2 if it was silenced in any of them.
    """
    rounds = len(ids)
    width = -(-rounds // together)
    row_of = np.full(int(max(ids.max(initial=0), shown.max(initial=0))) + 1, -1)
    row_of[shown] = np.arange(len(shown))
    rows, columns = row_of[ids], np.broadcast_to(np.arange(rounds)[:, None] // together, ids.shape)
    states = np.where(answered, ANSWERED, SILENCED).astype(np.uint8)
    seen = rows >= 0
    cells = np.zeros((len(shown), -(-width // 4) * 4), np.uint8)
    np.maximum.at(cells, (rows[seen], columns[seen]), states[seen])
    fours = cells.reshape(len(shown), -1, 4)
    content = np.bitwise_or.reduce(fours << np.array([0, 2, 4, 6], np.uint8), axis=2).astype(np.uint8).tobytes()
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")


def attendance(histories: Sequence[History], clients: int, labels: Labels | None) -> list[dict[str, Any]]:
    """Every different roll call of a run, with the algorithms that saw it: often all of them saw the same."""
    groups: list[tuple[RollCall, list[History]]] = []
    for history in histories:
        call = history.roll_call
        if not call.epsilon_t.size:
            continue
        for other, sharing in groups:
            if _same(call, other):
                sharing.append(history)
                break
        else:
            groups.append((call, [history]))
    return [
        {
            "algorithms": [history.algorithm for history in sharing],
            "rounds": call.epsilon_t.shape[1],
            "together": _together(call.epsilon_t.shape[1]),
            "law": call.epsilon,
            "seeds": [_of_seed(call, k, int(seed), clients, labels) for k, seed in enumerate(sharing[0].seeds)],
        }
        for call, sharing in groups
    ]


def _of_seed(call: RollCall, k: int, seed: int, clients: int, labels: Labels | None) -> dict[str, Any]:
    ids, answered, used = call.sampled[k], call.answered[k], call.epsilon_t[k]
    counted = totals(ids, answered, clients)
    shown = np.sort(np.argsort(-counted.silenced, kind="stable")[:MOST_CLIENTS])
    together = _together(len(used))
    starts = np.arange(0, len(used), together)
    return {
        "seed": seed,
        "clients": shown.tolist(),
        "answered": counted.answered[shown].tolist(),
        "silenced": counted.silenced[shown].tolist(),
        "cells": packed(ids, answered, shown, together),
        "epsilon_t": short(np.maximum.reduceat(used, starts)),
        "mean_epsilon_t": float(used.mean()),
        "labels": None if labels is None else labels.heard(counted.answered, counted.silenced),
    }


def _same(one: RollCall, other: RollCall) -> bool:
    return np.array_equal(one.sampled, other.sampled) and np.array_equal(one.answered, other.answered)


def _together(rounds: int) -> int:
    return max(1, -(-rounds // MOST_COLUMNS))
