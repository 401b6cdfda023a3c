"""What an experiment costs on this machine: measured on a few rounds of it, and remembered."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress

import jax

from noshow import algorithms
from noshow.datasets.folder import cache_dir
from noshow.engine import Simulation
from noshow.errors import NoshowError
from noshow.files import write_whole
from noshow.spec import Spec, realise

ROUNDS = 3


def cost_here(specs: Sequence[Spec]) -> str:
    """How long these specs take at most on this machine, in words; `"no data here"` where their data are missing."""
    try:
        return in_words(sum(seconds(spec) for spec in specs))
    except NoshowError:
        return "no data here"


def seconds(spec: Spec) -> float:
    """An upper estimate: every sampled client trains, for each seed after the other."""
    step, evaluation = _measured(spec)
    total = 0.0
    for label, table in zip(spec.labels, spec.algorithms, strict=True):
        rounds, every = spec.length(label)
        total += rounds * table.get("steps", 1) * step + (rounds / every + 1) * evaluation
    return total * len(spec.seeds)


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


def _measured(spec: Spec) -> tuple[float, float]:
    """Seconds of one local step of all sampled clients, and of one evaluation, of one seed."""
    device = jax.devices()[0].device_kind
    shape = {"data": spec.data, "model": spec.model, "sampled": spec.sampled, "on": spec.evaluate_on}
    name = json.dumps({"device": device, "cores": len(jax.devices()), **shape}, sort_keys=True)
    file = cache_dir() / "costs.json"
    try:
        known = dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        known = {}
    if name not in known:
        known[name] = _measure(spec)
        with suppress(NoshowError):  # a cache that cannot be written means to measure again
            write_whole(file, lambda part: part.write_text(json.dumps(known, indent=1), "utf-8"))
    step, evaluation = known[name]
    return step, evaluation


def _measure(spec: Spec) -> tuple[float, float]:
    parts = realise(spec)
    run = Simulation(
        parts.federation,
        parts.model,
        algorithms.fedavg(1e-3, steps=1),
        sampled=spec.sampled,
        rounds=2 * ROUNDS,
        evaluate_every=ROUNDS,
        evaluate_on=spec.evaluate_on,
    )
    run.advance()
    times = []
    while not run.done:
        begun, before = time.perf_counter(), run.t
        evaluated = run.advance()
        times.append((time.perf_counter() - begun, run.t - before, evaluated))
    begun = time.perf_counter()
    run.evaluate()
    evaluation = time.perf_counter() - begun
    played = sum(length for length, _, _ in times) - evaluation * sum(evaluated for _, _, evaluated in times)
    return max(played, 1e-6) / sum(rounds for _, rounds, _ in times), evaluation
