"""Ctrl-C in the middle of a computation: one sentence, and out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
