"""One process at a time in a folder; a process that dies, however it dies, leaves the folder free."""

from __future__ import annotations

import fcntl
import os
import platform
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
    """Whether a process works in the folder now."""
    if not (folder / LOCK).exists():
        return False
    try:
        with alone_in(folder):
            return False
    except BusyError:
        return True


def process() -> str:
    """This process in words.

    Example:
        >>> process().startswith("process ")
        True
    """
    return f"process {os.getpid()} on {platform.node()}"


def _lock(handle: int, folder: Path, wait: bool) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        who = os.read(handle, 200).decode("utf-8", "replace") or "another process"
        raise BusyError(f"{folder} is in use by {who}: wait until it has finished, or stop it") from None
    os.ftruncate(handle, 0)
    os.write(handle, process().encode())
