"""Run what is missing of an experiment, within a time limit, and go on in a later call."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from noshow.engine import Simulation
from noshow.paper.results import Results
from noshow.run import Display
from noshow.spec import Experiment, Spec, realise


class Clock:
    """Says when time is up.

    Example:
        >>> Clock(None).up, Clock(0.0).up
        (False, True)
    """

    def __init__(self, minutes: float | None) -> None:
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self.stopped = False

    @property
    def up(self) -> bool:
        """Whether the limit has passed, or somebody has stopped it."""
        return self.stopped or (self._end is not None and time.monotonic() >= self._end)

    def stop(self) -> None:
        """Time is up now."""
        self.stopped = True


class Bench:
    """Builds specs' parts, each once: runs that share their data or adversary share what was prepared for them."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def realise(self, spec: Spec) -> Experiment:
        """The spec's parts; equal data, models and adversaries are the same objects as before."""
        built = realise(spec)
        adversary = {"adversary": spec.adversary, "algorithms": spec.algorithms}
        return built._replace(
            federation=self._once({"data": spec.data}, lambda: built.federation),
            model=self._once({"model": spec.model}, lambda: built.model),
            adversary=self._once(adversary, lambda: built.adversary),
        )

    def _once(self, settings: dict[str, Any], make: Callable[[], Any]) -> Any:
        return self._made.setdefault(json.dumps(settings, sort_keys=True), make())


def run_missing(spec: Spec, results: Results, bench: Bench, display: Display, clock: Clock) -> bool:
    """Run the algorithms whose results are missing; whether all are there now.

    When time is up, the chunk in progress is finished, the run put aside, and nothing new begun.
    """
    missing = [label for label in spec.labels if label not in results.finished]
    if not missing or clock.up:
        return not missing
    experiment = bench.realise(spec)
    return all(not clock.up and _run_one(spec, experiment, label, results, display, clock) for label in missing)


def _run_one(spec: Spec, experiment: Experiment, label: str, results: Results, display: Display, clock: Clock) -> bool:
    display.begin(label, spec.length(label)[0])
    run = Simulation(
        experiment.federation,
        experiment.model,
        experiment.algorithms[spec.labels.index(label)],
        experiment.adversary,
        **spec.run_settings(label),
    )
    if (before := results.put_aside_before(label)) is not None:
        run.resume(before)
    while not run.done and not clock.up:
        if run.advance():
            display.evaluated(label, run.t, run.latest)
    if not run.done:
        results.put_aside(label, run.snapshot())
        return False
    history = run.history()
    results.add(history)
    display.finish(history, seen_before=False)
    return True
