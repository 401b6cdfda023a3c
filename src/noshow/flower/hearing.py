"""Many replies into one step of the server: the arrays are read once, a piece at a time.

Every server takes replies as rows [K, d]. Rules that are linear in them, FedAvg's and the paper's, need no such table:
what they do with each reply is one number, which is the rule's own answer to K unit replies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from noshow.flower.layout import Layout
from noshow.flower.silence import Opened, Sends
from noshow.machine import cores_allowed

PIECE = 2**19
"""Numbers that are worked on at once, at most: threads get in each other's way between pieces, not within them."""

STRIDE = 2**13
"""Numbers that are squared and added up at once; of longer vectors BLAS would make a task for threads of its own."""

Item = TypeVar("Item")
Out = TypeVar("Out")


class Heard(NamedTuple):
    """What replies add up to [d], and the squared norm of each [K]."""

    total: np.ndarray
    squares: np.ndarray


def added_up(
    replies: Sequence[Opened | None], layout: Layout, sent: np.ndarray, sends: Sends, factors: np.ndarray
) -> Heard:
    """The sum of factor times reply over the replies that are there; a model counts relative to the one `sent`."""
    total = np.zeros(layout.d, np.float32)

    def work(piece: tuple[int, int, int]) -> np.ndarray:
        slot, low, high = piece
        begin = layout.slots[slot].begin
        place = slice(begin + low, begin + high)
        buffer, squares = np.empty(high - low, np.float32), np.zeros(len(replies))
        with np.errstate(all="ignore"):
            for number, reply in enumerate(replies):
                if reply is not None:
                    _say(reply[slot][low:high], sent[place], sends, buffer)
                    squares[number] = _square(buffer)
                    np.multiply(buffer, factors[number], out=buffer)
                    np.add(total[place], buffer, out=total[place])
        return squares

    return Heard(total, np.sum(_in_threads(work, _pieces(layout)), axis=0))


def laid_out(
    replies: Sequence[Opened | None], layout: Layout, sent: np.ndarray, sends: Sends, rows: np.ndarray
) -> np.ndarray:
    """Write replies into rows [K, d], zeros where there is none; the squared norm of each [K]."""

    def work(number: int) -> float:
        reply, row = replies[number], rows[number]
        if reply is None:
            row.fill(0.0)
            return 0.0
        with np.errstate(all="ignore"):
            for slot, view in zip(layout.slots, reply, strict=True):
                place = slice(slot.begin, slot.end)
                _say(view, sent[place], sends, row[place])
            return _square(row)

    return np.array(_in_threads(work, range(len(replies))))


def _say(view: np.ndarray, sent: np.ndarray, sends: Sends, out: np.ndarray) -> None:
    if sends == "model":
        np.subtract(view, sent, out=out, casting="unsafe")
    else:
        np.copyto(out, view, casting="unsafe")


def _square(vector: np.ndarray) -> float:
    whole = vector.size - vector.size % STRIDE
    strides, rest = vector[:whole].reshape(-1, STRIDE), vector[whole:]
    return float(np.vecdot(strides, strides).sum(dtype=np.float64) + np.vecdot(rest, rest))


def _pieces(layout: Layout) -> list[tuple[int, int, int]]:
    """Stretches of single arrays, cut so that all cores have as much to do: array, from, to."""
    length = min(PIECE, -(-layout.d // cores_allowed()))
    return [
        (number, low - slot.begin, high - slot.begin)
        for number, slot in enumerate(layout.slots)
        for low, high in pairwise(_cuts(slot.begin, slot.end, length))
    ]


def _cuts(begin: int, end: int, length: int) -> list[int]:
    """Where a stretch is cut: its ends, and the whole multiples of the length between them.

    Example:
        >>> _cuts(5, 22, 10)
        [5, 10, 20, 22]
    """
    return [begin, *range((begin // length + 1) * length, end, length), end]


def _in_threads(work: Callable[[Item], Out], items: Sequence[Item]) -> list[Out]:
    with ThreadPoolExecutor(cores_allowed()) as threads:
        return list(threads.map(work, items))
