"""When to stop: a limit of time, or somebody who asks."""

from __future__ import annotations

import time

from noshow import distributed


class Clock:
    """Says when time is up; work that takes long looks at it now and then.

    Example:
        >>> Clock().up, Clock(minutes=0.0).up
        (False, True)
    """

    def __init__(self, minutes: float | None = None) -> None:
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self.stopped = False

    @property
    def up(self) -> bool:
        """Whether the limit has passed, or somebody has stopped it."""
        mine = self.stopped or (self._end is not None and time.monotonic() >= self._end)
        return distributed.anyone(mine)  # of several processes all must stop at the same round

    def stop(self) -> None:
        """Time is up now."""
        self.stopped = True
