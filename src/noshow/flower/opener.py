"""A round's replies, each opened once, when it comes."""

from __future__ import annotations

from operator import is_
from typing import NamedTuple

from flwr.app import ArrayRecord, Message

from noshow.flower.layout import Layout
from noshow.flower.post import records
from noshow.flower.silence import Opened, Silence, opened


class _Look(NamedTuple):
    """What a reply held when it was opened, and what was found in it."""

    forms: list[tuple[str, str, tuple[int, ...]]]
    bytes: list[bytes]
    found: Opened | Silence


class Opener:
    """Opens replies; once more if one has been changed since, as strategies around this one may."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._looks: dict[Message, _Look] = {}

    def __call__(self, reply: Message) -> Opened | Silence:
        """The reply's arrays, the same objects as long as it holds the same bytes, or why it is none."""
        forms, held = _held(reply)
        look = self._looks.get(reply)
        if look is None or look.forms != forms or not all(map(is_, look.bytes, held)):
            look = self._looks[reply] = _Look(forms, held, opened(reply, self._layout))
        return look.found


def _held(reply: Message) -> tuple[list[tuple[str, str, tuple[int, ...]]], list[bytes]]:
    if reply.has_error():
        return [], []
    arrays = [pair for record in records(reply.content, ArrayRecord) for pair in record.items()]
    return [(name, array.dtype, tuple(array.shape)) for name, array in arrays], [array.data for _, array in arrays]
