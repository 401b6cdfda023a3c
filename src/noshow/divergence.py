"""When a run has diverged: its train loss is no number any more, or a million times what it was at first.

That is looked at in every evaluation. A seed that has diverged has no metrics from there on (NaN), and the model of
the evaluation before is the one that is kept. The other seeds go on; the run ends once none is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noshow.errors import require

EXPLODED = 1e6


def has_diverged(losses: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Whether each seed's train loss has left all bounds; `first` are the losses before the first round.

    Example:
        >>> import numpy as np
        >>> has_diverged(np.array([2.0, np.nan, 3e6, np.inf]), np.array([2.3, 2.3, 2.3, 2.3])).tolist()
        [False, True, True, True]
    """
    bounds = EXPLODED * np.maximum(np.asarray(first, np.float64), 1.0)
    return ~(np.isfinite(losses) & (losses <= bounds))


def check_first(losses: np.ndarray, seeds: Sequence[int]) -> None:
    """Nothing has been trained yet: a loss that is no number comes from the model or from the data."""
    for seed, loss in zip(seeds, np.asarray(losses), strict=True):
        require(
            bool(np.isfinite(loss)),
            f"the train loss of the first model is {loss} (seed {seed}): look for NaN or Inf in the data, "
            "and in what the model's init and measure return",
        )


def diverged_at(evaluated: np.ndarray, train_loss: np.ndarray) -> list[int | None]:
    """For each seed the round of the evaluation that found it diverged, or None.

    Example:
        >>> import numpy as np
        >>> diverged_at(np.array([0, 15, 30]), np.array([[2.3, 1.0, 0.9], [2.3, np.nan, np.nan]]))
        [None, 15]
    """
    gone = np.isnan(np.asarray(train_loss))
    return [int(evaluated[row.argmax()]) if row.any() else None for row in gone]


def in_words(rounds: Sequence[int | None]) -> str | None:
    """What tables and figures say of a run's seeds, if one has diverged.

    Example:
        >>> in_words([None, 15, 30]), in_words([15]), in_words([None])
        ('2 of 3 seeds diverged by round 15', 'diverged by round 15', None)
    """
    gone = [t for t in rounds if t is not None]
    if not gone:
        return None
    who = "" if len(gone) == len(rounds) else f"{len(gone)} of {len(rounds)} seeds "
    return f"{who}diverged by round {min(gone)}"
