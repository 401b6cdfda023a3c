"""Ctrl-C in the middle of a computation: one sentence, and out; or first a moment to put the work aside."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def told_when_stopped(sentence: str) -> Iterator[None]:
    """Within it, an interrupt ends the program with this sentence and exit code 130.

    Caught here, as the command line's own machinery takes interrupts before `main` could see them; and left by
    `os._exit`, as a chunk is still being computed: taking the arrays down under it would crash.
    """
    try:
        yield
    except KeyboardInterrupt:
        print(f"noshow: {sentence}", file=sys.stderr)
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(130)


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def asked_to_stop(stop: Callable[[], None], sentence: str) -> Iterator[None]:
    """Within it, the first interrupt or SIGTERM prints the sentence and calls `stop`; the next acts as outside.

    For work that looks now and then whether it should go on. Only a program's main thread hears of signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def first_time(number: int, frame: FrameType | None) -> None:
        restore()
        print(f"noshow: {sentence}", file=sys.stderr, flush=True)
        stop()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, first_time)
    try:
        yield
    finally:
        restore()
