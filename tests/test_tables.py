"""Histories as Arrow, pandas and CSV, against the Parquet files of a run folder."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from reported import made

import noshow as ns
from noshow.store import RunFolder
from noshow.tables import TableName

TABLES: tuple[TableName, ...] = ("metrics", "roll_call", "diagnostics")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("runs") / "small", rounds=12, evaluate_every=5)


@pytest.fixture(scope="module")
def history(run: Path) -> ns.History:
    return RunFolder.open(run).load("mifa")


@pytest.mark.parametrize("name", TABLES)
def test_arrow_and_pandas_are_the_run_folders_parquet(name: TableName, run: Path, history: ns.History) -> None:
    kept = pq.read_table(run / "mifa" / f"{name}.parquet")
    assert history.to_arrow(name).equals(kept)
    frame = history.to_pandas(name)
    assert list(frame.columns) == kept.column_names
    assert len(frame) == kept.num_rows
    assert frame["round"].tolist() == kept["round"].to_pylist()


def test_metrics_are_what_is_told_unasked(history: ns.History, tmp_path: Path) -> None:
    assert history.to_arrow().equals(history.metrics)
    history.to_csv(tmp_path / "metrics.csv")
    assert list(pd.read_csv(tmp_path / "metrics.csv").columns) == history.metrics.column_names


@pytest.mark.parametrize("name", ["metrics", "diagnostics"])
def test_pandas_reads_the_csv_back_to_the_last_bit(name: TableName, history: ns.History, tmp_path: Path) -> None:
    history.to_csv(str(tmp_path / "table.csv"), name)
    table = history.to_arrow(name)
    frame = pd.read_csv(tmp_path / "table.csv")
    assert list(frame.columns) == table.column_names
    for column in table.column_names[1:]:
        kept = np.asarray(table[column])
        np.testing.assert_array_equal(frame[column].to_numpy().astype(kept.dtype), kept)
    assert set(frame["algorithm"]) == {"mifa"}


def test_ids_are_words_in_the_csv(history: ns.History, tmp_path: Path) -> None:
    history.to_csv(tmp_path / "calls.csv", "roll_call")
    with (tmp_path / "calls.csv").open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    rows = history.roll_call_table.to_pylist()
    assert len(lines) == len(rows) == 3 * 12
    for line, row in zip(lines, rows, strict=True):
        for column in ("sampled", "silenced", "responders"):
            assert [int(word) for word in line[column].split()] == row[column]
        assert (int(line["seed"]), int(line["round"])) == (row["seed"], row["round"])
        assert float(line["epsilon_t"]) == row["epsilon_t"]


def test_what_a_diverged_seed_lacks_is_nan(history: ns.History, tmp_path: Path) -> None:
    lost = history.scores.train_loss.copy()
    lost[1, 2:] = np.nan
    replace(history, scores=history.scores._replace(train_loss=lost)).to_csv(tmp_path / "lost.csv")
    frame = pd.read_csv(tmp_path / "lost.csv")
    np.testing.assert_array_equal(frame["train_loss"].isna(), np.isnan(lost).ravel())


def test_tables_that_are_not_there_are_told(history: ns.History, tmp_path: Path) -> None:
    with pytest.raises(ns.NoshowError, match="table is 'rounds': give one of metrics, roll_call, diagnostics"):
        history.to_arrow("rounds")  # type: ignore[arg-type]
    with pytest.raises(ns.NoshowError, match="mifa has no diagnostics"):
        replace(history, diagnostics=None).to_arrow("diagnostics")
    (tmp_path / "file").write_text("")
    with pytest.raises(ns.NoshowError, match="cannot be written"):
        history.to_csv(tmp_path / "file" / "metrics.csv")
