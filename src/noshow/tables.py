"""Histories as tables, by the names that run folders give their Parquet files, and tables as CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from noshow.errors import NoshowError, require
from noshow.files import write_whole

if TYPE_CHECKING:
    import pyarrow

    from noshow.history import History

TableName = Literal["metrics", "roll_call", "diagnostics"]
"""One row a seed and an evaluation, or one row a seed and a round."""


def table_of(history: History, name: TableName) -> pyarrow.Table:
    """One of a history's tables."""
    require(name in get_args(TableName), f"table is {name!r}: give one of {', '.join(get_args(TableName))}")
    if name == "metrics":
        return history.metrics
    if name == "roll_call":
        return history.roll_call_table
    seen = history.diagnostics
    if seen is None:
        raise NoshowError(f"{history.algorithm} has no diagnostics: run it with diagnose")
    return seen.table(history.algorithm, history.seeds)


def write_csv(file: Path, table: pyarrow.Table) -> None:
    """Write a table with a line of column names first; lists become words, such as `3 1 7`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import pyarrow as pa
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_csv(Path(folder) / "calls.csv", pa.table({"round": [0, 1], "silenced": [[3, 1], []]}))
        ...     (Path(folder) / "calls.csv").read_text().split()
        ['"round","silenced"', '0,"3', '1"', '1,""']
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            words: Any = pc.binary_join(table[field.name].cast(pa.list_(pa.string())), " ")
            table = table.set_column(place, field.name, words)
    write_whole(file, lambda part: csv.write_csv(table, part))
