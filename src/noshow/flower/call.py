"""One round's call: who is sampled, and what became of each of them, as trace entries and as one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from flwr.app import Message

from noshow import budget
from noshow.flower.legible import legible
from noshow.flower.roster import Member
from noshow.flower.silence import Silence, claim
from noshow.trace import Entry


class Call(NamedTuple):
    """The sampled clients of round t, in the order in which they were drawn.

    `ids` are their places among the `members` of the roster; `messages` what was sent to each, `None` to those whom no
    node is known for; `sent` is the model that went out.
    """

    t: int
    members: list[Member]
    ids: np.ndarray
    messages: list[Message | None]
    sent: np.ndarray

    @property
    def sampled(self) -> list[Member]:
        """The sampled clients."""
        return [self.members[place] for place in self.ids]

    @property
    def numbers(self) -> list[int]:
        """The sampled clients' numbers on the roster."""
        return [member.number for member in self.sampled]

    @property
    def sizes(self) -> np.ndarray:
        """n_i of every registered client."""
        return np.array([member.n for member in self.members], np.int64)

    @property
    def weights(self) -> np.ndarray:
        """w_i of every registered client."""
        return (self.sizes / self.sizes.sum()).astype(np.float32)

    def replies(self, arrived: Mapping[str, Message]) -> list[Message | None]:
        """What came from each sampled client, `None` where nothing did."""
        return [None if sent is None else arrived.get(sent.metadata.message_id) for sent in self.messages]

    def due(self, arrived: Mapping[str, Message]) -> np.ndarray:
        """Who was reached and has not replied [K]."""
        return np.array([sent is not None and sent.metadata.message_id not in arrived for sent in self.messages], bool)


class Outcome(NamedTuple):
    """What became of a call: each sampled client's silence, `None` where it answered, and what it claimed of n_i."""

    call: Call
    silences: list[Silence | None]
    claims: list[int | None]

    @property
    def answered(self) -> np.ndarray:
        """Who answered [K]."""
        return np.array([silence is None for silence in self.silences], bool)

    @property
    def epsilon_t(self) -> float:
        """The used share of the law's measure K N / M."""
        silenced = sum(member.n for member, silence in self._pairs if silence is not None)
        return float(budget.used_fraction(np.array(silenced), len(self.silences), self.call.sizes))

    @property
    def responders(self) -> list[Member]:
        """Those who answered."""
        return [member for member, silence in self._pairs if silence is None]

    def entries(self) -> list[Entry]:
        """The round in the roll call."""
        now = datetime.now(UTC)
        return [
            Entry(self.call.t, member.client, "answered", "", member.n, now)
            if silence is None
            else Entry(self.call.t, member.client, "silent", silence.reason, member.n, now)
            for member, silence in self._pairs
        ]

    def line(self, late: list[str]) -> str:
        """The round in one line; `late` says what has turned out meanwhile about earlier rounds."""
        silent = [f"{legible(member.client)} ({silence})" for member, silence in self._pairs if silence is not None]
        parts = [
            f"round {self.call.t}: sampled {_listed(legible(member.client) for member in self.call.sampled)}",
            f"answered {_listed(legible(member.client) for member in self.responders)}",
            f"epsilon_t {self.epsilon_t:.3f}",
            f"silent {_listed(silent)}",
        ]
        claims = [
            f"{legible(member.client)} claims {said} examples, the roster has {member.n}"
            for member, said in zip(self.call.sampled, self.claims, strict=True)
            if said is not None and said != member.n
        ]
        return "; ".join(parts + claims + ([f"since learned {_listed(map(legible, late))}"] if late else []))

    @property
    def _pairs(self) -> list[tuple[Member, Silence | None]]:
        return list(zip(self.call.sampled, self.silences, strict=True))


def claims_of(replies: list[Message | None]) -> list[int | None]:
    """What the replies claim of n_i."""
    return [claim(reply.content) if reply is not None and reply.has_content() else None for reply in replies]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nobody"
