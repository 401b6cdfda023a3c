"""Sums in stages: groups of neighbours, groups of groups, and so on, each worked out again only where it has changed.

Replies come one by one, and floating-point sums depend on their order: what is added up group by group, by clients'
places, can be begun before all replies are there and is still the same to the last bit, however they come. A group is
begun when all of it is there: with one that comes later, all of it would have to be worked on again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from operator import is_
from typing import Any, Generic, TypeVar

import numpy as np

Item = TypeVar("Item")
Out = TypeVar("Out")

Group = tuple[slice, Sequence[Item]]
"""Where the items of a group stand, and the items."""


GROUP = 4
"""Items in a group: with more, more of them are gone through after a change; with fewer, more sums are kept."""


class Tree(Generic[Item, Out]):
    """What `begin` gives for groups of items, and `join` for groups of that, until one is left.

    Example:
        >>> begun = []
        >>> words = Tree(lambda groups: begun.extend(groups) or ["".join(group) for _, group in groups], "".join)
        >>> words("abcde"), words("abcdX"), begun
        ('abcde', 'abcdX', [(slice(0, 4, None), 'abcd'), (slice(4, 8, None), 'e'), (slice(4, 8, None), 'X')])
        >>> words.prepare("Y?ZWV", due=[False, True, False, False, False])
        >>> begun[3:]
        [(slice(4, 8, None), 'V')]
    """

    def __init__(
        self, begin: Callable[[Sequence[Group[Item]]], Sequence[Out]], join: Callable[[Sequence[Out]], Out]
    ) -> None:
        self._begin, self._join = begin, join
        self._known: dict[tuple[int, int], tuple[Sequence[Any], Out]] = {}

    def __call__(self, items: Sequence[Item]) -> Out:
        """What there is when one is left."""
        return self._grown(items, np.zeros(len(items), bool))[0]

    def prepare(self, items: Sequence[Item], due: Sequence[bool] | np.ndarray) -> None:
        """Work on the groups in which no item is due: those that are may be others when they are asked for."""
        self._grown(items, np.asarray(due))

    def _grown(self, items: Sequence[Item], due: np.ndarray) -> list[Out]:
        stage = 0
        outs, due = self._staged(stage, items, due, self._begin)
        while len(outs) > 1:
            stage += 1
            outs, due = self._staged(stage, outs, due, self._joined)
        return outs

    def _joined(self, groups: Sequence[Group[Out]]) -> list[Out]:
        return [self._join(outs) for _, outs in groups]

    def _staged(
        self, stage: int, items: Sequence[Any], due: np.ndarray, work: Callable[..., Sequence[Out]]
    ) -> tuple[list[Any], np.ndarray]:
        """The groups of this stage, `None` for those that are due, and which are."""
        groups = [(slice(k, k + GROUP), items[k : k + GROUP]) for k in range(0, len(items), GROUP)]
        later = np.array([due[places].any() for places, _ in groups], bool)
        ready = [group for group, waits in zip(groups, later, strict=True) if not waits]
        new = [(places, group) for places, group in ready if not self._knows(stage, places, group)]
        # The items themselves are held, so that none of another time can be taken for one of them.
        for (places, group), out in zip(new, work(new) if new else [], strict=True):
            self._known[stage, places.start] = group, out
        done = {places.start: self._known[stage, places.start][1] for places, _ in ready}
        return [done.get(places.start) for places, _ in groups], later

    def _knows(self, stage: int, places: slice, group: Sequence[Any]) -> bool:
        known, _ = self._known.get((stage, places.start), ([], None))
        return len(known) == len(group) and all(starmap(is_, zip(known, group, strict=True)))
