"""One cell of a sweep, wherever it is run: in this process, in another, on another machine that sees the same store."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from noshow.clock import Clock
from noshow.errors import NoshowError
from noshow.evaluate import Metrics
from noshow.history import History, RollCall
from noshow.lock import BusyError
from noshow.run import complete
from noshow.spec import validate
from noshow.store import RunFolder
from noshow.workbench import Bench


class Job(NamedTuple):
    """What a worker is given: a cell's place in the sweep, its run folder and spec, how often to keep checkpoints."""

    place: int
    folder: str
    spec: str
    seconds_between: float


class Ended(NamedTuple):
    """How a worker ended a job: `busy` if another process has the folder, `died` if the worker is no more."""

    place: int
    how: Literal["done", "put aside", "busy", "failed", "died"]
    why: str = ""


class Crew(Protocol):
    """Workers, each with one job at a time."""

    def __enter__(self) -> Crew:
        """Get ready."""

    def __exit__(self, *problem: object) -> None:
        """Let all workers go; at once where there is a problem."""

    @property
    def free(self) -> bool:
        """Whether a worker waits for a job."""

    def start(self, job: Job) -> None:
        """Give a job to a worker that waits for one."""

    def ended(self, seconds: float) -> list[Ended]:
        """The jobs that have ended since the last call; waits so long for the first of them."""

    def stop(self) -> None:
        """Ask all workers to put their runs aside."""


def work(job: Job, clock: Clock, bench: Bench) -> Ended:
    """Complete the cell, or go on with it until time is up."""
    folder = Path(job.folder)
    try:
        spec = validate(tomllib.loads(job.spec))
        place = RunFolder.of(spec, folder)
        histories = complete(spec, place, Silent(), False, clock, job.seconds_between, bench.realise)
        bench.tidy()
        return Ended(job.place, "put aside" if histories is None else "done")
    except BusyError:
        return Ended(job.place, "busy")
    except NoshowError as error:
        why = str(error)
    except MemoryError:
        why = "there is not enough memory for this experiment: make it smaller"
    except Exception as error:  # whatever it is, the other cells go on
        why = f"{type(error).__name__}: {error}"
    with suppress(OSError):
        folder.rmdir()  # if the cell never came to life
    return Ended(job.place, "failed", why)


class Silent:
    """Nobody looks over a worker's shoulder: its progress is in the run folder."""

    @contextmanager
    def preparing(self, adversary: str) -> Iterator[None]:
        yield

    def begin(self, label: str, rounds: int) -> None:
        return None

    def played(self, label: str, t: int, call: RollCall) -> None:
        return None

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        return None

    def finish(self, history: History, seen_before: bool) -> None:
        return None

    def note(self, sentence: str) -> None:
        return None
