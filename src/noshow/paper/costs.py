"""What an experiment costs on this machine: measured on a few rounds of it, and remembered."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import jax

from noshow import algorithms
from noshow.datasets.folder import cache_dir
from noshow.devices import on_cpu
from noshow.engine import Simulation
from noshow.errors import NoshowError
from noshow.files import write_whole
from noshow.spec import REHEARSED, Experiment, Spec, realise, with_rehearsals
from noshow.version import __version__

ROUNDS, SECONDS = 1000, 1.0
"""A trial lasts a second, or one round where that takes longer; it never comes to its end and last evaluation."""
TRIED = 256
"""Train and test examples that the trial evaluation looks at on a CPU."""


class Costs:
    """How long specs take on this machine. Specs of one kind, with the same data and model, are looked at once."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[float, float]] = {}

    def of(self, specs: Sequence[Spec]) -> str:
        """At most how long, in words; `"no data here"` where their data are missing."""
        try:
            return in_words(sum(self.seconds(spec) for spec in specs))
        except NoshowError:
            return "no data here"

    def seconds(self, spec: Spec) -> float:
        """An upper estimate: every sampled client trains, for each seed after the other."""
        step, evaluation = self._kind(spec)
        total = _rehearsed_steps(spec) * step
        for label, table in zip(spec.labels, spec.algorithms, strict=True):
            rounds, every = spec.length(label)
            total += rounds * table.get("steps", 1) * step + (rounds / every + 1) * evaluation
        return total * len(spec.seeds)

    def _kind(self, spec: Spec) -> tuple[float, float]:
        name = json.dumps([spec.data, spec.model, spec.sampled, spec.evaluate_on], sort_keys=True)
        if name not in self._kinds:
            self._kinds[name] = _measured(spec)
        return self._kinds[name]


def _rehearsed_steps(spec: Spec) -> float:
    """Steps of as many clients as are sampled, before round 0: shadow plays FedAvg and cclip with everybody."""
    adversary = with_rehearsals(spec.adversary, spec.algorithms)
    if adversary["name"] != "shadow" or adversary["candidates"] == "all":
        return 0.0
    rounds = 1 + max(second for _, second in adversary["pairs"])
    steps = sum(adversary[rehearsed].get("steps", 1) for rehearsed in REHEARSED)
    return rounds * steps * spec.data["clients"] / spec.sampled


def in_words(seconds: float) -> str:
    """A length of time to two digits or so.

    Example:
        >>> in_words(75.0), in_words(5400.0), in_words(300000.0)
        ('at most 1.2 min', 'at most 1.5 h', 'at most 3.5 d')
    """
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            number = seconds / size
            return f"at most {number:.2g} {unit}" if number < 10 else f"at most {number:.0f} {unit}"
    return f"at most {seconds:.0f} s"


class Trial(NamedTuple):
    """What a short run is given: its clients a round, and the train and test examples it is evaluated on."""

    sampled: int
    examined: int | None


def _measured(spec: Spec) -> tuple[float, float]:
    """Seconds of one local step of all sampled clients, and of one evaluation, of one seed.

    A CPU takes one client and one tile after the other: there a trial of a client a core and of some examples is
    enough, and its time is scaled up.
    """
    parts = realise(spec)
    federation = parts.federation
    tested = len(jax.tree.leaves(federation.test)[0])
    if not on_cpu():
        return _remembered(spec, parts, Trial(spec.sampled, spec.evaluate_on))
    tried = Trial(min(spec.sampled, len(jax.devices())), max(federation.clients, TRIED))
    step, evaluation = _remembered(spec, parts, tried)
    most = spec.evaluate_on or int(federation.held.sum())
    share = (min(most, int(federation.held.sum())) + min(most, tested)) / (2 * (tried.examined or 1))
    return step * spec.sampled / tried.sampled, evaluation * max(share, 1.0)


def _remembered(spec: Spec, parts: Experiment, trial: Trial) -> tuple[float, float]:
    measured = {
        "versions": [__version__, jax.__version__],
        "device": f"{len(jax.devices())} x {jax.devices()[0].device_kind}",
        "data": spec.data,
        "model": spec.model,
        "trial": trial,
    }
    name = json.dumps(measured, sort_keys=True)
    file = cache_dir() / "costs.json"
    try:
        known = dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        known = {}
    if name not in known:
        known[name] = _measure(parts, trial)
        with suppress(NoshowError):  # a cache that cannot be written means to measure again
            write_whole(file, lambda part: part.write_text(json.dumps(known, indent=1), "utf-8"))
    step, evaluation = known[name]
    return step, evaluation


def _measure(parts: Experiment, trial: Trial) -> tuple[float, float]:
    run = Simulation(
        parts.federation,
        parts.model,
        algorithms.fedavg(1e-3, steps=1),
        sampled=trial.sampled,
        rounds=ROUNDS,
        evaluate_every=ROUNDS,
        evaluate_on=trial.examined,
    )
    begun = time.perf_counter()
    run.evaluate()
    evaluation = time.perf_counter() - begun
    run.advance()
    begun, before = time.perf_counter(), run.t
    while time.perf_counter() - begun < SECONDS and run.t < ROUNDS // 2:
        run.advance()
    return (time.perf_counter() - begun) / (run.t - before), evaluation
