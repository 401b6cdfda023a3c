"""A run that another process runs, in this terminal: its bars, or plain lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from noshow.bars import Bars, in_words
from noshow.display import REFRESHES, SECONDS_BETWEEN_LINES
from noshow.history import History
from noshow.watch import View, Watched

SECONDS_BETWEEN_LOOKS = 0.5


class LiveView:
    """The bars of all algorithms, those that wait as well, and who is at it."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=REFRESHES)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, view: View) -> None:
        title = [Text(view.title, "bold", no_wrap=True, overflow="ellipsis")] if view.standings else []
        self._live.update(Group(*title, Bars(view.standings), Text(view.sentence)))


class PlainView:
    """A line when something has changed, and one every half minute."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._before: View | None = None
        self._said = time.monotonic()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, view: View) -> None:
        lines = list(changes(self._before, view))
        if not lines and time.monotonic() >= self._said + SECONDS_BETWEEN_LINES:
            lines = [in_words(one) for one in view.standings if one.state == "running"]
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
            self._said = time.monotonic()
        self._before = view


def follow(watched: Watched, console: Console) -> list[History]:
    """Show the run until it is finished; its results."""
    with LiveView(console) if console.is_terminal else PlainView(console) as shown:
        while True:
            view = watched.look()
            shown.show(view)
            if view.finished:
                return watched.histories()
            time.sleep(SECONDS_BETWEEN_LOOKS)


def changes(before: View | None, after: View) -> Iterator[str]:
    """What is to be told of a run since the last look: who is at it, and what has begun, ended or stopped."""
    if before is None or before.sentence != after.sentence:
        yield f"{after.title}: {after.sentence}" if after.standings else after.sentence
    known = {one.label: (one.state, one.note) for one in before.standings} if before is not None else {}
    for one in after.standings:
        if one.state != "waiting" and known.get(one.label) != (one.state, one.note):
            yield in_words(one)
