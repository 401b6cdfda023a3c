"""Workers of a sweep on a Ray cluster: one on this machine, started for it, or one that is given by its address."""

from __future__ import annotations

import os
import time
from typing import Any

from noshow.clock import Clock
from noshow.errors import NoshowError, require
from noshow.sweep_pool import ONE_CORE
from noshow.sweep_work import Ended, Job, work
from noshow.workbench import Bench

LOCAL = "ray"
STORE_BYTES = 80 * 1024**2
"""Jobs and answers are small: Ray's own store for large objects stays as small as Ray allows."""


class RayCrew:
    """Actors, each with one CPU, or one GPU where the cluster has some. Ray restarts those that die."""

    def __init__(self, address: str, size: int | None) -> None:
        try:
            import ray
        except ImportError:
            raise NoshowError("sweeps on Ray need Ray: pip install 'noshow[ray]', or choose --on pool") from None
        self._ray: Any = ray
        self._address, self._size = address, size
        self._actors: list[Any] = []
        self._idle: list[int] = []
        self._calls: dict[Any, tuple[int, int | None]] = {}
        """What is waited for: the call, its actor, and the job's place; no place for "are you there?"."""

    def __enter__(self) -> RayCrew:
        self._connect()
        there = self._ray.cluster_resources()
        gpus = int(there.get("GPU", 0))
        size = self._size or gpus or int(there.get("CPU", 1))
        variables = {name: os.environ.get(name, value) for name, value in ONE_CORE.items()}
        share: dict[str, Any] = {"num_gpus": 1} if gpus else {"runtime_env": {"env_vars": variables}}
        # Two calls at a time: one that works, one that may ask to stop.
        member = self._ray.remote(num_cpus=1, max_concurrency=2, max_restarts=-1, **share)(Member)
        self._actors = [member.remote() for _ in range(size)]
        for number in range(size):
            self._greet(number)
        return self

    def __exit__(self, *problem: object) -> None:
        self._ray.shutdown()

    @property
    def free(self) -> bool:
        return bool(self._idle)

    def start(self, job: Job) -> None:
        number = self._idle.pop(0)
        self._calls[self._actors[number].work.remote(tuple(job))] = (number, job.place)

    def ended(self, seconds: float) -> list[Ended]:
        if not self._calls:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=seconds)
        endings = []
        for call in ready:
            number, place = self._calls.pop(call)
            try:
                answer = self._ray.get(call)
            except self._ray.exceptions.RayError as error:
                self._greet(number)
                if place is not None:
                    endings.append(Ended(place, "died", type(error).__name__))
                continue
            self._idle.append(number)
            if place is not None:
                endings.append(Ended(*answer))
        return endings

    def stop(self) -> None:
        for actor in self._actors:
            actor.stop.remote()

    def _greet(self, number: int) -> None:
        self._calls[self._actors[number].ready.remote()] = (number, None)

    def _connect(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        require(not self._ray.is_initialized(), "this process uses a Ray cluster already: leave it with ray.shutdown()")
        if self._address == LOCAL:
            size = {"num_cpus": self._size} if self._size else {}
            self._ray.init("local", include_dashboard=False, object_store_memory=STORE_BYTES, **size, **quiet)
            return
        try:
            self._ray.init(self._address, **quiet)
        except (ConnectionError, ValueError, OSError) as error:
            raise NoshowError(f"there is no Ray cluster at {self._address}: {error}") from None


class Member:
    """What runs on the cluster. Tuples come and go, so that either side may be a little older than the other."""

    def __init__(self) -> None:
        from noshow.devices import keep_compiled

        keep_compiled()
        self._clock, self._bench = Clock(), Bench()

    def ready(self) -> None:
        """Answers as soon as there is somebody to answer."""

    def work(self, job: tuple[Any, ...]) -> tuple[Any, ...]:
        """Do a job."""
        return tuple(work(Job(*job), self._clock, self._bench))

    def stop(self) -> None:
        """Put the run aside after the chunk it is in."""
        self._clock.stop()
