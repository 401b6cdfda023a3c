"""Many clients' metrics in, their average by the roster's numbers of examples out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import Message, MetricRecord

from noshow.flower.post import records

CLAIM = "num-examples"


def averaged(replies: Sequence[Message], sizes: Sequence[int]) -> MetricRecord:
    """Each metric, weighted by n_i over the clients that report it as a number, or as a list of the usual length.

    The clients' own claims of their number of examples are left out.

    Example:
        >>> from flwr.app import RecordDict
        >>> class Reply:
        ...     def __init__(self, loss):
        ...         self.content = RecordDict({"metrics": MetricRecord({"loss": loss, "num-examples": 9})})
        >>> dict(averaged([Reply(1.0), Reply(4.0)], [20, 10]))
        {'loss': 2.0}
        >>> dict(averaged([Reply([0.5]), Reply([1.0, 3.0]), Reply([2.0, 4.0])], [10, 10, 10]))
        {'loss': [1.5, 3.5]}
    """
    reported: dict[str, list[tuple[Any, int]]] = {}
    for reply, size in zip(replies, sizes, strict=True):
        for record in records(reply.content, MetricRecord):
            for name, value in record.items():
                if name != CLAIM:
                    reported.setdefault(name, []).append((value, size))
    return MetricRecord({name: _mean(values) for name, values in reported.items()})


def _mean(values: list[tuple[Any, int]]) -> Any:
    (usual, _), *_ = Counter(np.shape(value) for value, _ in values).most_common()
    alike = [(value, size) for value, size in values if np.shape(value) == usual]
    mean = np.average([value for value, _ in alike], axis=0, weights=[size for _, size in alike])
    return mean.tolist()
