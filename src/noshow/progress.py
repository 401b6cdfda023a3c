"""How far a run is, in a small file of its folder: for whoever waits for it, and for what it has cost.

    {"starts": [{"when": …, "who": "process 12 on host", "algorithm": "gm", "round": 40}, …],
     "played": {"fedavg": 300, "gm": 75},
     "now": {"algorithm": "gm", "round": 70, "rounds": 300, "done": false, "rate": 12.5, "train_loss": 0.81,
             "test_accuracy": 0.74, "epsilon_t": 0.41, "silent": [3, 17], "silenced": 2, "sampled": 10, "seeds": 1}}

A start says where its process took the run up. Rounds that a killed process played after its last checkpoint are
played again by the next: `played` counts both times, but for what was played in the half second before the end.
`now` is the algorithm's standing (`noshow.standing`), `done` once its results are in the folder.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noshow.files import write_whole
from noshow.lock import process
from noshow.pace import Pace
from noshow.standing import NEWEST, of_call, of_metrics

if TYPE_CHECKING:
    from noshow.engine import Simulation

PROGRESS = "progress.json"
SECONDS_BETWEEN = 0.5
MOST_ROUNDS = 2**63 - 1


def progress_of(folder: Path) -> dict[str, Any]:
    """What the file says; nothing played and nobody started where there is none, or where it says something else.

    Example:
        >>> from pathlib import Path
        >>> progress_of(Path("nowhere"))["starts"]
        []
    """
    try:
        said = json.loads((folder / PROGRESS).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        said = None
    told = said if isinstance(said, dict) else {}
    starts, played, now = (told.get(key) for key in ("starts", "played", "now"))
    return {
        "starts": [start for start in starts if isinstance(start, dict)] if isinstance(starts, list) else [],
        "played": {key: t for key, t in played.items() if is_count(t)} if isinstance(played, dict) else {},
        "now": now if _says_where(now) else None,
    }


def is_count(value: Any) -> bool:
    """Whether it is a number of rounds, clients or seeds.

    Example:
        >>> [is_count(value) for value in (0, 7, -1, True, 1.0, "7", None)]
        [True, True, False, False, False, False, False]
    """
    return type(value) is int and 0 <= value <= MOST_ROUNDS


def _says_where(now: Any) -> bool:
    return (
        isinstance(now, dict)
        and isinstance(now.get("algorithm"), str)
        and is_count(now.get("round"))
        and is_count(now.get("rounds"))
    )


class Progress:
    """Writes the file: at every start, and then at most twice a second.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import noshow as ns
        >>> run = ns.Simulation(ns.datasets.synthetic(clients=8, sizes=40), ns.models.logistic(),
        ...                     ns.algorithms.mifa(0.01, steps=2), sampled=4, rounds=6, evaluate_every=6)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     progress = Progress(Path(folder))
        ...     progress.begin("mifa", rounds=6, run=run)
        ...     while not run.done:
        ...         _ = run.advance()
        ...         progress.reach()
        ...     progress.write()
        ...     progress_of(Path(folder))["played"]
        {'mifa': 6}
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said = progress_of(folder)
        self._start: dict[str, Any] = {"when": datetime.now(UTC).isoformat(timespec="milliseconds"), "who": process()}
        self._said["starts"].append(self._start)
        self._run: Simulation | None = None
        self.write()

    def begin(self, algorithm: str, rounds: int, run: Simulation) -> None:
        """An algorithm is taken up where its run is."""
        if "algorithm" not in self._start:
            self._start |= {"algorithm": algorithm, "round": run.t}
        self._run, self._pace = run, Pace(run.t)
        self._said["now"] = {"algorithm": algorithm, "round": run.t, "rounds": rounds, "done": False}
        # Its last process may have kept a checkpoint without coming to say so here.
        self._said["played"][algorithm] = max(run.t, self._said["played"].get(algorithm, 0))
        self.write()

    def reach(self) -> None:
        """Its run has gone on."""
        assert self._run is not None
        now, t = self._said["now"], self._run.t
        self._said["played"][now["algorithm"]] += t - now["round"]
        now["round"] = t
        self._pace.reach(t)
        if time.monotonic() >= self._written + SECONDS_BETWEEN:
            self.write()

    def finish(self) -> None:
        """Its results are in the folder."""
        self._said["now"]["done"] = True
        self.write()

    def write(self) -> None:
        """Write it down now."""
        if self._run is not None:
            numbers = of_metrics(self._run.latest) | of_call(self._run.roll_call(NEWEST))
            self._said["now"] |= {"rate": self._pace.rate, **numbers}
        self._written = time.monotonic()
        text = json.dumps(self._said, indent=1) + "\n"
        write_whole(self._folder / PROGRESS, lambda part: part.write_text(text, "utf-8"), lasting=False)
