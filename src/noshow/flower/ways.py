"""Three ways to a server's step, by what the server says of itself. Two begin as soon as a reply is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import jax
import numpy as np

from noshow.contracts import Memory, Replies, Server
from noshow.federation import aligned_empty
from noshow.flower.ahead import RowsAhead
from noshow.flower.call import Call
from noshow.flower.hearing import Heard, Weighty, added_up, laid_out, summed
from noshow.flower.layout import Layout
from noshow.flower.memory import assembled, carried, changed, pieces
from noshow.flower.recollection import Draft, Recollection
from noshow.flower.rooms import Rooms
from noshow.flower.silence import Opened, Sends
from noshow.flower.tree import Group, Tree
from noshow.precision import products_in
from noshow.randomness import Purpose, round_key
from noshow.recall import aggregator_of

Pieces = dict[tuple[int, int], np.ndarray]
"""What of a memory is to be kept: (array, client's number) -> values."""


class Terms(NamedTuple):
    """What a round is played by, beside its call."""

    seed: int
    rate: float
    sends: Sends

    def key(self, t: int) -> Any:
        """The server's key in round t = 1, 2, …"""
        return round_key(self.seed, t - 1, Purpose.SERVER)


class Step(NamedTuple):
    """Where the server would go, what it would remember, and the squared norms of the replies that lead there."""

    theta: np.ndarray
    memory: Memory
    squares: np.ndarray


class Way(Protocol):
    """From replies to a step. `align` begins a round, `close` ends it."""

    def align(self, numbers: list[int]) -> None:
        """Let the memory be of these clients."""

    def listen(self, call: Call, replies: Sequence[Opened | None], due: np.ndarray, terms: Terms) -> None:
        """These are there by now: do what can be done before those that are due."""

    def step(self, theta: np.ndarray, call: Call, replies: Sequence[Opened | None], terms: Terms) -> Step:
        """The step, if these are the answers."""

    def changes(self, memory: Memory) -> Pieces:
        """What of this memory is not on disk."""

    def close(self, memory: Memory) -> None:
        """Go on with this memory."""


def way_of(
    server: Server, layout: Layout, kept: Mapping[tuple[int, int], bytes], members: list[int], rows: RowsAhead
) -> Way:
    """The quickest way that the server allows, with the memory that was kept of these clients."""
    if server.linear:
        return Adding(server, layout)
    aggregator = aggregator_of(server)
    if aggregator is not None:
        like = jax.eval_shape(lambda: server.init(layout.d, 1))
        known = {number: piece for (_, number), piece in kept.items()}
        return Recalling(Recollection(aggregator, like, layout.d, known), layout, rows)
    return Whole(server, layout, assembled(server, layout.d, kept, members), members)


class Adding:
    """For rules that add replies up: what such a rule does with each is one number, its own answer to unit replies."""

    def __init__(self, server: Server, layout: Layout) -> None:
        self._update, self._layout, self._rooms = _updater(server), layout, Rooms(layout.d)
        self._sums: Tree[Opened | None, Heard] | None = None

    def align(self, numbers: list[int]) -> None:
        self._sums = None

    def listen(self, call: Call, replies: Sequence[Opened | None], due: np.ndarray, terms: Terms) -> None:
        self._tree(call, terms).prepare(replies, due)

    def step(self, theta: np.ndarray, call: Call, replies: Sequence[Opened | None], terms: Terms) -> Step:
        unit, answered = np.eye(len(replies), dtype=np.float32), _answered(replies)
        _, factors = self._update(None, np.zeros_like(unit[0]), unit, call, answered, terms)
        heard = self._heard(call, replies, terms, factors)
        with np.errstate(all="ignore"):
            return Step(np.add(theta, heard.total, out=heard.total), None, heard.squares)

    def changes(self, memory: Memory) -> Pieces:
        return {}

    def close(self, memory: Memory) -> None:
        self._sums = None

    def _heard(self, call: Call, replies: Sequence[Opened | None], terms: Terms, factors: np.ndarray) -> Heard:
        """The sum of factor times reply: of sums that are there already where the factors go by clients' weights."""
        gain = _gain(factors, call.weights[call.ids], _answered(replies))
        if gain is None:
            return added_up([Weighty(replies, factors)], self._layout, call.sent, terms.sends, self._rooms)[0]
        heard = self._tree(call, terms)(replies)
        with np.errstate(all="ignore"):
            return heard._replace(total=np.multiply(heard.total, gain, out=self._rooms()))

    def _tree(self, call: Call, terms: Terms) -> Tree[Opened | None, Heard]:
        if self._sums is None:
            weights = call.weights[call.ids]

            def begin(groups: Sequence[Group[Opened | None]]) -> list[Heard]:
                weighty = [Weighty(said, weights[places]) for places, said in groups]
                return added_up(weighty, self._layout, call.sent, terms.sends, self._rooms)

            self._sums = Tree(begin, self._joined)
        return self._sums

    def _joined(self, parts: Sequence[Heard]) -> Heard:
        total = summed([part.total for part in parts], self._rooms)
        return Heard(total, np.concatenate([part.squares for part in parts]))


class Recalling:
    """For rules that aggregate what each client said last: a reply becomes its client's row, written as it comes."""

    def __init__(self, recollection: Recollection, layout: Layout, rows: RowsAhead) -> None:
        self._recollection, self._layout, self._rows = recollection, layout, rows
        self._numbers: list[int] = []
        self._drafts: dict[int, Draft] = {}

    def align(self, numbers: list[int]) -> None:
        self._recollection.keep(numbers)
        self._numbers, self._drafts = numbers, {}

    def listen(self, call: Call, replies: Sequence[Opened | None], due: np.ndarray, terms: Terms) -> None:
        numbers = call.numbers
        rows = {numbers[place]: draft.row for place, draft in self._drafted(call, replies, terms).items()}
        self._recollection.prepare(
            self._numbers, rows, call.weights, np.isin(np.arange(len(self._numbers)), call.ids[due])
        )

    def step(self, theta: np.ndarray, call: Call, replies: Sequence[Opened | None], terms: Terms) -> Step:
        drafts, numbers = self._drafted(call, replies, terms), call.numbers
        rows = {numbers[place]: draft.row for place, draft in drafts.items()}
        point = self._recollection.aggregate(self._numbers, rows, call.weights, terms.key(call.t))
        squares = np.array([drafts[place].square if place in drafts else 0.0 for place in range(len(replies))])
        with np.errstate(all="ignore"):
            moved = np.multiply(point, np.float32(terms.rate))
            return Step(np.subtract(theta, moved, out=moved), rows, squares)

    def changes(self, memory: Memory) -> Pieces:
        return {}

    def close(self, memory: Memory) -> None:
        self._recollection.take(memory, [draft.row for draft in self._drafts.values()])
        self._drafts = {}

    def _drafted(self, call: Call, replies: Sequence[Opened | None], terms: Terms) -> dict[int, Draft]:
        """Replies as rows that may come to count; what is new among them begins to be kept."""
        answers = {place: reply for place, reply in enumerate(replies) if reply is not None}
        known = {place for place, draft in self._drafts.items() if draft.reply is answers.get(place)}
        new = {place: reply for place, reply in answers.items() if place not in known}
        drafts = self._recollection.drafted(list(new.values()), self._layout, call.sent, terms.sends, terms.rate)
        numbers = call.numbers
        for place, draft in zip(new, drafts, strict=True):
            self._drafts[place] = draft
            self._rows.write(call.t, numbers[place], draft.row.values)
        return {place: self._drafts[place] for place in answers}


class Whole:
    """For all other rules: replies as a table, and the memory as the rule itself has it."""

    def __init__(self, server: Server, layout: Layout, memory: Memory, numbers: list[int]) -> None:
        self._server, self._layout, self._memory, self._numbers = server, layout, memory, numbers
        self._update = _updater(server)
        self._rows = np.zeros((0, layout.d), np.float32)

    def align(self, numbers: list[int]) -> None:
        if numbers != self._numbers:
            self._memory = carried(self._server, self._layout.d, self._memory, self._numbers, numbers)
            self._numbers = numbers

    def listen(self, call: Call, replies: Sequence[Opened | None], due: np.ndarray, terms: Terms) -> None:
        """The rule takes all of a round's replies at once."""

    def step(self, theta: np.ndarray, call: Call, replies: Sequence[Opened | None], terms: Terms) -> Step:
        # The same rows every round: fresh memory would cost more than writing to it.
        if len(self._rows) != len(replies):
            self._rows = aligned_empty((len(replies), self._layout.d), np.float32)  # which JAX reads where it lies
        squares = laid_out(replies, self._layout, call.sent, terms.sends, self._rows)
        memory, moved = self._update(self._memory, theta, self._rows, call, _answered(replies), terms)
        return Step(moved, memory, squares)

    def changes(self, memory: Memory) -> Pieces:
        if memory is self._memory:
            return {}
        states = (self._memory, memory)
        before, after = (pieces(self._server, self._layout.d, state, self._numbers) for state in states)
        return changed(before, after)

    def close(self, memory: Memory) -> None:
        self._memory = memory


def _answered(replies: Sequence[Opened | None]) -> np.ndarray:
    return np.array([reply is not None for reply in replies], bool)


def _gain(factors: np.ndarray, weights: np.ndarray, answered: np.ndarray) -> np.float32 | None:
    """What weights are to be multiplied with to give the factors of those who answered, if that is one number.

    Example:
        >>> _gain(np.array([0.5, 0.5, 0.0]), np.array([0.1, 0.1, 0.8]), np.array([True, True, False])).item()
        5.0
        >>> _gain(np.array([0.5, 0.6]), np.array([0.1, 0.1]), np.array([True, True])) is None
        True
    """
    if not answered.any():
        return np.float32(0)
    gains = factors[answered].astype(np.float64) / weights[answered]
    alike = np.ptp(gains) <= 1e-6 * np.abs(gains).max()
    return np.float32(gains.mean()) if alike else None


def _updater(server: Server) -> Callable[..., tuple[Memory, np.ndarray]]:
    """The server's step, compiled."""

    def update(
        memory: Memory, theta: Any, rows: Any, ids: Any, answered: Any, weights: Any, key: Any, rate: Any, sends: Sends
    ) -> tuple[Memory, Any]:
        said: Literal["displacement", "gradient"] = "gradient" if sends == "gradient" else "displacement"
        return server.step(memory, theta, Replies(rows, ids, answered, weights[ids], weights, key, said), rate)

    compiled = jax.jit(update, static_argnames="sends")

    def stepped(
        memory: Memory, theta: np.ndarray, rows: np.ndarray, call: Call, answered: np.ndarray, terms: Terms
    ) -> tuple[Memory, np.ndarray]:
        key, rate = terms.key(call.t), np.float32(terms.rate)
        with products_in("float32"):
            memory, moved = compiled(memory, theta, rows, call.ids, answered, call.weights, key, rate, terms.sends)
        return memory, np.asarray(moved)

    return stepped
