"""Many replies into one step of the server: the arrays are read once, a piece at a time.

Every server takes replies as rows [K, d]. Rules that are linear in them, FedAvg's and the paper's, need no such table:
what they do with each reply is one number, which is the rule's own answer to K unit replies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
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


class Weighty(NamedTuple):
    """Replies, `None` where there is none, and the factor of each [K]."""

    replies: Sequence[Opened | None]
    factors: np.ndarray


def added_up(
    groups: Sequence[Weighty], layout: Layout, sent: np.ndarray, sends: Sends, rooms: Callable[[], np.ndarray]
) -> list[Heard]:
    """For each group, the sum of factor times reply; a model counts relative to the one `sent`."""
    theres = [[place for place, reply in enumerate(group.replies) if reply is not None] for group in groups]
    sums = [
        _Sum([r for r in replies if r is not None], sent, sends, factors[there], rooms())
        for (replies, factors), there in zip(groups, theres, strict=True)
    ]
    strides, rests = _pieces(layout)
    jobs = [partial(_add_strides, sums, piece) for piece in strides] + [partial(_add_rests, sums, rests)]
    found = np.sum(in_threads(lambda job: job(), jobs), axis=0)
    squares = np.split(found, np.cumsum([len(there) for there in theres])[:-1])
    heard = []
    for group, there, sum_, own in zip(groups, theres, sums, squares, strict=True):
        everyone = np.zeros(len(group.replies))
        everyone[there] = own
        heard.append(Heard(sum_.total, everyone))
    return heard


def _add_strides(sums: Sequence[_Sum], piece: _Piece) -> np.ndarray:
    """A stretch of whole strides into each sum, all with the same room; every reply's squared norm there."""
    room = np.empty(((piece.place.stop - piece.place.start) // STRIDE, GROUP, STRIDE), np.float32)
    return np.concatenate([sum_.add_strides(piece, room) for sum_ in sums])


def _add_rests(sums: Sequence[_Sum], pieces: Sequence[_Piece]) -> np.ndarray:
    return np.concatenate([sum_.add_rests(pieces) for sum_ in sums])


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

    def add_strides(self, piece: _Piece, room: np.ndarray) -> np.ndarray:
        """A stretch of whole strides, read where it lies."""
        sent, total = (vector[piece.place].reshape(-1, STRIDE) for vector in (self.sent, self.total))
        weighed = np.empty_like(sent)
        squares = np.empty(len(self.replies))
        total.fill(0)
        with np.errstate(all="ignore"):
            for group in _alike(len(self.replies), GROUP):
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
        return laid_down(reply, layout, sent, sends, row)

    return np.array(in_threads(work, range(len(replies))))


def laid_down(reply: Opened, layout: Layout, sent: np.ndarray, sends: Sends, row: np.ndarray) -> float:
    """Write one reply into a row [d]; its squared norm."""
    with np.errstate(all="ignore"):
        for slot, view in zip(layout.slots, reply, strict=True):
            place = slice(slot.begin, slot.end)
            _say(view, sent[place], sends, row[place])
        return _square(row)


def weighed(rows: Sequence[np.ndarray], factors: np.ndarray, rooms: Callable[[], np.ndarray]) -> np.ndarray:
    """The sum of factor times row [d], in the order of the rows."""

    def add(total: np.ndarray, part: slice) -> None:
        room = np.empty_like(total)
        for row, factor in zip(rows, factors, strict=True):
            np.add(total, np.multiply(row[part], factor, out=room), out=total)

    return _in_parts(add, rooms())


def summed(rows: Sequence[np.ndarray], rooms: Callable[[], np.ndarray]) -> np.ndarray:
    """The sum of the rows [d], in their order."""

    def add(total: np.ndarray, part: slice) -> None:
        for row in rows:
            np.add(total, row[part], out=total)

    return rows[0] if len(rows) == 1 else _in_parts(add, rooms())


def _in_parts(add: Callable[[np.ndarray, slice], None], total: np.ndarray) -> np.ndarray:
    """What `add` adds to zeros [d], in parts that stay in the cache."""

    def work(low: int) -> None:
        part = slice(low, low + PIECE // GROUP)
        total[part] = 0
        with np.errstate(all="ignore"):  # which is each thread's own
            add(total[part], part)

    in_threads(work, range(0, len(total), PIECE // GROUP))
    return total


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


def _alike(items: int, most: int) -> list[slice]:
    """So many items in the fewest groups, as large as each other: BLAS takes longest for the weight of a single reply.

    Example:
        >>> _alike(5, most=4)
        [slice(0, 2, None), slice(2, 5, None)]
    """
    groups = -(-items // most)
    return [slice(items * g // groups, items * (g + 1) // groups) for g in range(groups)]


def _cuts(length: int) -> list[int]:
    """Where an array is cut: every piece, then after its last whole stride, and at its end.

    Example:
        >>> _cuts(2 * PIECE + STRIDE + 5)
        [0, 262144, 524288, 532480, 532485]
    """
    return [*range(0, length - length % STRIDE, PIECE), *sorted({length - length % STRIDE, length})]


def in_threads(work: Callable[[Item], Out], items: Sequence[Item]) -> list[Out]:
    """The work on each item, in this thread and one more for every other core: this one has its core already."""
    done: dict[int, Out] = {}
    left = iter(enumerate(items))

    def go_on() -> None:
        for number, item in left:
            done[number] = work(item)

    others = [_threads().submit(go_on) for _ in range(cores_allowed() - 1)]
    go_on()
    for other in others:
        other.result()
    return [done[number] for number in range(len(items))]


def beside(other: Callable[[], None], work: Callable[[], Out]) -> Out:
    """What the work gives; the other is done meanwhile."""
    begun = _threads().submit(other)
    try:
        return work()
    finally:
        begun.result()


@cache
def _threads() -> ThreadPoolExecutor:
    """Kept for the next call: to start threads takes as long as some of the work that they do."""
    return ThreadPoolExecutor(cores_allowed(), "noshow-hearing")
