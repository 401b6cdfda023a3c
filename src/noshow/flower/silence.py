"""Why a sampled client counts as silent, and what is taken as an answer.

Everything that is not a whole, finite and sane reply is silence: it has a reason, and never reaches the model.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Error, Message, MetricRecord, RecordDict

from noshow.flower.layout import Layout, UnreadableError
from noshow.flower.legible import legible
from noshow.flower.post import records

Sends = Literal["model", "gradient"]
"""What a reply's arrays are: the client's trained model, or a direction to subtract, such as a momentum."""

Opened = list[np.ndarray]
"""A reply's arrays as flat vectors, one for each slot of the layout."""

REASONS = {
    "timeout": "nothing came before the time was up",
    "late": "an answer came after the time was up; it is not used",
    "unavailable": "the client is at no node that Flower can reach",
    "crash": "the process of the client's app died",
    "error": "the client's app raised an error, or could not be loaded",
    "unreadable": "the reply does not hold one record of readable arrays",
    "names": "the reply's arrays have other names than the model's",
    "shapes": "an array of the reply has another shape than the model's",
    "not finite": "the reply holds NaN or infinity",
    "norm": "the reply is farther from the model than `largest_norm`",
    "overflow": "the replies are finite, and the model that the server made of them was not",
}
"""Every reason and what it means."""

# Flower's error codes: no node, the app's process died, and messages lost because their time had passed.
_CODES = {3: "timeout", 4: "timeout", 5: "unavailable", 8: "crash"}


class Silence(NamedTuple):
    """A reason of `REASONS`, and what was seen, in words."""

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {legible(self.detail)}" if self.detail else self.reason


def of_error(error: Error) -> Silence:
    """The silence of a client in whose place Flower sent an error.

    Example:
        >>> str(of_error(Error(2, "ValueError: no data\\n  in line 3")))
        'error: ValueError: no data'
    """
    reason = _CODES.get(error.code, "error")
    return Silence(reason, _raised(error.reason or "") if reason == "error" else "")


def _raised(text: str) -> str:
    """The line of an app's error that says what happened: the first, or, of those that Ray passes on, the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if "ray.exceptions" not in lines[0]:
        return lines[0]
    return lines[-1].removesuffix("'>").rpartition("occurred. Message: ")[2]


def opened(message: Message, layout: Layout) -> Opened | Silence:
    """A reply's arrays, if it holds those of the model and nothing else."""
    if message.has_error():
        return of_error(message.error)
    found = records(message.content, ArrayRecord)
    if len(found) != 1:
        return Silence("unreadable", f"{len(found)} records of arrays, not one")
    try:
        return layout.views(found[0])
    except UnreadableError as error:
        return Silence(error.reason, error.detail)


def judged(reply: Opened, square: float, largest_norm: float) -> Silence | None:
    """Whether a reply of this squared norm is an answer: `None`, or why not.

    Example:
        >>> views = [np.array([3.0, 4.0], np.float32)]
        >>> judged(views, 25.0, largest_norm=5.0), judged(views, 25.0, largest_norm=4.0).reason
        (None, 'norm')
    """
    if square <= largest_norm**2:
        return None
    with np.errstate(over="ignore"):
        if not all(np.isfinite(view.astype(np.float32)).all() for view in reply):
            return Silence("not finite")
    return Silence("norm", f"more than {largest_norm:g}")


def claim(content: RecordDict) -> int | None:
    """The number of examples that a reply claims, if it says one.

    Example:
        >>> from flwr.app import MetricRecord
        >>> claim(RecordDict({"metrics": MetricRecord({"num-examples": 70})}))
        70
    """
    for record in records(content, MetricRecord):
        said = record.get("num-examples")
        if isinstance(said, int | float):
            return int(said) if math.isfinite(said) else -1
    return None
