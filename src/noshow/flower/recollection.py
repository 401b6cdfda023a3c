"""What clients said last, a row for each, where the server moves by an aggregate of such rows.

A reply becomes a row as it comes, and what can be worked out of the rows beforehand is: once the last reply is there,
the round need not wait for the others to be gone through again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from noshow.additive import factors_of
from noshow.contracts import Aggregator, Key, Weights
from noshow.federation import aligned_empty
from noshow.flower.hearing import in_threads, laid_down, summed, weighed
from noshow.flower.layout import Layout
from noshow.flower.rooms import Rooms
from noshow.flower.silence import Opened, Sends
from noshow.flower.tree import Group, Tree
from noshow.precision import products_in
from noshow.recall import recalled
from noshow.width import as_kept, is_narrow


@dataclass(frozen=True, eq=False)
class Row:
    """What one client said, as it is kept. Another row is another object, though it may lie where this one lay."""

    values: np.ndarray


class Draft(NamedTuple):
    """A reply that would become its client's row, and its squared norm."""

    reply: Opened
    row: Row
    square: float


Rows = Sequence[Row | None]
"""All clients' rows in the order of the roster; `None` stands for zeros, of those who were never heard."""


class Workings(Protocol):
    """What is known of the rows of a round before all of them are there."""

    def prepare(self, rows: Rows, weights: np.ndarray, due: np.ndarray) -> None:
        """Work out ahead what these rows have that those before had not; rows that are due will be others."""

    def aggregate(self, rows: Rows, weights: np.ndarray, key: Key) -> np.ndarray:
        """The aggregate of the rows [d]."""


class Recollection:
    """The rows of all who were ever heard, by their numbers on the roster."""

    def __init__(self, aggregator: Aggregator, like: Any, d: int, kept: Mapping[int, bytes]) -> None:
        self._like, self._d = like, d
        self._rows = {number: Row(np.frombuffer(piece, like.dtype)) for number, piece in kept.items()}
        self._room: list[np.ndarray] = []
        self._aggregator, self._fitting = aggregator, 0
        factors = None if is_narrow(like) else factors_of(aggregator)
        self._workings: Workings = _Table(aggregator, like.dtype, d) if factors is None else _Sums(factors, d)

    def drafted(
        self, replies: Sequence[Opened], layout: Layout, sent: np.ndarray, sends: Sends, rate: float
    ) -> list[Draft]:
        """Replies as directions: a model counts relative to the one `sent`, over minus the rate."""
        rooms = [self._room.pop() if self._room else aligned_empty((self._d,), np.float32) for _ in replies]

        def work(number: int) -> Draft:
            row = rooms[number]
            square = laid_down(replies[number], layout, sent, sends, row)
            with np.errstate(all="ignore"):
                if sends == "model":
                    np.divide(row, np.float32(-rate), out=row)
            return Draft(replies[number], Row(self._as_kept(row)), square)

        return in_threads(work, range(len(replies)))

    def prepare(self, numbers: Sequence[int], drafts: Mapping[int, Row], weights: np.ndarray, due: np.ndarray) -> None:
        """Work out ahead what can be, should these drafts count; who is `due` may still answer."""
        self._workings.prepare(self._with(numbers, drafts), weights, due)

    def aggregate(self, numbers: Sequence[int], drafts: Mapping[int, Row], weights: np.ndarray, key: Key) -> np.ndarray:
        """The aggregate over these clients [d], with the drafts in the place of what was said before."""
        return self._workings.aggregate(self._with(numbers, drafts), weights, key)

    def keep(self, numbers: Iterable[int]) -> None:
        """Forget all others: who has left does not come back under the same number. Raises where the rule needs more
        clients, before anybody trains for it."""
        stay = set(numbers)
        if len(stay) != self._fitting:
            self._check(len(stay))
        self._rows = {number: row for number, row in self._rows.items() if number in stay}

    def take(self, heard: Mapping[int, Row], drafts: Sequence[Row]) -> None:
        """The round is over: the drafts of those who were heard count, and the others' room is free."""
        replaced = [self._rows[number] for number in heard if number in self._rows]
        self._rows |= heard
        taken = set(heard.values())
        free = [row.values for row in (*replaced, *drafts) if row not in taken]
        self._room += [row for row in free if row.dtype == np.float32 and row.flags.writeable]

    def _check(self, clients: int) -> None:
        rows = jax.ShapeDtypeStruct((clients, self._d), self._like.dtype)
        weights = jax.ShapeDtypeStruct((clients,), jnp.float32)
        jax.eval_shape(partial(recalled, self._aggregator), rows, weights, jax.random.key(0))
        self._fitting = clients

    def _as_kept(self, row: np.ndarray) -> np.ndarray:
        if not is_narrow(self._like):
            return row
        narrow = np.array(as_kept(jnp.asarray(row), self._like))
        self._room.append(row)
        return narrow

    def _with(self, numbers: Sequence[int], drafts: Mapping[int, Row]) -> list[Row | None]:
        return [drafts.get(number) or self._rows.get(number) for number in numbers]


class _Sums:
    """For rules that add rows up: sums in stages, so that a new row changes few of them."""

    def __init__(self, factors: Callable[[Weights], Weights], d: int) -> None:
        self._factors_of, self._rooms = factors, Rooms(d)
        self._weights = self._factors = np.zeros(0, np.float32)
        self._tree = self._planted()

    def prepare(self, rows: Rows, weights: np.ndarray, due: np.ndarray) -> None:
        self._of(weights).prepare(rows, due)

    def aggregate(self, rows: Rows, weights: np.ndarray, key: Key) -> np.ndarray:
        return self._of(weights)(rows)

    def _of(self, weights: np.ndarray) -> Tree[Row | None, np.ndarray]:
        if not np.array_equal(weights, self._weights):
            self._weights, self._factors = weights, np.asarray(self._factors_of(jnp.asarray(weights)))
            self._tree = self._planted()
        return self._tree

    def _planted(self) -> Tree[Row | None, np.ndarray]:
        return Tree(self._added, lambda sums: summed(sums, self._rooms))

    def _added(self, groups: Sequence[Group[Row | None]]) -> list[np.ndarray]:
        return [self._sum(places, rows) for places, rows in groups]

    def _sum(self, places: slice, rows: Rows) -> np.ndarray:
        there = [(row.values, factor) for row, factor in zip(rows, self._factors[places], strict=True) if row]
        return weighed([values for values, _ in there], np.array([factor for _, factor in there]), self._rooms)


class _Table:
    """For all other rules: the rows as a table [M, d], into which they are copied as they come."""

    def __init__(self, aggregator: Aggregator, dtype: Any, d: int) -> None:
        self._recalled = jax.jit(partial(recalled, aggregator))
        self._table = np.zeros((0, d), dtype)
        self._copied: list[Row | None] = []

    def prepare(self, rows: Rows, weights: np.ndarray, due: np.ndarray) -> None:
        self._copy(rows)

    def aggregate(self, rows: Rows, weights: np.ndarray, key: Key) -> np.ndarray:
        self._copy(rows)
        with products_in("float32"):
            return np.asarray(self._recalled(self._table, weights, key))

    def _copy(self, rows: Rows) -> None:
        if len(rows) != len(self._table):
            self._table = aligned_empty((len(rows), self._table.shape[1]), self._table.dtype)  # JAX reads it in place
            self._table.fill(0)
            self._copied = [None] * len(rows)
        changed = [place for place, row in enumerate(rows) if self._copied[place] is not row]
        in_threads(partial(self._copy_one, rows), changed)
        self._copied = list(rows)

    def _copy_one(self, rows: Rows, place: int) -> None:
        row = rows[place]
        self._table[place] = 0 if row is None else row.values
