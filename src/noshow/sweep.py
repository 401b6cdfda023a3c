"""Sweeps: every cell of a grid run into its own folder of one store, here or by many workers, and one table of it all.

    STORE/CELL-DIGEST/   a run folder, as `noshow run` makes it
    STORE/GRID.parquet   the table: one row a cell and an algorithm; and the same as GRID.csv

A cell is known by its experiment, not by its grid: what is in the store is never run again, whichever grid asked for
it. Sweeps may share a store, also at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from noshow.checkpoint import SECONDS_BETWEEN
from noshow.clock import Clock
from noshow.errors import NoshowError, require
from noshow.interrupt import asked_to_stop
from noshow.lock import alone_in, taken
from noshow.machine import cores_allowed
from noshow.store import RUNS, RunFolder
from noshow.sweep_grid import Cell, Grid
from noshow.sweep_pool import Here, Pool
from noshow.sweep_ray import LOCAL, RayCrew
from noshow.sweep_table import Row, keep, rows_of
from noshow.sweep_work import Crew, Ended, Job

RETRIES = 3
"""How often a cell is taken up again after its worker died: what kills worker after worker is the cell."""
LOOKS = 0.5
"""Seconds after which the sweep looks again at cells that another process is at."""

Status = Literal["waiting", "running", "elsewhere", "put aside", "done", "failed"]
Settle = Callable[["Entry", Status, str], None]


@dataclass
class Entry:
    """A cell in the course of a sweep."""

    cell: Cell
    folder: RunFolder | None
    status: Status = "waiting"
    why: str = ""
    deaths: int = 0
    before: bool = False

    @property
    def open(self) -> bool:
        """Whether the cell is still to be run, by this sweep or another."""
        return self.status in ("waiting", "running", "elsewhere")


class Watcher(Protocol):
    """Where a sweep shows itself."""

    def show(self, entries: Sequence[Entry]) -> None:
        """The sweep begins."""

    def changed(self, entry: Entry) -> None:
        """A cell has another status."""


class Swept(NamedTuple):
    """What a sweep leaves behind: its cells, and one row a finished cell and algorithm."""

    entries: list[Entry]
    rows: list[Row]
    table: Path

    @property
    def failed(self) -> list[Entry]:
        """The cells that could not be run."""
        return [entry for entry in self.entries if entry.status == "failed"]

    @property
    def complete(self) -> bool:
        """Whether every cell is done."""
        return all(entry.status == "done" for entry in self.entries)


def sweep(
    grid: Grid,
    on: str = "here",
    workers: int | None = None,
    out: Path | None = None,
    watcher: Watcher | None = None,
    clock: Clock | None = None,
    seconds_between: float = SECONDS_BETWEEN,
) -> Swept:
    """Run what is missing of a grid's cells. An interrupt puts the cells in progress aside; the next call goes on.

    Args:
        grid: the cells, from `noshow.sweep_grid.load_grid`.
        on: `"here"`, in this process; `"pool"`, in processes of their own, one CPU core each; `"ray"`, on a Ray
            cluster started for it on this machine; or the address of a cluster, such as `"ray://10.0.0.1:10001"`.
            All workers must see the store under the same path.
        workers: how many at a time; as many as there are cores (or GPUs, on a cluster that has some) if left out.
        out: the store; `runs/GRID` if left out.
        watcher: told of every change.
        clock: when to stop.
        seconds_between: seconds between two checkpoints of a cell.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from noshow.sweep_grid import load_grid
        >>> grid = '''
        ... experiment = "synthetic-0.9"
        ... [set]
        ... rounds = 4
        ... adversary = { name = "largest_reply" }
        ... "data.clients" = 12
        ... "data.sizes" = 20
        ... [[grid]]
        ... algorithms = [["gm"]]
        ... rate = [0.01, 0.1]
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "rates.toml").write_text(grid)
        ...     swept = sweep(load_grid(f"{folder}/rates.toml"), out=Path(folder, "store"))
        >>> [(row.values["rate"], row.algorithm) for row in swept.rows]
        [(0.01, 'gm'), (0.1, 'gm')]
    """
    clock = clock or Clock()
    crew = _crew(on, workers, clock)
    store = (out or RUNS / grid.name).absolute()
    with alone_in(store, wait=True):
        entries = [_placed(cell, store) for cell in grid.cells]
    if watcher:
        watcher.show(entries)
    if any(entry.open for entry in entries):
        # Ray takes signals for itself when it starts: ours come after.
        with crew, asked_to_stop(clock.stop, "putting the runs aside; once more to stop at once"):
            _drive(entries, crew, clock, seconds_between, watcher)
    rows = rows_of((entry.cell, entry.folder) for entry in entries if entry.folder and entry.status == "done")
    return Swept(entries, rows, keep(rows, grid, store))


def _crew(on: str, workers: int | None, clock: Clock) -> Crew:
    require(workers is None or workers >= 1, f"workers is {workers}: give at least 1")
    if on == "here":
        require(workers is None, "one process runs the sweep here: leave out --workers, or choose --on pool")
        return Here(clock)
    if on == "pool":
        return Pool(workers or cores_allowed())
    if on == LOCAL or on.startswith("ray://"):
        return RayCrew(on, workers)
    raise NoshowError(f"on is {on!r}: give here, pool, ray, or the address of a Ray cluster, ray://HOST:PORT")


def _placed(cell: Cell, store: Path) -> Entry:
    """The cell's folder: the one that holds its experiment already, or a new one. Only while alone in the store."""
    if cell.spec is None:
        return Entry(cell, None, "failed", cell.problem)
    there = sorted(store.glob(f"*-{cell.spec.digest}"))
    path = there[0] if there else store / f"{cell.name[:100]}-{cell.spec.digest}"
    try:
        path.mkdir(exist_ok=True)
        folder = RunFolder.of(cell.spec, path)
    except (NoshowError, OSError) as error:
        return Entry(cell, None, "failed", str(error))
    done = _is_done(folder)
    return Entry(cell, folder, "done" if done else "waiting", before=done)


def _is_done(folder: RunFolder) -> bool:
    return len(folder.finished) == len(folder.spec.labels)


def _drive(entries: Sequence[Entry], crew: Crew, clock: Clock, seconds_between: float, watcher: Watcher | None) -> None:
    """Hand out cells as workers become free, until none is open; when time is up, wait until all are put aside."""

    def settle(entry: Entry, status: Status, why: str) -> None:
        news = (status, why) != (entry.status, entry.why)
        entry.status, entry.why = status, why
        if watcher and news:
            watcher.changed(entry)

    waiting = deque(place for place, entry in enumerate(entries) if entry.open)
    while any(entry.open for entry in entries) and not clock.up:
        for _ in range(len(waiting)):
            if not crew.free or clock.up:
                break
            place = waiting.popleft()
            entry = entries[place]
            assert entry.folder is not None
            if _is_done(entry.folder):
                settle(entry, "done", "")
            elif taken(entry.folder.path):
                settle(entry, "elsewhere", "")
                waiting.append(place)
            else:
                settle(entry, "running", "")
                crew.start(Job(place, str(entry.folder.path), entry.folder.spec.to_toml(), seconds_between))
        waiting += _settled(crew.ended(LOOKS), entries, settle)
    crew.stop()
    while any(entry.status == "running" for entry in entries):
        _settled(crew.ended(LOOKS), entries, settle)


def _settled(endings: Iterable[Ended], entries: Sequence[Entry], settle: Settle) -> list[int]:
    """Settle what has ended; the places of those that are to be run again."""
    again = []
    for place, how, why in endings:
        entry = entries[place]
        if how == "died":
            entry.deaths += 1
            if entry.deaths > RETRIES:
                settle(entry, "failed", f"its worker died {entry.deaths} times ({why}): is there enough memory?")
                continue
            settle(entry, "waiting", f"its worker died ({why}): taken up again from its checkpoint")
            again.append(place)
        elif how == "busy":
            settle(entry, "elsewhere", "")
            again.append(place)
        else:
            settle(entry, how, why)
    return again
