"""What has changed on the roster, in sentences for the log."""

from __future__ import annotations

from collections.abc import Sequence

from noshow.flower.legible import legible
from noshow.flower.roster import Member


def news(before: Sequence[Member], now: Sequence[Member]) -> list[str]:
    """Who has left, who has joined, and whose number of examples is another.

    Example:
        >>> news([Member(1, "a", 10, None), Member(2, "b", 10, None)], [Member(2, "b", 30, None)])
        ['client a has left with its 10 examples', 'client b has 30 examples now, and had 10']
    """
    was, there = ({member.number: member for member in members} for members in (before, now))
    left = [f"client {legible(m.client)} has left with its {m.n} examples" for m in before if m.number not in there]
    joined = [f"client {legible(m.client)} has joined with {m.n} examples" for m in now if m.number not in was]
    changed = [
        f"client {legible(m.client)} has {m.n} examples now, and had {was[m.number].n}"
        for m in now
        if m.number in was and was[m.number].n != m.n
    ]
    return [*left, *joined, *changed]
