"""A run in a terminal: live bars, or plain lines where there is no terminal; and the table at its end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from noshow.bars import Bars, in_words, numbers
from noshow.evaluate import Metrics
from noshow.history import History, RollCall
from noshow.standing import Standings, of_history

REFRESHES = 4
"""Pictures a second."""
SECONDS_BETWEEN_LINES = 30.0


class LiveBars:
    """A bar an algorithm with its current numbers, and who is silent."""

    def __init__(self, console: Console) -> None:
        self._standings = Standings()
        self._live = Live(console=console, get_renderable=self._picture, refresh_per_second=REFRESHES)

    def __enter__(self) -> LiveBars:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @contextmanager
    def preparing(self, adversary: str) -> Iterator[None]:
        self._standings.begin(adversary, rounds=0, note="the adversary prepares")
        yield
        self._standings.drop(adversary)

    def begin(self, label: str, rounds: int) -> None:
        self._standings.begin(label, rounds)

    def played(self, label: str, t: int, call: RollCall) -> None:
        self._standings.played(label, t, call)

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        self._standings.evaluated(label, metrics)

    def finish(self, history: History, seen_before: bool) -> None:
        self._standings.finish(history)
        if seen_before:
            self.note(f"{history.algorithm} finished before: not run again")

    def note(self, sentence: str) -> None:
        self._live.console.print(sentence, markup=False, highlight=False)

    def _picture(self) -> Bars:
        return Bars(self._standings.all())


class PlainLines:
    """One line when an algorithm starts, one when it is done, and one every half minute between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._standings = Standings()
        self._said = time.monotonic()

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @contextmanager
    def preparing(self, adversary: str) -> Iterator[None]:
        self.note(f"{adversary}: the adversary prepares")
        yield

    def begin(self, label: str, rounds: int) -> None:
        self._standings.begin(label, rounds)
        self.note(f"{label}: {rounds} rounds")

    def played(self, label: str, t: int, call: RollCall) -> None:
        self._standings.played(label, t, call)
        if time.monotonic() >= self._said + SECONDS_BETWEEN_LINES:
            self.note(in_words(self._standings[label]))

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        self._standings.evaluated(label, metrics)

    def finish(self, history: History, seen_before: bool) -> None:
        done = of_history(history)
        how = "finished before, not run again" if seen_before else f"done in {history.seconds:.1f} s"
        self.note(f"{history.algorithm}: {how}, {done.note or numbers(done)}")

    def note(self, sentence: str) -> None:
        self._said = time.monotonic()
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def display_for(console: Console) -> LiveBars | PlainLines:
    """Bars in a terminal, lines elsewhere."""
    return LiveBars(console) if console.is_terminal else PlainLines(console)


def result_table(histories: Sequence[History]) -> Table:
    """The numbers of a run, one line an algorithm."""
    table = Table(caption="± is the spread over the last quarter of the evaluations", caption_justify="left")
    table.add_column("algorithm", no_wrap=True)
    for heading in ("train loss", "test accuracy", "mean ε_t", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for history in histories:
        line = history.summary()
        table.add_row(
            line.algorithm,
            line.diverged or f"{line.train_loss:.4f} ± {line.train_loss_spread:.4f}",
            "–" if line.diverged else f"{line.test_accuracy:.4f} ± {line.test_accuracy_spread:.4f}",
            f"{line.mean_epsilon_t:.3f}",
            f"{line.seconds:.1f}",
        )
    return table
