"""A display that tells trackers what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from noshow.evaluate import Metrics
from noshow.history import History, RollCall
from noshow.run import Display
from noshow.spec import Spec
from noshow.trackers import Tracker


class Telling:
    """Shows all that the display shows, and tells the trackers of one experiment what runs now."""

    def __init__(self, display: Display, trackers: Sequence[Tracker], spec: Spec) -> None:
        self._display, self._trackers, self._spec = display, trackers, spec

    def preparing(self, adversary: str) -> AbstractContextManager[None]:
        return self._display.preparing(adversary)

    def begin(self, label: str, rounds: int) -> None:
        self._display.begin(label, rounds)
        for each in self._trackers:
            each.begin(self._spec, label)

    def played(self, label: str, t: int, call: RollCall) -> None:
        self._display.played(label, t, call)

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        self._display.evaluated(label, t, metrics)
        for each in self._trackers:
            each.evaluated(label, t, metrics)

    def finish(self, history: History, seen_before: bool) -> None:
        self._display.finish(history, seen_before)
        for each in () if seen_before else self._trackers:
            each.finish(history)

    def note(self, sentence: str) -> None:
        self._display.note(sentence)
