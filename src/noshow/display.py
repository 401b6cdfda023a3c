"""A run in a terminal: live bars, or plain lines where there is no terminal; and the table at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from noshow.divergence import in_words
from noshow.evaluate import Metrics
from noshow.history import History


class LiveBars:
    """A bar an algorithm, with its current loss and accuracy."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[now]}"),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> LiveBars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextmanager
    def preparing(self, adversary: str) -> Iterator[None]:
        task = self._progress.add_task(adversary, total=None, now="the adversary prepares")
        yield
        self._progress.remove_task(task)

    def begin(self, label: str, rounds: int) -> None:
        self._tasks[label] = self._progress.add_task(label, total=rounds, now="compiling")

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        self._progress.update(self._tasks[label], completed=t, now=_now(metrics))

    def finish(self, history: History, seen_before: bool) -> None:
        if seen_before:
            self._progress.console.print(f"[green]✓[/] {history.algorithm:<16} finished before: not run again")
        elif (diverged := in_words(history.diverged_at)) is not None:
            self._progress.update(self._tasks[history.algorithm], now=diverged)

    def note(self, sentence: str) -> None:
        self._progress.console.print(sentence, markup=False, highlight=False)


class PlainLines:
    """One line when an algorithm starts and one when it is done."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @contextmanager
    def preparing(self, adversary: str) -> Iterator[None]:
        self._console.print(f"{adversary}: the adversary prepares")
        yield

    def begin(self, label: str, rounds: int) -> None:
        self._console.print(f"{label}: {rounds} rounds")

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        return None

    def finish(self, history: History, seen_before: bool) -> None:
        last = Metrics(*(column[:, -1] for column in history.scores))
        how = "finished before, not run again" if seen_before else f"done in {history.seconds:.1f} s"
        self._console.print(f"{history.algorithm}: {how}, {in_words(history.diverged_at) or _now(last)}")

    def note(self, sentence: str) -> None:
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


def _now(metrics: Metrics) -> str:
    return f"loss {np.mean(metrics.train_loss):.4f}, acc {np.mean(metrics.test_accuracy):.4f}"
