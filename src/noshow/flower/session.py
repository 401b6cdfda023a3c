"""A run between two rounds: the model, the server's memory and who has been heard, in step with the ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from flwr.app import ArrayRecord

from noshow.contracts import Memory, Replies, Server
from noshow.federation import aligned_empty
from noshow.flower.call import Call
from noshow.flower.hearing import added_up, laid_out
from noshow.flower.layout import Layout
from noshow.flower.ledger import Ledger, Metrics
from noshow.flower.memory import assembled, carried, changed, pieces
from noshow.flower.roster import Member
from noshow.flower.silence import Opened, Sends
from noshow.precision import products_in
from noshow.randomness import Purpose, round_key, without_replacement
from noshow.trace import Entry


class Terms(NamedTuple):
    """What a round is played by, beside its call."""

    seed: int
    rate: float
    sends: Sends


class Step(NamedTuple):
    """Where the server would go, and the squared norms of the replies that lead there."""

    theta: np.ndarray
    memory: Memory
    squares: np.ndarray


class Session:
    """The state that a round changes; `close` keeps all of it, or nothing."""

    def __init__(self, server: Server, ledger: Ledger, settings: Metrics, layout: Layout, first: ArrayRecord) -> None:
        self._server, self._ledger = server, ledger
        kept = ledger.kept(settings) or ledger.begin(settings, layout.first(first), layout.fixed)
        self.layout = layout.keeping(kept.fixed)
        self.round, self.theta, self.heard, self.metrics = kept.round, kept.theta, kept.heard, kept.metrics
        self._numbers = kept.members
        self._memory: Memory = assembled(server, layout.d, kept.memory, kept.members)
        self._update = _updater(server)
        self._rows = np.zeros((0, layout.d), np.float32)

    def align(self, members: Sequence[Member]) -> None:
        """Let the memory be of these clients."""
        numbers = [member.number for member in members]
        if numbers != self._numbers:
            self._memory = carried(self._server, self.layout.d, self._memory, self._numbers, numbers)
            self._numbers = numbers

    def step(self, call: Call, replies: Sequence[Opened | None], terms: Terms) -> Step:
        """The model and the memory after the round that comes, if these are the answers, and their squared norms."""
        answered = np.array([reply is not None for reply in replies], bool)
        if self._server.linear:
            unit = np.eye(len(replies), dtype=np.float32)
            _, factors = self._stepped(None, unit[0] * 0, unit, call, answered, terms)
            heard = added_up(replies, self.layout, call.sent, terms.sends, factors)
            return Step(self.theta + heard.total, self._memory, heard.squares)
        rows = self._room_for(len(replies))
        squares = laid_out(replies, self.layout, call.sent, terms.sends, rows)
        memory, theta = self._stepped(self._memory, self.theta, rows, call, answered, terms)
        return Step(theta, memory, squares)

    def _stepped(
        self, memory: Memory, theta: np.ndarray, rows: np.ndarray, call: Call, answered: np.ndarray, terms: Terms
    ) -> tuple[Memory, np.ndarray]:
        key = round_key(terms.seed, self.round, Purpose.SERVER)
        rate = np.float32(terms.rate)
        with products_in("float32"):
            memory, moved = self._update(memory, theta, rows, call.ids, answered, call.weights, key, rate, terms.sends)
        return memory, np.asarray(moved)

    def _room_for(self, replies: int) -> np.ndarray:
        """Rows for the replies, the same ones every round: fresh memory would cost more than what is written to it."""
        if len(self._rows) != replies:
            self._rows = aligned_empty((replies, self.layout.d), np.float32)  # which JAX reads where it lies
        return self._rows

    def close(
        self, theta: np.ndarray, memory: Memory, answered: Sequence[Member], entries: list[Entry], metrics: Metrics
    ) -> None:
        """The round is over: keep what it changed."""
        t, numbers = self.round + 1, [member.number for member in answered]
        self._ledger.close_round(t, theta, self._numbers, self._changes(memory), numbers, entries, metrics)
        self.round, self.theta, self._memory = t, theta, memory
        self.heard |= dict.fromkeys(numbers, t)
        self.metrics[t, "train"] = metrics

    def _changes(self, memory: Memory) -> dict[tuple[int, int], np.ndarray]:
        if memory is self._memory:
            return {}
        before, after = (pieces(self._server, self.layout.d, state, self._numbers) for state in (self._memory, memory))
        return changed(before, after)


def _updater(server: Server) -> Callable[..., tuple[Memory, Any]]:
    """The server's step, compiled."""

    def update(
        memory: Memory,
        theta: Any,
        rows: Any,
        ids: Any,
        answered: Any,
        weights: Any,
        key: Any,
        rate: Any,
        sends: Sends,
    ) -> tuple[Memory, Any]:
        said: Literal["displacement", "gradient"] = "gradient" if sends == "gradient" else "displacement"
        return server.step(memory, theta, Replies(rows, ids, answered, weights[ids], weights, key, said), rate)

    return jax.jit(update, static_argnames="sends")


def sample(seed: int, t: int, clients: int, sampled: int) -> np.ndarray:
    """The places of the clients that are sampled in round t = 0, 1, 2, …: the simulator's, for the same seed.

    Example:
        >>> sorted(sample(seed=0, t=3, clients=4, sampled=9).tolist())
        [0, 1, 2, 3]
    """
    return np.asarray(_sample(np.uint32(seed), t, clients, min(sampled, clients)))


@partial(jax.jit, static_argnums=3)
def _sample(seed: Any, t: int, clients: int, sampled: int) -> Any:
    return without_replacement(round_key(seed, t, Purpose.SAMPLE), clients, sampled)
