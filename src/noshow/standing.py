"""How an algorithm stands, for whoever looks on: in the run's own terminal, from another one, or in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from noshow.divergence import in_words
from noshow.evaluate import Metrics
from noshow.history import History, RollCall
from noshow.pace import Pace

NEWEST = 10
"""Rounds over which the current epsilon_t is a mean: one round alone says little."""
MOST_SILENT = 100
"""Clients that are named; of more it is told how many they are."""

State = Literal["waiting", "running", "stopped", "done"]


@dataclass(frozen=True)
class Standing:
    """One algorithm now. Losses and accuracies are means over seeds; the silent are those of the first seed.

    Example:
        >>> Standing("gm", rounds=300, state="running", round=60, rate=12.0).seconds_left
        20.0
    """

    label: str
    rounds: int
    state: State = "waiting"
    round: int = 0
    rate: float | None = None
    train_loss: float | None = None
    test_accuracy: float | None = None
    epsilon_t: float | None = None
    silent: Sequence[int] = ()
    silenced: int = 0
    sampled: int = 0
    seeds: int = 1
    note: str = ""

    @property
    def seconds_left(self) -> float | None:
        """What the rounds left will take at the current rate."""
        if self.state != "running" or self.rate is None:
            return None
        return max(0, self.rounds - self.round) / self.rate


def of_metrics(metrics: Metrics) -> dict[str, Any]:
    """An evaluation's part of a standing.

    Example:
        >>> import numpy as np
        >>> of_metrics(Metrics(np.array([0.5, 1.0]), np.array([1.0, 1.0]), np.array([0.75, np.nan])))
        {'train_loss': 0.75, 'test_accuracy': None}
    """
    return {"train_loss": _mean(metrics.train_loss), "test_accuracy": _mean(metrics.test_accuracy)}


def of_call(call: RollCall) -> dict[str, Any]:
    """The newest rounds' part of a standing: their epsilon_t, and who was silent in the last of them.

    Example:
        >>> import numpy as np, noshow as ns
        >>> answered = np.array([[[True, True], [True, False]]])
        >>> of_call(ns.RollCall(np.array([[[3, 1], [0, 2]]]), answered, np.array([[0.0, 0.5]])))
        {'epsilon_t': 0.25, 'silent': [2], 'silenced': 1, 'sampled': 2, 'seeds': 1}
    """
    seeds, rounds, sampled = call.sampled.shape
    silent = sorted(call.silenced(0, -1).tolist()) if rounds else []
    return {
        "epsilon_t": _mean(call.epsilon_t) if rounds else None,
        "silent": silent[:MOST_SILENT],
        "silenced": len(silent),
        "sampled": sampled,
        "seeds": seeds,
    }


def of_history(history: History) -> Standing:
    """An algorithm that is done; its epsilon_t is the mean over all rounds."""
    seeds, rounds = history.roll_call.epsilon_t.shape
    return Standing(
        history.algorithm,
        rounds,
        "done",
        round=rounds,
        epsilon_t=_mean(history.roll_call.epsilon_t) if rounds else None,
        seeds=seeds,
        note=in_words(history.diverged_at) or "",
        **of_metrics(Metrics(*(column[:, -1] for column in history.scores))),
    )


class Standings:
    """How the algorithms of a run stand, kept up with what the run tells its display.

    Example:
        >>> standings = Standings()
        >>> standings.begin("gm", rounds=300)
        >>> standings["gm"].note
        'compiling'
    """

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._paces: dict[str, Pace] = {}

    def __getitem__(self, label: str) -> Standing:
        return self._standings[label]

    def all(self) -> list[Standing]:
        """Those that have begun, in the order in which they did."""
        return list(self._standings.values())

    def begin(self, label: str, rounds: int, note: str = "compiling") -> None:
        """It starts, with something to do before its first round."""
        self._standings[label] = Standing(label, rounds, "running", note=note)

    def played(self, label: str, t: int, call: RollCall) -> None:
        """It has been played up to round t."""
        pace = self._paces.setdefault(label, Pace(t))
        pace.reach(t)
        self._change(label, round=t, rate=pace.rate, note="", **of_call(call))

    def evaluated(self, label: str, metrics: Metrics) -> None:
        """It has been evaluated."""
        self._change(label, **of_metrics(metrics))

    def finish(self, history: History) -> None:
        """It is done, in this run or before."""
        done = of_history(history)
        begun = self._standings.get(done.label, done)
        self._standings[done.label] = replace(done, rounds=begun.rounds)

    def drop(self, label: str) -> None:
        """It is nothing to look at any more."""
        del self._standings[label]

    def _change(self, label: str, **changes: Any) -> None:
        self._standings[label] = replace(self._standings[label], **changes)


def _mean(numbers: Any) -> float | None:
    """A mean, if it is a number."""
    value = float(np.mean(numbers))
    return value if np.isfinite(value) else None
