"""A run as its folder tells it, for whoever looks on while another process runs it, or nobody does."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from noshow.errors import NoshowError, require
from noshow.history import History
from noshow.lock import LOCK, taken
from noshow.progress import is_count, progress_of
from noshow.run import title_of
from noshow.standing import MOST_SILENT, Standing, of_history
from noshow.store import RunFolder

PROCESS = re.compile(r"process \d{1,10} on [\w.-]{1,255}", re.ASCII)
"""What a process calls itself; whatever else a file says is not brought to a terminal."""
SLOWEST = 1e-6


class View(NamedTuple):
    """A run at one moment: its title, how its algorithms stand, and one sentence on who is at it.

    `results` is another word whenever there are other results; `None` as long as the run has not begun.
    """

    title: str
    standings: list[Standing]
    sentence: str
    finished: bool
    results: str | None


class Watched:
    """A run folder that is looked at again and again. Nothing is written there.

    Example:
        >>> Watched(Path("nowhere"))
        Traceback (most recent call last):
        noshow.errors.NoshowError: there is no folder nowhere: give the folder of a run
    """

    def __init__(self, path: Path) -> None:
        require(path.is_dir(), f"there is no folder {path}: give the folder of a run")
        self._path = path
        self._folder: RunFolder | None = None
        self._kept: dict[str, tuple[int, History]] = {}
        self._begun()

    def look(self) -> View:
        """The run as it is now."""
        require(self._path.is_dir(), f"the folder {self._path} is gone")
        folder = self._begun()
        if folder is None:
            return View(str(self._path), [], f"{self._path}: the run has not begun yet; waiting for it", False, None)
        running = taken(self._path)  # first: what is not finished after it ends is not finished
        told = progress_of(self._path)
        results = self._results(folder)
        fresh = _standing_results(told, running, results)
        standings = [
            self._standing(folder, label, told["now"], running, label in fresh) for label in folder.spec.labels
        ]
        finished = not running and len(fresh) == len(folder.spec.labels)
        if running and all(one.state != "running" for one in standings):
            standings = _preparing(standings)
        times = " ".join(f"{label}:{when}" for label, when in results.items())
        return View(title_of(folder.spec), standings, self._who(told, running, finished), finished, times)

    def histories(self) -> list[History]:
        """All results, in the spec's order."""
        folder = self._begun()
        return [] if folder is None else [self._history(folder, label) for label in folder.finished]

    def _begun(self) -> RunFolder | None:
        """The run folder, once its run has written down what it is."""
        if self._folder is None and (self._path / "spec.toml").is_file():
            self._folder = RunFolder.open(self._path)
        elif self._folder is None:
            there = [file.name for file in self._path.iterdir()]
            require(not there or LOCK in there, f"{self._path} is no run folder: it has no spec.toml")
        return self._folder

    def _results(self, folder: RunFolder) -> dict[str, int]:
        """When each result was written."""
        found = {}
        for label in folder.finished:
            try:
                found[label] = (folder.path / label / "result.json").stat().st_mtime_ns
            except OSError:
                continue  # it makes way for another at this moment
        return found

    def _standing(
        self, folder: RunFolder, label: str, now: dict[str, Any] | None, running: bool, fresh: bool
    ) -> Standing:
        rounds = folder.spec.length(label)[0]
        if fresh:
            try:
                return replace(of_history(self._history(folder, label)), rounds=rounds)
            except NoshowError:
                return Standing(label, rounds, "done", rounds, note="its results cannot be read")
        if now is None or now["algorithm"] != label or now.get("done") is True:
            return Standing(label, rounds)
        return standing_of(now, rounds, running)

    def _history(self, folder: RunFolder, label: str) -> History:
        """An algorithm's results, read once."""
        written = self._results(folder).get(label, 0)
        if label not in self._kept or self._kept[label][0] != written:
            self._kept[label] = written, folder.load(label)
        return self._kept[label][1]

    def _who(self, told: dict[str, Any], running: bool, finished: bool) -> str:
        if finished:
            return "finished"
        if running:
            who = str(told["starts"][-1].get("who")) if told["starts"] else ""
            return f"run by {who if PROCESS.fullmatch(who) else 'another process'}"
        place = shlex.quote(str(self._path))
        return f"nobody is running it: `noshow run {shlex.quote(f'{self._path}/spec.toml')} --out {place}` goes on"


def standing_of(now: dict[str, Any], rounds: int, running: bool) -> Standing:
    """The standing of the algorithm that a progress file calls `now`; what is strange in it counts as not there.

    Example:
        >>> one = standing_of({"algorithm": "gm", "round": 70, "rate": 12.5, "train_loss": "small"}, 300, running=True)
        >>> one.round, one.rate, one.train_loss
        (70, 12.5, None)
    """
    silent, rate = now.get("silent"), _number(now.get("rate"))
    named = [client for client in silent if is_count(client)] if isinstance(silent, list) else []
    return Standing(
        now["algorithm"],
        rounds,
        "running" if running else "stopped",
        min(now["round"], rounds),
        rate=rate if rate is not None and rate > SLOWEST else None,
        train_loss=_number(now.get("train_loss")),
        test_accuracy=_number(now.get("test_accuracy")),
        epsilon_t=_number(now.get("epsilon_t")),
        silent=named[:MOST_SILENT],
        silenced=_count(now.get("silenced"), len(named)),
        sampled=_count(now.get("sampled"), len(named)),
        seeds=_count(now.get("seeds"), 1),
    )


def _standing_results(told: dict[str, Any], running: bool, results: Iterable[str]) -> list[str]:
    """Whose results stand. While a run starts everything over, earlier ones wait for those that replace them."""
    now = told["now"]
    at = now["algorithm"] if now is not None and now.get("done") is not True else None
    return [label for label in results if not running or (label in told["played"] and label != at)]


def _preparing(standings: list[Standing]) -> list[Standing]:
    """The first that waits is the one that is being prepared."""
    first = next((place for place, one in enumerate(standings) if one.state == "waiting"), None)
    return [
        replace(one, state="running", note="preparing") if place == first else one
        for place, one in enumerate(standings)
    ]


def _number(value: Any) -> float | None:
    plain = type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value)
    return float(value) if plain else None


def _count(value: Any, otherwise: int) -> int:
    return int(value) if is_count(value) else otherwise
