"""Vectors for sums that come and go: fresh memory costs a process more than writing to it."""

from __future__ import annotations

import weakref

import numpy as np

from noshow.federation import aligned_empty


class Rooms:
    """Lends vectors [d] of whatever numbers, and lends one again once nobody holds it.

    Parts of a lent vector do not hold it: hold the vector itself while they are in use.

    Example:
        >>> rooms = Rooms(3)
        >>> first, second = rooms(), rooms()
        >>> place = first.ctypes.data
        >>> del first
        >>> rooms().ctypes.data == place, second.shape
        (True, (3,))
    """

    def __init__(self, d: int) -> None:
        self.d = d
        self._free: list[np.ndarray] = []

    def __call__(self) -> np.ndarray:
        room = self._free.pop() if self._free else aligned_empty((self.d,), np.float32)
        lent = room[:]
        weakref.finalize(lent, self._free.append, room).atexit = False
        return lent
