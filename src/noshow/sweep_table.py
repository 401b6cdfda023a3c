"""The table of a sweep: one row a cell and an algorithm, and the best cell of each algorithm."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from rich.table import Table
from rich.text import Text

from noshow.divergence import diverged_at, in_words
from noshow.evaluate import Metrics
from noshow.files import write_whole
from noshow.progress import progress_of
from noshow.store import RunFolder
from noshow.sweep_grid import Cell, Grid


class Row(NamedTuple):
    """An algorithm's last evaluation in one cell, mean over seeds."""

    cell: str
    values: dict[str, Any]
    algorithm: str
    metrics: Metrics
    rounds: int
    starts: int
    diverged: str | None = None


def rows_of(finished: Iterable[tuple[Cell, RunFolder]]) -> list[Row]:
    """The rows of finished cells, in their order."""
    return [_row(cell, folder, label) for cell, folder in finished for label in folder.spec.labels]


def best_rows(rows: Sequence[Row]) -> list[Row]:
    """For each algorithm its row with the lowest train loss; one that diverged is never the best.

    Example:
        >>> rows = [Row(f"rate={r}", {"rate": r}, "gm", Metrics(loss, 1.0, 0.5), 10, 1)
        ...         for r, loss in ((0.1, 0.9), (1.0, 0.7), (10.0, float("nan")))]
        >>> [row.cell for row in best_rows(rows)]
        ['rate=1.0']
    """
    best: dict[str, Row] = {}
    for row in rows:
        loss = float(row.metrics.train_loss)
        if math.isfinite(loss) and (row.algorithm not in best or loss < best[row.algorithm].metrics.train_loss):
            best[row.algorithm] = row
    return list(best.values())


def keep(rows: Sequence[Row], grid: Grid, store: Path) -> Path:
    """Write the table beside the cells, as Parquet and as CSV; the Parquet file."""
    table = as_table(rows, grid.keys)
    file = store / f"{grid.name}.parquet"
    write_whole(file, lambda part: pq.write_table(table, part))
    write_whole(file.with_suffix(".csv"), lambda part: pa_csv.write_csv(table, part))
    return file


def as_table(rows: Sequence[Row], keys: Sequence[str]) -> pa.Table:
    """The rows as an Arrow table: numbers stay numbers, other values are JSON; empty where a cell has none."""
    columns: dict[str, Any] = {"cell": pa.array([row.cell for row in rows], pa.string())}
    for key in keys:
        columns[key] = _column([row.values.get(key) for row in rows])
    columns["algorithm"] = pa.array([row.algorithm for row in rows], pa.string())
    for place, name in enumerate(Metrics._fields):
        columns[name] = pa.array([float(row.metrics[place]) for row in rows], pa.float64())
    columns["rounds"] = pa.array([row.rounds for row in rows], pa.int64())
    columns["starts"] = pa.array([row.starts for row in rows], pa.int64())
    columns["diverged"] = pa.array([row.diverged or "" for row in rows], pa.string())
    return pa.table(columns)


def shown(rows: Sequence[Row], keys: Sequence[str]) -> Table:
    """The rows for a terminal, algorithm by algorithm, the best of each marked."""
    best = best_rows(rows)
    # Which algorithms a cell runs is told by its rows.
    named = [key for key in keys if key != "algorithms" and any(key in row.values for row in rows)]
    table = Table(caption="★ the lowest train loss of an algorithm", caption_justify="left")
    table.add_column("algorithm", no_wrap=True)
    for key in named:
        table.add_column(Text(key), justify="right", no_wrap=True)
    for heading in ("train loss", "test accuracy", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for label in dict.fromkeys(row.algorithm for row in rows):
        for row in (row for row in rows if row.algorithm == label):
            wins = row in best
            values = [Text(_text(row.values.get(key))) for key in named]
            numbers = (*_numbers(row), "★" if wins else "")
            table.add_row(label, *values, *numbers, style="bold" if wins else "")
        table.add_section()
    return table


def _numbers(row: Row) -> tuple[str, str]:
    if row.diverged:
        return row.diverged, "–"
    return f"{row.metrics.train_loss:.4f}", f"{row.metrics.test_accuracy:.4f}"


def _row(cell: Cell, folder: RunFolder, label: str) -> Row:
    table = pq.read_table(folder.path / label / "metrics.parquet")
    rounds = np.asarray(table["round"])
    last = rounds == rounds.max()
    means = Metrics(*(float(np.mean(np.asarray(table[name])[last])) for name in Metrics._fields))
    starts = len(progress_of(folder.path)["starts"])
    evaluated = np.unique(rounds)
    diverged = in_words(diverged_at(evaluated, np.asarray(table["train_loss"]).reshape(-1, len(evaluated))))
    return Row(folder.path.name, cell.values, label, means, int(rounds.max()), starts, diverged)


def _column(values: Sequence[Any]) -> Any:
    given = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
