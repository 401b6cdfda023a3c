"""Many replies into one step of the server: the arrays are read once, a piece at a time.

Every server takes replies as rows [K, d]. Rules that are linear in them, FedAvg's and the paper's, need no such table:
what they do with each reply is one number, which is the rule's own answer to K unit replies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from noshow.flower.layout import Layout
from noshow.flower.silence import Opened, Sends
from noshow.machine import cores_allowed

STRIDE = 2**13
"""Numbers that are squared and added up at once; of longer vectors BLAS would make a task for threads of its own."""

PIECE = 2**5 * STRIDE
"""Numbers that are worked on at once, at most: threads get in each other's way between pieces, not within them."""

GROUP = 4
"""Replies that are weighed together: with more of them, or longer pieces, what was just written has left the cache."""

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
    there = [number for number, reply in enumerate(replies) if reply is not None]
    sum_ = _Sum([r for r in replies if r is not None], sent, sends, factors[there], np.zeros(layout.d, np.float32))
    strides, rests = _pieces(layout)
    jobs = [partial(sum_.add_strides, piece) for piece in strides] + [partial(sum_.add_rests, rests)]
    squares = np.zeros(len(replies))
    squares[there] = np.sum(_in_threads(lambda job: job(), jobs), axis=0)
    return Heard(sum_.total, squares)


class _Piece(NamedTuple):
    """Where a stretch of one array lies: in that array's slot, and in the vector."""

    slot: int
    part: slice
    place: slice


class _Sum(NamedTuple):
    """A sum in the making; each step adds what all replies say at some places, and gives their squared norms there."""

    replies: Sequence[Opened]
    sent: np.ndarray
    sends: Sends
    factors: np.ndarray
    total: np.ndarray

    def add_strides(self, piece: _Piece) -> np.ndarray:
        """A stretch of whole strides, read where it lies."""
        sent, total = (vector[piece.place].reshape(-1, STRIDE) for vector in (self.sent, self.total))
        room, weighed = np.empty((len(sent), GROUP, STRIDE), np.float32), np.empty_like(sent)
        squares = np.empty(len(self.replies))
        with np.errstate(all="ignore"):
            for first in range(0, len(self.replies), GROUP):
                group = slice(first, first + GROUP)
                block = room[:, : len(squares[group])]
                for row, reply in enumerate(self.replies[group]):
                    _say(reply[piece.slot][piece.part].reshape(sent.shape), sent, self.sends, block[:, row])
                squares[group] = np.vecdot(block, block).sum(axis=0, dtype=np.float64)
                np.add(total, np.matmul(self.factors[group], block, out=weighed), out=total)
        return squares

    def add_rests(self, pieces: Sequence[_Piece]) -> np.ndarray:
        """All that is shorter than a stride, put together first: models have many small arrays."""
        places = np.concatenate([np.arange(0), *(np.arange(p.place.start, p.place.stop) for p in pieces)])
        rows, together = np.empty((len(self.replies), len(places)), np.float32), np.empty(len(places))
        with np.errstate(all="ignore"):
            for row, reply in zip(rows, self.replies, strict=True):
                parts = (reply[p.slot][p.part] for p in pieces)
                np.concatenate([together[:0], *parts], out=together, casting="unsafe")
                _say(together, self.sent[places], self.sends, row)  # of float64 arrays not rounded before
            self.total[places] = np.einsum("k,kd->d", self.factors, rows)
            return np.einsum("kd,kd->k", rows, rows, dtype=np.float64)


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


def _pieces(layout: Layout) -> tuple[list[_Piece], list[_Piece]]:
    """The arrays in pieces: whole strides, the longest piece first so that no core has a long one left, and rests."""
    strides: list[_Piece] = []
    rests: list[_Piece] = []
    for number, slot in enumerate(layout.slots):
        for low, high in pairwise(_cuts(slot.end - slot.begin)):
            piece = _Piece(number, slice(low, high), slice(slot.begin + low, slot.begin + high))
            (strides if (high - low) % STRIDE == 0 else rests).append(piece)
    return sorted(strides, key=lambda piece: piece.part.start - piece.part.stop), rests


def _cuts(length: int) -> list[int]:
    """Where an array is cut: every piece, then after its last whole stride, and at its end.

    Example:
        >>> _cuts(2 * PIECE + STRIDE + 5)
        [0, 262144, 524288, 532480, 532485]
    """
    return [*range(0, length - length % STRIDE, PIECE), *sorted({length - length % STRIDE, length})]


def _in_threads(work: Callable[[Item], Out], items: Sequence[Item]) -> list[Out]:
    """The work on each item, in this thread and one more for every other core: this one has its core already."""
    done: dict[int, Out] = {}
    left = iter(enumerate(items))

    def go_on() -> None:
        for number, item in left:
            done[number] = work(item)

    with ThreadPoolExecutor(cores_allowed()) as threads:
        others = [threads.submit(go_on) for _ in range(cores_allowed() - 1)]
        go_on()
        for other in others:
            other.result()
    return [done[number] for number in range(len(items))]
