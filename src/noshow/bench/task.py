"""What is to be done, as plain arrays that any program can read: parameters and images in PyTorch's layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

Network = Literal["logistic", "lenet5", "char_lstm", "small_cnn"]
Rule = Literal["geometric_median", "centered_clip"]


class Turn(NamedTuple):
    """What a turn came to: seconds a round, and the flat model at its end."""

    seconds: float
    answer: np.ndarray


Play = Callable[[int, bool], Turn]
"""(rounds, exact) -> `Turn`: play the first so many rounds, from the start; `exact` asks for full single precision."""


@dataclass(frozen=True)
class Visit:
    """A client in a round: its rows of the data, in the order of its batches, and the share of its displacement."""

    rows: slice | np.ndarray
    share: float


@dataclass(frozen=True)
class RoundsTask:
    """Rounds of local SGD, every draw made: theta <- theta + sum over visits of share_i (theta_i - theta).

    A client goes `epochs` times over its rows, `batch` at a time (all at once if `None`), in their order. With
    `evaluate_every`, loss and accuracy on the `test` data are worked out after every so many rounds.

    Example:
        >>> import numpy as np
        >>> task = RoundsTask("logistic", [np.zeros((10, 60)), np.zeros(10)], np.zeros((4, 60)), np.zeros(4),
        ...                   [[Visit(slice(0, 4), 1.0)]], batch=None, epochs=25, rate=0.01)
        >>> task.start_vector.shape
        (610,)
    """

    network: Network
    start: list[np.ndarray]
    inputs: np.ndarray
    labels: np.ndarray
    rounds: list[list[Visit]]
    batch: int | None
    epochs: int
    rate: float
    test: tuple[np.ndarray, np.ndarray] | None = None
    evaluate_every: int | None = None

    @property
    def start_vector(self) -> np.ndarray:
        """The first model, flat."""
        return flat(self.start)


@dataclass(frozen=True)
class PointsTask:
    """One robust rule on points [m, d] of equal weight, `iterations` times from zero.

    Example:
        >>> import numpy as np
        >>> PointsTask("centered_clip", np.zeros((3, 5)), iterations=3).start_vector.tolist()
        [0.0, 0.0, 0.0, 0.0, 0.0]
    """

    rule: Rule
    points: np.ndarray
    iterations: int
    radius: float = 100.0
    smoothing: float = 0.1

    @property
    def start_vector(self) -> np.ndarray:
        """Where the iteration starts."""
        return np.zeros_like(self.points[0])


def flat(arrays: list[np.ndarray]) -> np.ndarray:
    """The arrays as one vector, one after the other.

    Example:
        >>> import numpy as np
        >>> flat([np.ones((2, 1)), np.zeros(1)]).tolist()
        [1.0, 1.0, 0.0]
    """
    return np.concatenate([np.asarray(array).ravel() for array in arrays])
