"""A sweep in a terminal: how many cells are done and how far those in progress are; or plain lines elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from noshow.progress import progress_of
from noshow.sweep import Entry

LINES = 20
"""Cells in progress that are shown; more would not fit a screen."""


class LiveCells:
    """One bar for the sweep, one for each cell that is being run, read off the run folders twice a second."""

    def __init__(self, console: Console) -> None:
        self._entries: Sequence[Entry] = ()
        self._live = Live(console=console, get_renderable=self._picture, refresh_per_second=2)

    def __enter__(self) -> LiveCells:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        for entry in entries:
            if entry.status == "failed":
                self.changed(entry)

    def changed(self, entry: Entry) -> None:
        if entry.why:
            self._live.console.print(_told(entry))

    def _picture(self) -> Group:
        entries = list(self._entries)
        done = sum(not entry.open for entry in entries)
        cells = Table.grid(padding=(0, 1))
        cells.add_row(Text(_counts(entries)), ProgressBar(max(len(entries), 1), done, width=24), "")
        for entry in [entry for entry in entries if entry.status in ("running", "elsewhere")][:LINES]:
            cells.add_row(Text(f"  {entry.cell.name}"), *_how_far(entry))
        return Group(cells)


class PlainCells:
    """A line whenever something happens to a cell."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> PlainCells:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, entries: Sequence[Entry]) -> None:
        self._console.print(_counts(entries))
        for entry in entries:
            if entry.status == "failed":
                self.changed(entry)

    def changed(self, entry: Entry) -> None:
        self._console.print(_told(entry), soft_wrap=True)


def cells_for(console: Console) -> LiveCells | PlainCells:
    """Bars in a terminal, lines elsewhere."""
    return LiveCells(console) if console.is_terminal else PlainCells(console)


def _told(entry: Entry) -> Text:
    words = {"elsewhere": "another process is at it", "waiting": ""}.get(entry.status, entry.status)
    return Text(f"{entry.cell.name}: " + ": ".join(part for part in (words, entry.why) if part))


def _counts(entries: Sequence[Entry]) -> str:
    numbers = Counter(entry.status for entry in entries)
    rest = [f"{numbers[status]} {status}" for status in ("running", "elsewhere", "failed") if numbers[status]]
    return ", ".join([f"{numbers['done']} of {len(entries)} cells done", *rest])


def _how_far(entry: Entry) -> tuple[ProgressBar | str, str]:
    """A bar over the rounds of all the cell's algorithms, and where it is."""
    if entry.folder is None:
        return "", ""
    spec, now = entry.folder.spec, progress_of(entry.folder.path)["now"]
    if now is None or now["algorithm"] not in spec.labels:
        return "", "preparing"
    whole = sum(spec.length(label)[0] for label in spec.labels)
    finished = sum(spec.length(label)[0] for label in spec.labels[: spec.labels.index(now["algorithm"])])
    where = f"{now['algorithm']} {now['round']}/{now['rounds']}"
    return ProgressBar(max(whole, 1), finished + now["round"], width=24), where
