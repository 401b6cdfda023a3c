"""The line of every process to the first one: whoever it breaks for says so in one sentence, and ends.

JAX's processes keep in touch through a service in the first of them; a process that loses it, or hears through it that
another is lost, is ended by JAX with a page of its C++ log. So the service's traffic passes through a relay in every
process, which sees first that a line is closed or silent, and speaks before JAX does.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn

GREETING = b"noshow\n"
"""A line starts with it: what else calls at an open port (monitors do) is let go, and missed by nobody."""

GRACE = 3.0
"""Seconds between the close of a line and the end of the process: time to say something better on its own. Processes
that fail, or finish, all alike do not do so at the very same moment."""

Onward = Callable[[socket.socket], socket.socket | None]
"""A connection that came in -> the one it goes on with; `None` to let it go."""

_speaking = threading.Lock()


def end_with(sentence: str) -> NoReturn:
    """Print the sentence and end this process at once, with exit code 2: its computation would wait for ever."""
    _speaking.acquire()  # never released: one voice is enough
    sys.stdout.flush()
    print(f"noshow: {sentence}", file=sys.stderr, flush=True)
    os._exit(2)


Lost = Callable[[float], bool]
"""Called when a line is closed, or silent, with how long to wait before that counts: where there was silence all have
waited long enough. Whether to give the line up."""


def relay(listener: socket.socket, onward: Onward, lost: Lost, silence: float) -> None:
    """Carry what comes in on, and what comes back back, in the background.

    `lost` is called once a connection is closed on either side, or silent for so many seconds.

    Example:
        >>> import queue
        >>> there, here = listening("127.0.0.1"), listening("127.0.0.1")
        >>> calls = queue.Queue()
        >>> def lost(grace):
        ...     calls.put(grace)
        ...     return True
        >>> relay(here, lambda near: socket.create_connection(there.getsockname()), lost, silence=9.0)
        >>> caller = socket.create_connection(here.getsockname())
        >>> called, _ = there.accept()
        >>> caller.sendall(b"hello")
        >>> called.recv(5)
        b'hello'
        >>> for end in (caller, called, there):
        ...     end.close()
        >>> calls.get(timeout=9.0) == calls.get(timeout=9.0) == GRACE  # once from either side
        True
    """

    def carry(near: socket.socket) -> None:
        with near:
            far = onward(near)
            if far is None:
                return
            with far:
                back = _in_background(partial(bring_back, near, far))
                _copy(near, far, lost, silence)
                _hang_up(far)
                lost(GRACE)
                back.join()

    def bring_back(near: socket.socket, far: socket.socket) -> None:
        _copy(far, near, lost, silence)
        lost(GRACE)  # before JAX, at the near side, can see that the line is closed
        _hang_up(near)

    def serve() -> None:
        while True:
            near, _ = listener.accept()
            _in_background(partial(carry, near))

    _in_background(serve)


def listening(host: str, port: int = 0) -> socket.socket:
    """A socket that listens at this address, at any free port if none is given."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def greeted(near: socket.socket) -> bool:
    """Whether whoever calls is one of ours."""
    near.settimeout(GRACE)
    try:
        return near.recv(len(GREETING), socket.MSG_WAITALL) == GREETING
    except OSError:
        return False


def dialled(host: str, port: int, seconds: float, greeting: bytes = GREETING) -> socket.socket | None:
    """A line to this address, tried again until somebody answers; `None` if nobody does for so long.

    Example:
        >>> dialled("127.0.0.1", 1, seconds=0.0) is None
        True
    """
    end = time.monotonic() + seconds
    while True:
        try:
            far = socket.create_connection((host, port), timeout=max(1.0, end - time.monotonic()))
            far.sendall(greeting)
            return far
        except OSError:
            if time.monotonic() >= end:
                return None
            time.sleep(0.1)


def _copy(source: socket.socket, sink: socket.socket, lost: Lost, silence: float) -> None:
    source.settimeout(silence)
    with suppress(OSError):  # broken: it comes to the same as closed
        while True:
            try:
                part = source.recv(65536)
            except TimeoutError:
                if lost(0.0):
                    return
                continue
            if not part:
                return
            sink.sendall(part)


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):  # the other side has done so already
        end.shutdown(socket.SHUT_RDWR)


def _in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
