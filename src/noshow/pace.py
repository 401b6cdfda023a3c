"""How fast rounds go by: counted over the last half minute, as the first rounds say little about the last."""

from __future__ import annotations

import time
from collections import deque

SECONDS = 30.0
SECONDS_APART = 0.5
"""Points that lie closer than this take each other's place: a quick run costs no more than a slow one."""


class Pace:
    """Rounds a second of one algorithm, from where it was taken up.

    Example:
        >>> pace = Pace(t=40, when=100.0)
        >>> pace.rate is None
        True
        >>> pace.reach(60, when=104.0)
        >>> pace.rate
        5.0
    """

    def __init__(self, t: int, when: float | None = None) -> None:
        self._seen = deque([(time.monotonic() if when is None else when, t)])

    def reach(self, t: int, when: float | None = None) -> None:
        """It has been played up to round t."""
        seen, when = self._seen, time.monotonic() if when is None else when
        if len(seen) > 1 and when - seen[-2][0] < SECONDS_APART:
            seen.pop()
        seen.append((when, t))
        while len(seen) > 2 and seen[1][0] <= when - SECONDS:
            seen.popleft()

    @property
    def rate(self) -> float | None:
        """Rounds a second; `None` as long as there is nothing to tell it from."""
        (begun, first), (ended, last) = self._seen[0], self._seen[-1]
        return (last - first) / (ended - begun) if ended > begun and last > first else None
