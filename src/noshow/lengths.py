"""How long the arrays are in which a CPU lays out full batches.

Compiled arrays have fixed lengths; clients hold as many examples as they hold. A loop over tiles serves everyone, but
copies every tile in every local step, and for models that do little with an example that is half of the time. Such a
batch can be laid out once a round, in the next longer of a few lengths. Each length makes the program longer and takes
time to compile: there are as many as pay for themselves, and none in a short run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Length = int | None
"""Examples that are laid out, or `None`: not laid out, read tile by tile."""

MULTIPLE = 32
"""Lengths are multiples of this: whole vector registers, and few lengths to choose among."""

MOST = 12
"""The most lengths, however long a run is."""

LONGEST_BYTES = 2**24
"""Clients with more data than this are read tile by tile: what is laid out would have left the caches."""

TILED, LAID_OUT, COMPILING = 0.275e-9, 0.146e-9, 1.0
"""Seconds of a core for a byte of an example in a gradient, read tile by tile or laid out, and for compiling another
length: half a second, for which two cores wait. Measured with multinomial logistic regression, 60 features and 10
classes, on an EPYC."""


class Lengths(NamedTuple):
    """The lengths for clients that one device trains, and for those whose data several devices share."""

    alone: tuple[Length, ...] = (None,)
    shared: tuple[Length, ...] = (None,)


def lengths_for(sizes: np.ndarray, example_bytes: int, visits: float) -> tuple[Length, ...]:
    """Lengths, ascending, that save the most time when clients of these sizes compute `visits` gradients each.

    `None` comes last, for clients that are longer than all of them.

    Example:
        >>> import numpy as np
        >>> lengths_for(np.array([60, 60, 1000]), 240, visits=1), lengths_for(np.array([60, 60, 1000]), 240, visits=1e6)
        ((None,), (64, 1024))
    """
    fitting = sizes[sizes * example_bytes <= LONGEST_BYTES]
    weight = visits * example_bytes
    if weight * fitting.sum() * (TILED - LAID_OUT) <= COMPILING:
        return (None,)
    options = fewest_rows(-(-fitting // MULTIPLE) * MULTIPLE, MOST)
    saved = [weight * (TILED * fitting.sum() - LAID_OUT * rows) - COMPILING * len(lengths) for lengths, rows in options]
    if max(saved) <= 0:
        return (None,)
    lengths, _ = options[int(np.argmax(saved))]
    return lengths if len(fitting) == len(sizes) else (*lengths, None)


def fewest_rows(sizes: np.ndarray, most: int) -> list[tuple[tuple[int, ...], int]]:
    """For 1, 2, … `most` lengths: those to which sizes are padded with the fewest rows in all, and these rows.

    Example:
        >>> import numpy as np
        >>> fewest_rows(np.array([1, 1, 1, 8, 9]), 3)
        [((9,), 45), ((1, 9), 21), ((1, 8, 9), 20)]
    """
    values, counts = np.unique(sizes, return_counts=True)
    # rows[j]: of the clients with the j smallest sizes, padded to as many lengths as were allowed so far.
    rows = np.concatenate([[0.0], np.full(len(values), np.inf)])
    clients = np.concatenate([[0], np.cumsum(counts)])
    chosen: list[tuple[int, ...]] = [()] * (len(values) + 1)
    found = []
    for _ in range(min(most, len(values))):
        ends = range(1, len(values) + 1)
        costs = [rows[:j] + (clients[j] - clients[:j]) * values[j - 1] for j in ends]
        before = [int(np.argmin(cost)) for cost in costs]
        chosen = [(), *((*chosen[i], int(values[j - 1])) for j, i in zip(ends, before, strict=True))]
        rows = np.concatenate([[np.inf], [cost.min() for cost in costs]])
        found.append((chosen[-1], int(rows[-1])))
    return found
