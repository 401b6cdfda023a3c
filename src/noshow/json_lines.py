"""A run for other programs: one JSON object a line, as things happen."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from noshow.evaluate import Metrics
from noshow.history import History, RollCall


class JsonLines:
    """Says what a display would show: `event`, and what there is to know of it. Numbers that are none are null.

    Example:
        >>> JsonLines().begin("fedavg", rounds=60)
        {"event": "begin", "algorithm": "fedavg", "rounds": 60}
    """

    def __init__(self) -> None:
        self._newest: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @contextmanager
    def preparing(self, adversary: str) -> Iterator[None]:
        _say("preparing", adversary=adversary)
        yield

    def begin(self, label: str, rounds: int) -> None:
        _say("begin", algorithm=label, rounds=rounds)

    def played(self, label: str, t: int, call: RollCall) -> None:
        seeds, rounds, _ = call.sampled.shape
        self._newest[label] = {
            "epsilon_t": _numbers(call.epsilon_t.mean(1)) if rounds else [None] * seeds,
            "silent": [sorted(call.silenced(k, -1).tolist()) if rounds else [] for k in range(seeds)],
        }

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        columns = {name: _numbers(column) for name, column in metrics._asdict().items()}
        _say("evaluated", algorithm=label, round=t, **columns, **self._newest.get(label, {}))

    def finish(self, history: History, seen_before: bool) -> None:
        line = history.summary()
        _say(
            "finish",
            algorithm=history.algorithm,
            seen_before=seen_before,
            train_loss=_number(line.train_loss),
            test_accuracy=_number(line.test_accuracy),
            mean_epsilon_t=line.mean_epsilon_t,
            diverged_at=history.diverged_at,
            seconds=round(line.seconds, 3),
        )

    def note(self, sentence: str) -> None:
        _say("note", sentence=sentence)


def _say(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}, allow_nan=False), file=sys.stdout, flush=True)


def _numbers(column: Any) -> list[float | None]:
    return [_number(value) for value in np.asarray(column)]


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
