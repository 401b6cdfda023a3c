"""A run between two rounds: the model, the server's memory and who has been heard, in step with the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from flwr.app import ArrayRecord

from noshow.contracts import Server
from noshow.flower.call import Call
from noshow.flower.layout import Layout
from noshow.flower.ledger import Ledger, Metrics
from noshow.flower.roster import Member
from noshow.flower.silence import Opened
from noshow.flower.ways import Step, Terms, way_of
from noshow.randomness import Purpose, round_key, without_replacement
from noshow.recall import aggregator_of
from noshow.trace import Entry


class Session:
    """The state that a round changes; `close` keeps all of it, or nothing."""

    def __init__(self, server: Server, ledger: Ledger, settings: Metrics, layout: Layout, first: ArrayRecord) -> None:
        self._ledger = ledger
        by_rows = aggregator_of(server) is not None
        kept = ledger.take_up(settings, by_rows) or ledger.begin(settings, layout.first(first), layout.fixed)
        self.layout = layout.keeping(kept.fixed)
        self.round, self.theta, self.heard, self.metrics = kept.round, kept.theta, kept.heard, kept.metrics
        self.numbers = kept.members
        self._way = way_of(server, layout, kept.memory, kept.members, ledger.rows)

    def align(self, members: Sequence[Member]) -> None:
        """A round begins: let the memory be of these clients."""
        self.numbers = [member.number for member in members]
        self._way.align(self.numbers)
        self.heard = {number: self.heard[number] for number in self.numbers if number in self.heard}

    def listen(self, call: Call, replies: Sequence[Opened | None], due: np.ndarray, terms: Terms) -> None:
        """These replies are there by now: do what can be done before those that are due."""
        self._way.listen(call, replies, due, terms)

    def step(self, call: Call, replies: Sequence[Opened | None], terms: Terms) -> Step:
        """The model and the memory after the round that comes, if these are the answers, and their squared norms."""
        return self._way.step(self.theta, call, replies, terms)

    def close(self, step: Step, answered: Sequence[Member], entries: list[Entry], metrics: Metrics) -> None:
        """The round is over: keep what it changed."""
        t, numbers = self.round + 1, [member.number for member in answered]
        changes = self._way.changes(step.memory)
        self._ledger.close_round(t, step.theta, self.numbers, changes, numbers, entries, metrics)
        self._way.close(step.memory)
        self.round, self.theta = t, step.theta
        self.heard |= dict.fromkeys(numbers, t)
        self.metrics[t, "train"] = metrics


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
