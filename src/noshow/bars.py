"""How algorithms stand, as a terminal shows it: a bar each, or a line of words."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions
from rich.text import Text

from noshow.standing import Standing

HEADINGS = ("round", "rounds/s", "left", "loss", "accuracy", "ε_t")
NARROWEST = (5, 8, 7, 6, 8, 5)
"""Letters of the columns, so that they stay where they are while numbers change."""
LABEL = 16
"""Letters of a label that fit into 80 columns; wider terminals show more."""
SHORTEST_BAR, LONGEST_BAR = 4, 40
SPINNER, POOR_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
MARKS, POOR_MARKS = {"done": "✓", "stopped": "■", "waiting": " "}, {"done": "+", "stopped": "#", "waiting": " "}
STYLES = {"done": "green", "running": "cyan", "stopped": "yellow", "waiting": "dim"}


class Bars:
    """Headings, a line an algorithm, and beneath it who is silent, as wide as the terminal.

    Where a terminal is too low for all of them, those around the running one are shown.
    """

    def __init__(self, standings: Sequence[Standing]) -> None:
        self._standings = standings

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        shown = _around_the_running(self._standings, console.size.height - 5)
        if not shown:
            return
        width = options.max_width - 1  # some terminals begin a line when the last column is filled
        rows = [_cells(one) for one in shown]
        columns = [
            max(least, *(len(row[place]) for row in rows)) + 1  # and a blank between two
            for place, least in enumerate(NARROWEST)
        ]
        label = min(max(len(one.label) for one in shown), LABEL + max(0, width - 79) // 2)
        label = max(label, len("algorithm"))
        bar = min(LONGEST_BAR, width - sum(columns) - label - 3)
        bar = bar + 1 if bar >= SHORTEST_BAR else 0
        yield _line(Text(" "), "algorithm", label, Text(" " * bar), HEADINGS, columns, "dim")
        for one, row in zip(shown, rows, strict=True):
            mark = Text(_mark(one, options.ascii_only), STYLES[one.state])
            style = "dim" if one.state == "waiting" else ""
            yield _line(mark, one.label, label, _bar(one, bar, options.ascii_only), row, columns, style)
            if words := beneath(one, width - 2):
                yield Text(f"  {words}", "dim", no_wrap=True, overflow="ellipsis")


def in_words(one: Standing) -> str:
    """A standing as a line for a log.

    Example:
        >>> in_words(Standing("gm", 300, "running", 60, rate=12.0, train_loss=0.5, test_accuracy=0.75,
        ...                   epsilon_t=0.25, silent=[3, 17], silenced=2, sampled=10))
        'gm: 60 of 300 rounds, 12.0 a second, 0:00:20 left, loss 0.5000, acc 0.7500, ε_t 0.250, silent 3, 17 (2 of 10)'
    """
    _, rate, left, *_, used = _cells(one)
    parts = [
        f"{one.label}: {'' if one.state == 'running' else f'{one.state}, '}{one.round} of {one.rounds} rounds",
        f"{rate} a second" if rate else "",
        f"{left} left" if one.seconds_left is not None else "",
        numbers(one),
        f"ε_t {used}" if used else "",
        beneath(one, width=60),
    ]
    return ", ".join(part for part in parts if part)


def numbers(one: Standing) -> str:
    """Loss and accuracy, where there are some."""
    named = {"loss": one.train_loss, "acc": one.test_accuracy}
    return ", ".join(f"{name} {_number(value)}" for name, value in named.items() if value is not None)


def beneath(one: Standing, width: int) -> str:
    """What there is to say of an algorithm beside its numbers: who is silent, as many as fit into the width.

    Example:
        >>> one = Standing("gm", 300, "running", 60, silent=[3, 17, 42], silenced=3, sampled=10)
        >>> beneath(one, 60), beneath(one, 26)
        ('silent 3, 17, 42 (3 of 10)', 'silent 3, 17, 42 (3 of 10)')
        >>> beneath(one, 25)
        'silent 3, 17 … (3 of 10)'
    """
    if one.note or one.state != "running" or not one.round:
        return one.note
    if not one.silenced:
        return f"nobody is silent (of {one.sampled})"
    seeds = f", first of {one.seeds} seeds" if one.seeds > 1 else ""
    for count in range(len(one.silent), -1, -1):
        named = ", ".join(str(client) for client in one.silent[:count])
        rest = "" if count == one.silenced else " …"
        words = f"silent {named}{rest} ({one.silenced} of {one.sampled}{seeds})"
        if len(words) <= width:
            break
    return words


def clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    Example:
        >>> clock(3725.4), clock(400000)
        ('1:02:05', '111:06:40')
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


def _cells(one: Standing) -> tuple[str, ...]:
    left = "" if one.seconds_left is None else clock(one.seconds_left)
    return (
        f"{one.round}/{one.rounds}" if one.rounds else "",
        "" if one.state != "running" or one.rate is None else _rate(one.rate),
        left if one.state == "running" else one.state,
        _number(one.train_loss),
        _number(one.test_accuracy),
        "" if one.epsilon_t is None else f"{one.epsilon_t:.3f}",
    )


def _rate(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.3g}"


def _line(
    mark: Text, label: str, width: int, bar: Text, cells: Sequence[str], columns: Sequence[int], style: str
) -> Text:
    name = Text(label, style)
    name.truncate(width, overflow="ellipsis", pad=True)
    rest = "".join(cell.rjust(column) for cell, column in zip(cells, columns, strict=True))
    line = Text.assemble(mark, " ", name, bar, Text(rest, style))
    line.no_wrap, line.overflow = True, "crop"
    return line


def _mark(one: Standing, poor: bool) -> str:
    if one.state != "running":
        return (POOR_MARKS if poor else MARKS)[one.state]
    frames = POOR_SPINNER if poor else SPINNER
    return frames[int(8 * time.monotonic()) % len(frames)]


def _bar(one: Standing, width: int, poor: bool) -> Text:
    """A blank, and a stroke of which the played part is bright."""
    whole = max(0, width - 1)
    share = one.round / one.rounds if one.rounds else float(one.state == "done")
    played = whole if one.state == "done" else min(whole, int(whole * share))
    stroke, rest = ("=", "-") if poor else ("━", "─")
    done = "bar.finished" if one.state == "done" else "bar.complete"
    return Text.assemble(" " * (width - whole), (stroke * played, done), (rest * (whole - played), "bar.back"))


def _around_the_running(standings: Sequence[Standing], lines: int) -> Sequence[Standing]:
    """As many as there are lines, the first running one among them."""
    lines = max(lines, 1)
    running = next((place for place, one in enumerate(standings) if one.state == "running"), len(standings))
    start = max(0, min(len(standings) - lines, running - lines // 2))
    return standings[start : start + lines]
