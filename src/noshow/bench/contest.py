"""A contest: absent peers are named, wrong ones are shown as failed, the others take turns with noshow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from noshow.bench.task import Play, Turn
from noshow.errors import NoshowError, require


class Contestant(NamedTuple):
    """Someone who can play: `begin` gets ready, and leaves to the stack what has to be ended later.

    `needs` names the packages without which it cannot play, and `install` what to give `pip install` to have them.
    """

    name: str
    begin: Callable[[ExitStack], Play]
    needs: tuple[str, ...] = ()
    install: str = ""

    @property
    def missing(self) -> str | None:
        """Why it cannot play here, or nothing."""
        gone = [package for package in self.needs if find_spec(package) is None]
        return f"not installed: pip install {self.install}" if gone else None


class Work(NamedTuple):
    """What is played: who plays it, how long a turn is, and when two final models count as the same.

    `tolerance` is a share of the way from the start to noshow's model after `check_rounds` rounds. `whole` is how many
    rounds an experiment of this kind has, if its length is worth projecting. `repeats` are given for works too long
    to be repeated as often as others.
    """

    letter: str
    title: str
    unit: str
    start: np.ndarray
    own: Contestant
    peers: list[Contestant]
    rounds: int
    check_rounds: int = 1
    tolerance: float = 1e-3
    whole: int | None = None
    repeats: int | None = None


@dataclass
class Outcome:
    """How a contestant fared: seconds a round of each turn; without turns, `reason` says why."""

    name: str
    seconds: list[float] = field(default_factory=list)
    apart: float | None = None
    reason: str | None = None


def contest(work: Work, repeats: int, tell: Callable[[str], None] = lambda sentence: None) -> list[Outcome]:
    """Check everybody against noshow, then time all who passed, in turns; noshow is the first of the outcomes."""
    require(repeats >= 1, f"repeats is {repeats}: give 1 or more")
    with ExitStack() as stack:
        tell(f"{work.title}: getting ready")
        play = work.own.begin(stack)
        ours = play(work.check_rounds, True).answer
        own = Outcome(work.own.name, apart=0.0)
        outcomes, playing = [own], [(own, play)]
        for peer in work.peers:
            outcome = Outcome(peer.name, reason=peer.missing)
            outcomes.append(outcome)
            if outcome.reason is None:
                tell(f"{peer.name}: the same work?")
                admitted = _admit(peer, stack, work, ours, outcome)
                playing += [(outcome, admitted)] if admitted else []
        for outcome, play in playing:
            tell(f"{outcome.name}: warming up")
            play(work.check_rounds, False)
        repeats = work.repeats or repeats
        for repeat in range(repeats):
            for outcome, play in playing:
                tell(f"turn {repeat + 1} of {repeats}: {outcome.name}")
                outcome.seconds.append(play(work.rounds, False).seconds)
    return outcomes


def _admit(peer: Contestant, stack: ExitStack, work: Work, ours: np.ndarray, outcome: Outcome) -> Play | None:
    """The peer's play, if it ends where noshow does."""
    try:
        play = peer.begin(stack)
        turn: Turn = play(work.check_rounds, True)
    except NoshowError as error:
        outcome.reason = f"does not run: {error}"
        return None
    outcome.apart = apart(turn.answer, ours, work.start)
    if not outcome.apart <= work.tolerance:
        outcome.reason = f"does other work: its model is off by {outcome.apart:.1e} of the way gone"
        return None
    return play


def apart(theirs: Sequence[float] | np.ndarray, ours: np.ndarray, start: np.ndarray) -> float:
    """How far two models are from each other, as a share of the way gone from the start.

    Example:
        >>> import numpy as np
        >>> apart(np.array([1.0, 1.0]), np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
        0.5
    """
    their, our, first = (np.asarray(vector, np.float64) for vector in (theirs, ours, start))
    if their.shape != our.shape:
        return float("inf")
    return float(np.linalg.norm(their - our) / np.linalg.norm(our - first))
