"""Runs put aside on disk: between two chunks of rounds, a snapshot in one file, and the one before it beside it.

A file is a plain .npz archive with its SHA-256 at the end. It is written under another name and renamed; should the
newest be torn or damaged all the same, the one before is used.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noshow.arrays import load_arrays, save_arrays
from noshow.clock import Clock
from noshow.diagnostics import Diagnosis
from noshow.engine import Simulation, Snapshot
from noshow.errors import NoshowError
from noshow.evaluate import Metrics
from noshow.files import write_whole

SECONDS_BETWEEN = 30.0
LARGEST_SHARE = 0.05
"""Checkpoints of large memories come less often, so that they take no more than this share of the time."""


class Found(NamedTuple):
    """The snapshot to go on from, if there is one, and what the user should know about it, if there is something."""

    snapshot: Snapshot | None
    note: str | None = None


class Checkpoints:
    """The checkpoints of one run: the newest in `file`, the one before in the file of that name with `.before`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import noshow as ns
        >>> run = ns.Simulation(ns.datasets.synthetic(clients=8, sizes=40), ns.models.logistic(),
        ...                     ns.algorithms.mifa(0.01, steps=2), sampled=4, rounds=6, evaluate_every=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     kept = Checkpoints(Path(folder) / "mifa.npz")
        ...     for _ in range(2):
        ...         kept.save(run.snapshot())
        ...         _ = run.advance()
        ...     _ = kept.file.write_bytes(b"damaged")
        ...     print(kept.newest().note)
        the newest checkpoint of mifa is damaged: the one before it is used, after 0 rounds
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._before = file.with_name(f"{file.name}.before")

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot as the newest."""

        def write(part: Path) -> None:
            _write(part, _arrays(snapshot))
            if self.file.exists():
                self.file.replace(self._before)

        write_whole(self.file, write)

    def newest(self) -> Found:
        """The newest snapshot that is whole. A damaged one makes way for the one before it."""
        self._clear_parts()
        label = self.file.name.removesuffix(".npz")
        snapshot = _read(self.file)
        if snapshot is not None:
            return Found(snapshot)
        torn = self.file.exists()
        snapshot = _read(self._before)
        if snapshot is None:
            lost = torn or self._before.exists()
            return Found(None, f"no checkpoint of {label} is whole: it starts over" if lost else None)
        self._before.replace(self.file)
        note = f"the newest checkpoint of {label} is damaged: the one before it is used, after {snapshot.t} rounds"
        return Found(snapshot, note if torn else None)

    def forget(self) -> None:
        """Remove them: the run is finished, or starts over."""
        for file in (self.file, self._before):
            file.unlink(missing_ok=True)
        self._clear_parts()
        if self.file.parent.is_dir() and not any(self.file.parent.iterdir()):
            self.file.parent.rmdir()

    def _clear_parts(self) -> None:
        """Remove what a process left that was killed while it wrote."""
        for part in self.file.parent.glob(f".{self.file.name}.*"):
            part.unlink()


def play(
    runs: Sequence[Simulation],
    kept: Sequence[Checkpoints],
    clock: Clock,
    watch: Callable[[int, bool], None],
    seconds_between: float = SECONDS_BETWEEN,
) -> bool:
    """Play runs on, in step, until they are done, or put them aside when time is up; whether they are done.

    `watch` is called after every chunk of rounds, with the number of the run and whether it ended in an evaluation.
    """

    def put_aside() -> None:
        for run, checkpoints in zip(runs, kept, strict=True):
            checkpoints.save(run.snapshot())

    due = time.monotonic() + seconds_between
    while not _all_done(runs) and not clock.up:
        for number, run in enumerate(runs):
            watch(number, run.advance())
        begun = time.monotonic()
        if begun >= due and not _all_done(runs):
            put_aside()
            ended = time.monotonic()
            due = ended + max(seconds_between, (ended - begun) / LARGEST_SHARE)
    done = _all_done(runs)
    if not done:
        put_aside()
    return done


def _all_done(runs: Sequence[Simulation]) -> bool:
    """A run that has diverged keeps in step with those beside it until they are done, too."""
    return all(run.done for run in runs)


_SINGLE = ("t", "evaluated", "ids", "answered", "seconds", "good")


def _arrays(snapshot: Snapshot) -> dict[str, np.ndarray]:
    named = {key: getattr(snapshot, key) for key in _SINGLE} | {"iterates": snapshot.iterates}
    named |= {f"scores.{key}": value for key, value in snapshot.scores._asdict().items()}
    named |= {f"state.{place:04d}": leaf for place, leaf in enumerate(snapshot.state)}
    if snapshot.diagnosis is not None:
        named |= {f"diagnosis.{key}": value for key, value in snapshot.diagnosis._asdict().items()}
    return {name: np.asarray(value) for name, value in named.items() if value is not None}


def _snapshot(arrays: dict[str, np.ndarray]) -> Snapshot:
    diagnosed = any(name.startswith("diagnosis.") for name in arrays)
    return Snapshot(
        t=int(arrays["t"]),
        state=[arrays[name] for name in sorted(arrays) if name.startswith("state.")],
        evaluated=arrays["evaluated"],
        scores=Metrics(*(arrays[f"scores.{key}"] for key in Metrics._fields)),
        ids=arrays["ids"],
        answered=arrays["answered"],
        seconds=float(arrays["seconds"]),
        good=arrays["good"],
        diagnosis=Diagnosis(*(arrays.get(f"diagnosis.{key}") for key in Diagnosis._fields)) if diagnosed else None,
        iterates=arrays.get("iterates"),
    )


_SEAL = hashlib.sha256().digest_size


def _write(part: Path, arrays: dict[str, np.ndarray]) -> None:
    save_arrays(part, arrays)
    with part.open("r+b") as file:
        file.write(hashlib.file_digest(file, "sha256").digest())


def _read(file: Path) -> Snapshot | None:
    """The snapshot in a file; None if there is no such file, or not as it was written."""
    if not file.is_file() or not _sealed(file):
        return None
    try:
        return _snapshot(load_arrays(file))
    except (NoshowError, KeyError, ValueError, TypeError):
        return None  # sealed by another version of noshow, or by somebody else


def _sealed(file: Path) -> bool:
    content = np.memmap(file, np.uint8, "r") if file.stat().st_size > _SEAL else np.zeros(_SEAL, np.uint8)
    return hashlib.sha256(content[:-_SEAL].data).digest() == content[-_SEAL:].tobytes()
