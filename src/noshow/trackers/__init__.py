"""Where runs are followed beside the terminal: three hooks for anything, and MLflow, TensorBoard and Weights & Biases.

A tracker is told when an algorithm begins, of every evaluation, and of the end. It never changes the run, and what goes
wrong in one of ours is told in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from noshow.errors import NoshowError, nearest, require
from noshow.evaluate import Metrics
from noshow.history import History
from noshow.spec import Spec

__all__ = ["Tracker", "names", "tracker"]


class Tracker(Protocol):
    """What wants to know how runs go. Metrics are one number a seed.

    Example:
        >>> class Printing:
        ...     def begin(self, spec, label):
        ...         print(f"{label} begins")
        ...     def evaluated(self, label, t, metrics):
        ...         print(f"{label}, round {t}: {metrics.train_loss.mean():.3f}")
        ...     def finish(self, history):
        ...         print(f"{history.algorithm} ends")
    """

    def begin(self, spec: Spec, label: str) -> None:
        """An algorithm of the experiment begins, or goes on."""

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        """It has been evaluated after t rounds; where it goes on, the last evaluation is told once more."""

    def finish(self, history: History) -> None:
        """It is done."""


_OURS = {"mlflow": "mlflow-skinny", "tensorboard": "tensorboardX", "wandb": "wandb"}


def names() -> list[str]:
    """The trackers that come with noshow, each in an extra of its name.

    Example:
        >>> names()
        ['mlflow', 'tensorboard', 'wandb']
    """
    return sorted(_OURS)


def tracker(name: str, folder: Path) -> Tracker:
    """One of them, for the run in this folder."""
    require(name in _OURS, f"there is no tracker {name!r}: {nearest(name, _OURS)}")
    try:
        made: Callable[[Path], Any] = import_module(f"noshow.trackers.to_{name}").track
    except ImportError:
        raise NoshowError(f"{name} is not installed: pip install 'noshow[{name}]'") from None
    return made(folder)
