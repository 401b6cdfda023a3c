"""Workers of a sweep in this process, or in processes of their own on this machine."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from noshow.clock import Clock
from noshow.sweep_work import Ended, Job, work
from noshow.workbench import Bench

PATIENCE = 30.0
"""Seconds that a worker without a job may take to end."""
ONE_CORE = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
"""A worker's share, unless the user has chosen another: as many workers as cores then stay out of each other's way."""


class Here:
    """This process as the only worker: it does a job as soon as it is given."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._bench = clock, Bench()
        self._ended: list[Ended] = []

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *problem: object) -> None:
        return None

    @property
    def free(self) -> bool:
        return not self._ended

    def start(self, job: Job) -> None:
        self._ended.append(work(job, self._clock, self._bench))

    def ended(self, seconds: float) -> list[Ended]:
        if not self._ended:
            time.sleep(seconds)
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        return None


class Pool:
    """Processes on this machine. One that dies is replaced; all stop when this process is no more."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._members: list[_Member] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *problem: object) -> None:
        for member in self._members:
            member.leave(at_once=problem[0] is not None)

    @property
    def free(self) -> bool:
        return sum(member.job is not None for member in self._members) < self._size

    def start(self, job: Job) -> None:
        idle = [member for member in self._members if member.job is None and member.process.is_alive()]
        busy = [member for member in self._members if member.job is not None]
        chosen = idle[0] if idle else _Member()
        self._members = [*busy, *idle, *([] if idle else [chosen])]
        chosen.take(job)

    def ended(self, seconds: float) -> list[Ended]:
        working = {member.pipe: member for member in self._members if member.job is not None}
        ready = connection.wait(list(working), seconds)
        return [working[pipe].result() for pipe in ready if isinstance(pipe, Connection)]

    def stop(self) -> None:
        for member in self._members:
            member.ask_to_stop()


class _Member:
    """A process, the pipe to it, and the job it is at."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs,))
        self.job: Job | None = None
        with _with_variables(ONE_CORE):
            self.process.start()
        theirs.close()  # the end of the process is then the end of the pipe

    def take(self, job: Job) -> None:
        self.job = job
        with suppress(OSError):  # it has died since: its end of the pipe says so
            self.pipe.send(job)

    def result(self) -> Ended:
        job, self.job = self.job, None
        assert job is not None
        try:
            ended: Ended = self.pipe.recv()
            return ended
        except (EOFError, OSError):
            self.process.join()
            return Ended(job.place, "died", f"exit code {self.process.exitcode}")

    def ask_to_stop(self) -> None:
        with suppress(OSError):
            self.pipe.send(None)

    def leave(self, at_once: bool) -> None:
        if at_once:
            self.process.kill()
        self.ask_to_stop()
        self.process.join(PATIENCE)
        self.process.kill()
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    """A worker's life: do the jobs that come; put the run aside when told to stop, or when nobody is left to tell."""
    from noshow.devices import keep_compiled

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that runs the sweep: it tells
    keep_compiled()
    clock, bench = Clock(), Bench()
    jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def listen() -> None:
        with suppress(EOFError, OSError):
            while (job := pipe.recv()) is not None:
                jobs.put(job)
        clock.stop()
        jobs.put(None)

    threading.Thread(target=listen, daemon=True).start()
    while (job := jobs.get()) is not None:
        with suppress(OSError):
            pipe.send(work(job, clock, bench))


@contextmanager
def _with_variables(variables: dict[str, str]) -> Iterator[None]:
    """Set variables of the environment, where they are not set, for processes that start within the context."""
    missing = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]
