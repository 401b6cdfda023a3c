"""A simulated run as a trace."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from noshow.errors import require
from noshow.federation import Federation
from noshow.history import History
from noshow.trace.file import ANSWERED, BEGINNING, SILENT, Entry, Trace

SILENCED = "silenced"
"""The reason of a simulated silence."""


def of_history(history: History, federation: Federation, seed: int) -> Trace:
    """The roll call of one seed of a simulated run as a trace.

    Clients are called by their numbers. The simulator has no clock: round t is t seconds after the start of 1970.
    Replayed with the same seed and settings it gives the same roll call and the same model.

    Example:
        >>> import noshow as ns
        >>> federation = ns.datasets.synthetic(clients=8, sizes=40)
        >>> history = ns.simulate(federation, ns.models.logistic(), ns.algorithms.fedavg(0.01, steps=2),
        ...                       ns.adversaries.random_response(0.5), sampled=4, rounds=3)
        >>> trace = of_history(history, federation, seed=0)
        >>> len(trace), trace.sampled
        (12, 4)
    """
    seeds = history.seeds.tolist()
    require(seed in seeds, f"seed is {seed}, which was not run: give one of {seeds}")
    row, call = seeds.index(seed), history.roll_call
    called, answered = call.sampled[row], call.answered[row]
    require(called.size > 0, f"the run of {history.algorithm!r} has no rounds: a trace needs one or more")
    require(
        int(called.max()) < federation.clients,
        f"the run of {history.algorithm!r} is not one of this federation: give the federation that it was run on",
    )
    sizes = np.asarray(federation.sizes)
    entries = [
        Entry(t, str(client), ANSWERED, "", int(sizes[client]), BEGINNING + timedelta(seconds=t))
        if came
        else Entry(t, str(client), SILENT, SILENCED, int(sizes[client]), BEGINNING + timedelta(seconds=t))
        for t in range(len(called))
        for client, came in zip(called[t].tolist(), answered[t].tolist(), strict=True)
    ]
    return Trace.of(entries, called.shape[1], map(str, range(federation.clients)))
