"""What a run will need, before it starts: its data, what is remembered between rounds, working memory, records."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noshow import devices
from noshow.contracts import Adversary, Algorithm, Memory, Model
from noshow.ensemble import LONGEST_CHUNK
from noshow.errors import NoshowError
from noshow.federation import Federation
from noshow.machine import in_words, memory_free
from noshow.parameters import first_model
from noshow.program import Program, setting_for
from noshow.spec import Experiment, Spec

WORTH_COMPILING = 0.25
"""Where the arrays take less of what there is, working memory is left out: only the compiler knows it, in seconds."""
WORTH_SAYING = 10**6
"""Bytes remembered a seed from which on a run says so."""

Table = tuple[tuple[int, ...], int]
"""An array's shape, and its bytes a number."""


class Footprint(NamedTuple):
    """Bytes that a run needs. On CPU cores, which share the machine's memory, those of all cores together."""

    data: int
    remembered: int
    records: int
    working: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


def of_run(
    federation: Federation, model: Model, algorithm: Algorithm, *, sampled: int, rounds: int, seeds: Sequence[int]
) -> Footprint:
    """What the arrays of a run take, from their shapes alone; nothing is made.

    Example:
        >>> import noshow as ns
        >>> federation = ns.datasets.synthetic(clients=20, sizes=50)
        >>> mifa = ns.algorithms.mifa(rate=0.01)
        >>> of_run(federation, ns.models.logistic(), mifa, sampled=5, rounds=10, seeds=[0]).remembered >= 20 * 610 * 4
        True
    """
    arrays = (federation.data, federation.test, federation.shared, federation.offsets, federation.held)
    data = sum(leaf.nbytes for leaf in jax.tree.leaves((*arrays, federation.sizes, federation.weights)))
    tables = sum(prod(shape) * width for shape, width in _tables(model, algorithm, federation.clients))
    theta = 4 * _parameters(model)
    # Once for the roll call, and once more while its parts are put together.
    records = 2 * rounds * len(seeds) * (5 * sampled + 8)
    return Footprint(data, (tables + theta) * len(seeds) * _copies(len(seeds) * sampled), records)


def with_working_memory(
    needs: Footprint,
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    adversary: Adversary,
    *,
    sampled: int,
    seeds: Sequence[int],
) -> Footprint:
    """The same with what the compiled rounds take for a while, as the compiler says. Takes seconds, and the arrays."""
    ranks_nobody = adversary._replace(score=lambda state, key, scene: jnp.zeros(scene.ids.shape))
    setting = setting_for(federation, model, algorithm, ranks_nobody, sampled, 0.0, len(seeds))
    program = Program(setting, federation, None, seeds, np.zeros(1, np.float32), LONGEST_CHUNK)
    return needs._replace(working=program.working_bytes * _copies(len(seeds) * sampled))


def remembering(labels: Sequence[str], algorithm: Algorithm, model: Model, clients: int, jobs: tuple[int, int]) -> str:
    """A sentence about the tables that these algorithms, all like one, keep of every client; `jobs` are seeds and K.

    Example:
        >>> import noshow as ns
        >>> mifa = ns.algorithms.mifa(rate=0.01)
        >>> remembering(["mifa"], mifa, ns.models.logistic(), clients=5_000, jobs=(1, 1))
        'mifa keeps 5,000 x 610 numbers a seed: 12 MB'
    """
    seeds, sampled = jobs
    tables = _tables(model, algorithm, clients)
    shape = " x ".join(f"{length:,}" for length in tables[0][0])
    many = "" if len(tables) == 1 else f"{len(tables)} x "
    size = sum(prod(shape) * width for shape, width in tables) * seeds
    copies = _copies(seeds * sampled)
    where = f", on each of {copies} cores" if copies > 1 else "" if devices.on_cpu() else " on the device"
    who = f"{labels[0]} keeps" if len(labels) == 1 else f"{', '.join(labels)} each keep"
    return f"{who} {many}{shape} numbers a seed: {in_words(size)}{where}"


def check(spec: Spec, experiment: Experiment, labels: Sequence[str], limit: int | None = None) -> list[str]:
    """What is worth saying about the memory of these algorithms; raises if one of them cannot fit.

    Args:
        spec: the experiment.
        experiment: its parts.
        labels: the algorithms that are to run.
        limit: bytes that may be used; what is free here if left out.
    """
    if not labels:
        return []
    federation, model, adversary, _ = experiment
    chosen = {label: experiment.algorithms[spec.labels.index(label)] for label in labels}
    needs = {
        label: of_run(federation, model, each, sampled=spec.sampled, rounds=spec.length(label)[0], seeds=spec.seeds)
        for label, each in chosen.items()
    }
    has = limit if limit is not None else free(needs[labels[0]].data)
    largest = max(needs, key=lambda label: needs[label].total)
    _require_room(largest, needs[largest], has, limit is not None)
    if limit is not None or needs[largest].total > WORTH_COMPILING * has:
        whole = with_working_memory(
            needs[largest], federation, model, chosen[largest], adversary, sampled=spec.sampled, seeds=spec.seeds
        )
        _require_room(largest, whole, has, limit is not None)
    alike: dict[tuple[Table, ...], list[str]] = {}
    for label, each in chosen.items():
        tables = _tables(model, each, federation.clients)
        if sum(prod(shape) * width for shape, width in tables) >= WORTH_SAYING:
            alike.setdefault(tuple(tables), []).append(label)
    jobs = len(spec.seeds), spec.sampled
    return [remembering(names, chosen[names[0]], model, federation.clients, jobs) for names in alike.values()]


def free(held: int) -> int:
    """Bytes for a run whose data, so many bytes, are in the machine's memory already."""
    stats = None if devices.on_cpu() else jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return memory_free() + held


def _require_room(label: str, needs: Footprint, has: int, chosen: bool) -> None:
    if needs.total <= has:
        return
    parts = ", ".join(f"{name} {in_words(size)}" for name, size in needs._asdict().items() if size > 0)
    mends = {
        "data": "take fewer clients or examples",
        "remembered": 'keep it narrow (memory = "bfloat16"), or run fewer seeds at a time',
        "records": "play fewer rounds",
        "working": "run fewer seeds at a time, or take smaller batches",
    }
    largest = max(mends, key=lambda name: getattr(needs, name))
    there = "may be used" if chosen else "are free here"
    raise NoshowError(
        f"{label} needs {in_words(needs.total)} of memory ({parts}), and {in_words(has)} {there}: {mends[largest]}"
    )


def _tables(model: Model, algorithm: Algorithm, clients: int) -> list[Table]:
    """The shape and the bytes a number of each array that clients and server keep between rounds, for one seed."""
    d = _parameters(model)

    def kept() -> Memory:
        return algorithm.client.init(d, clients), algorithm.server.init(d, clients)

    return [(leaf.shape, leaf.dtype.itemsize) for leaf in jax.tree.leaves(jax.eval_shape(kept))]


def _parameters(model: Model) -> int:
    return int(jax.eval_shape(lambda: first_model(model, 0)).shape[0])


def _copies(jobs: int) -> int:
    """CPU cores each hold what changes, in one memory; an accelerator has a memory of its own."""
    return devices.mesh_for(jobs).size if devices.on_cpu() else 1
