"""One process at a time in a folder; a process that dies, however it dies, leaves the folder free."""

from __future__ import annotations

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noshow.errors import NoshowError

LOCK = "lock"


class BusyError(NoshowError):
    """Another process works in this folder."""


@contextmanager
def alone_in(folder: Path, wait: bool = False) -> Iterator[None]:
    """Within it no other process works in the folder; raises `BusyError` if one does already, or waits for it.

    The lock is on the open file `lock`, not in its being there: the system drops it with the process that holds it.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder, alone_in(Path(folder)):
        ...     taken(Path(folder))
        True
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise NoshowError(f"{folder} cannot be written: {error.strerror or error}") from None
    try:
        _lock(handle, folder, wait)
        yield
    finally:
        os.close(handle)


def taken(folder: Path) -> bool:
    """Whether a process works in the folder now. Nobody who begins at this moment is disturbed by the look."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _got(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def process() -> str:
    """This process in words.

    Example:
        >>> process().startswith("process ")
        True
    """
    return f"process {os.getpid()} on {platform.node()}"


def _lock(handle: int, folder: Path, wait: bool) -> None:
    if wait:
        fcntl.flock(handle, fcntl.LOCK_EX)
    else:
        _lock_at_once(handle, folder)
    os.ftruncate(handle, 0)
    os.write(handle, process().encode())


def _lock_at_once(handle: int, folder: Path) -> None:
    while not _got(handle, fcntl.LOCK_EX):
        if not _got(handle, fcntl.LOCK_SH):
            who = os.read(handle, 200).decode("utf-8", "replace") or "another process"
            raise BusyError(f"{folder} is in use by {who}: wait until it has finished, or stop it")
        fcntl.flock(handle, fcntl.LOCK_UN)  # somebody only looks, and is gone in a moment
        time.sleep(0.001)


def _got(handle: int, kind: int) -> bool:
    """Whether the lock of this kind, for one alone or for those who look, was to be had at once."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
