"""How far a run is, in a small file of its folder: for whoever waits for it, and for what it has cost.

    {"starts": [{"when": …, "who": "process 12 on host", "algorithm": "gm", "round": 40}, …],
     "played": {"fedavg": 300, "gm": 75},
     "now": {"algorithm": "gm", "round": 70, "rounds": 300}}

A start says where its process took the run up. Rounds that a killed process played after its last checkpoint are
played again by the next: `played` counts both times, but for what was played in the half second before the end.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from noshow.files import write_whole
from noshow.lock import process

PROGRESS = "progress.json"
SECONDS_BETWEEN = 0.5


def progress_of(folder: Path) -> dict[str, Any]:
    """What the file says; nothing played and nobody started where there is none.

    Example:
        >>> from pathlib import Path
        >>> progress_of(Path("nowhere"))["starts"]
        []
    """
    try:
        said: dict[str, Any] = json.loads((folder / PROGRESS).read_text("utf-8"))
    except (OSError, ValueError):
        said = {}
    return {"starts": [], "played": {}, "now": None} | said


class Progress:
    """Writes the file: at every start, and then at most twice a second.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     progress = Progress(Path(folder))
        ...     progress.begin("gm", 40, rounds=300)
        ...     progress.reach(300)
        ...     progress.write()
        ...     progress_of(Path(folder))["played"]
        {'gm': 300}
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said = progress_of(folder)
        self._start: dict[str, Any] = {"when": datetime.now(UTC).isoformat(timespec="milliseconds"), "who": process()}
        self._said["starts"].append(self._start)
        self.write()

    def begin(self, algorithm: str, t: int, rounds: int) -> None:
        """An algorithm is taken up after t rounds."""
        if "algorithm" not in self._start:
            self._start |= {"algorithm": algorithm, "round": t}
        self._said["now"] = {"algorithm": algorithm, "round": t, "rounds": rounds}
        # Its last process may have kept a checkpoint without coming to say so here.
        self._said["played"][algorithm] = max(t, self._said["played"].get(algorithm, 0))
        self.write()

    def reach(self, t: int) -> None:
        """It has been played up to round t."""
        now = self._said["now"]
        self._said["played"][now["algorithm"]] += t - now["round"]
        now["round"] = t
        if time.monotonic() >= self._written + SECONDS_BETWEEN:
            self.write()

    def write(self) -> None:
        """Write it down now."""
        self._written = time.monotonic()
        text = json.dumps(self._said, indent=1) + "\n"
        write_whole(self._folder / PROGRESS, lambda part: part.write_text(text, "utf-8"), lasting=False)
