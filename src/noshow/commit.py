"""Which commit of the code runs."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path


@cache
def commit() -> str:
    """The commit of the code that runs: of its git checkout, or as told by NOSHOW_COMMIT where there is none.

    Asked once, when the code has just been loaded: a checkout may change while a run goes on.
    """
    if told := os.environ.get("NOSHOW_COMMIT"):
        return told
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
