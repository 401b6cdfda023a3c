"""Messages out, replies in, until all are here or the time is up; and what a message holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid

Record = TypeVar("Record", ArrayRecord, ConfigRecord, MetricRecord)

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5
"""Seconds between two looks at the mailbox: few while replies come, then more and more, not to load the SuperLink."""


def push(grid: Grid, messages: Sequence[Message]) -> set[str]:
    """Send messages; the ids of those that Flower took. Nodes that it has forgotten get none."""
    if not messages:
        return set()
    taken = set(grid.push_messages(messages))
    return {message.metadata.message_id for message in messages} & taken


def pull(grid: Grid, ids: Iterable[str]) -> dict[str, Message]:
    """The replies that are here, by the id of what they reply to."""
    waiting = list(ids)
    return {reply.metadata.reply_to_message_id: reply for reply in grid.pull_messages(waiting)} if waiting else {}


def collect(
    grid: Grid, ids: set[str], seconds: float, listen: Callable[[dict[str, Message]], None] = lambda came: None
) -> dict[str, Message]:
    """Replies by the id of what they reply to; those that do not come within so many seconds are left out.

    Whenever some have come, all that are there are given to `listen`, while others are waited for.
    """
    end, pause = time.monotonic() + seconds, FIRST_PAUSE
    replies: dict[str, Message] = {}
    while True:
        is_last = time.monotonic() >= end  # asked before the look: to listen takes time, in which others answer
        came = pull(grid, ids - replies.keys())
        replies |= came
        if came:
            listen(replies)
        if is_last or ids <= replies.keys():
            return replies
        pause = FIRST_PAUSE if came else min(1.5 * pause, LONGEST_PAUSE)
        time.sleep(max(0.0, min(pause, end - time.monotonic())))


def records(content: RecordDict, kind: type[Record]) -> list[Record]:
    """A message's records of one kind; Flower's own properties copy and check them all, every time they are asked.

    Example:
        >>> records(RecordDict({"config": ConfigRecord({"rate": 0.1}), "metrics": MetricRecord()}), ConfigRecord)
        [{'rate': 0.1}]
    """
    return [record for record in content.values() if isinstance(record, kind)]
