"""The command `noshow export`, as a user types it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from reported import diverging, made, spec_of
from safetensors.numpy import load_file
from typer.testing import CliRunner

import noshow as ns
from noshow.arrays import load_arrays, save_arrays
from noshow.cli import app
from noshow.spec import realise
from noshow.store import RunFolder
from noshow.weights import start_from

SEEDS, LABELS = (3, 5, 9), ("fedavg", "mifa", "slow")


def export(*arguments: str | Path) -> Result:
    words = ["export", *map(str, arguments)]
    return CliRunner().invoke(app, words, env=os.environ | {"COLUMNS": "400"}, catch_exceptions=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, with models of logistic regression drawn at random."""
    folder = made(tmp_path_factory.mktemp("runs") / "small")
    rng = np.random.default_rng(0)
    for label in LABELS:
        shapes = {f"{seed}:{leaf}": shape for seed in SEEDS for leaf, shape in (("weights", (10, 60)), ("bias", (10,)))}
        arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        save_arrays(folder / label / "model.npz", arrays)
    diverging(folder, "slow", seed=5, after=10)
    return folder


def test_a_model_is_the_run_folders(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "new" / "model.safetensors"
    told = export(run, "--algorithm", "mifa", "--seed", "5", "-o", file).stdout
    assert told == f"model: {file} (mifa, seed 5, round 40)\n"
    kept, found = load_arrays(run / "mifa" / "model.npz"), load_file(file)
    np.testing.assert_array_equal(found["weight"], kept["5:weights"])
    np.testing.assert_array_equal(found["bias"], kept["5:bias"])


def test_the_first_seed_unless_another_is_asked_for(run: Path, tmp_path: Path) -> None:
    told = export(run, "--algorithm", "slow", "--model", tmp_path / "m.safetensors").stdout
    assert "(slow, seed 3, round 20)" in told
    kept = load_arrays(run / "slow" / "model.npz")
    np.testing.assert_array_equal(load_file(tmp_path / "m.safetensors")["bias"], kept["3:bias"])


def test_a_diverged_seeds_model_is_called_so(run: Path, tmp_path: Path) -> None:
    told = export(run, "--algorithm", "slow", "--seed", "5", "-o", tmp_path / "m.safetensors").stdout
    assert "(slow, seed 5, the evaluation before it diverged by round 10)" in told


def test_the_next_run_starts_from_the_exported_model(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    export(run, "--algorithm", "fedavg", "-o", file)
    experiment = realise(spec_of(model={"name": "logistic", "start_from": str(file)}))
    kept = load_arrays(run / "fedavg" / "model.npz")
    params = experiment.model.init(None)  # type: ignore[arg-type]
    np.testing.assert_array_equal(params["weights"], kept["3:weights"])
    assert start_from(file, ns.models.logistic()).name == experiment.model.name


def test_a_run_that_started_from_a_file_needs_it_no_more(tmp_path: Path) -> None:
    """Its spec names the file, and the folder has the models."""
    spec = spec_of(model={"name": "logistic", "start_from": "gone.safetensors"}, diagnose=False)
    folder = RunFolder.of(spec, tmp_path / "run")
    folder.begin()
    other = RunFolder.open(made(tmp_path / "other", diagnose=False)).load("mifa")
    model = {"weights": np.ones((10, 60), np.float32), "bias": np.ones(10, np.float32)}
    folder.save(ns.History(**(vars(other) | {"models": [model] * 3})))
    told = export(tmp_path / "run", "-o", tmp_path / "m.safetensors").stdout
    assert "(mifa, seed 3, round 40)" in told


@pytest.mark.parametrize("table", ["metrics", "roll_call", "diagnostics"])
def test_csv_holds_all_algorithms(table: str, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    told = export(run, "--csv", file, "--table", table).stdout
    frame = pd.read_csv(file)
    kept = [pq.read_table(run / label / f"{table}.parquet") for label in LABELS]
    assert told == f"{table}: {file} ({sum(part.num_rows for part in kept):,} rows: fedavg, mifa, slow)\n"
    assert list(frame.columns) == kept[0].column_names
    assert frame["algorithm"].tolist() == [word for part in kept for word in part["algorithm"].to_pylist()]
    assert frame["round"].tolist() == [t for part in kept for t in part["round"].to_pylist()]


def test_csv_of_one_algorithm(run: Path, tmp_path: Path) -> None:
    export(run, "--algorithm", "mifa", "--csv", tmp_path / "table.csv", "-o", tmp_path / "both.safetensors")
    frame = pd.read_csv(tmp_path / "table.csv")
    losses = np.asarray(pq.read_table(run / "mifa" / "metrics.parquet")["train_loss"])
    np.testing.assert_array_equal(frame["train_loss"].to_numpy().astype(np.float32), losses)
    assert (tmp_path / "both.safetensors").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "there is nothing to export: give --model FILE or --csv FILE"),
        (["-o", "m.safetensors"], "give --algorithm, one of fedavg, mifa, slow"),
        (["-o", "m.npz", "--algorithm", "mifa"], "written as .safetensors: m.npz ends otherwise"),
        (["-o", "m.safetensors", "--algorithm", "mofa"], "has no algorithm 'mofa': did you mean 'mifa'"),
        (["-o", "m.safetensors", "--algorithm", "mifa", "--seed", "4"], "mifa has no seed 4: give one of 3, 5, 9"),
        (["--csv", "t.csv", "--seed", "3"], "--seed says which model"),
        (["--csv", "t.csv", "--table", "rounds"], "table is 'rounds': give one of"),
    ],
)
def test_what_cannot_be_exported_is_told(
    arguments: list[str], sentence: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ns.NoshowError, match=sentence):
        export(run, *arguments)
    assert not list(tmp_path.iterdir())


def test_what_is_not_finished_is_told(tmp_path: Path) -> None:
    folder = RunFolder.of(spec_of(), tmp_path / "begun")
    folder.begin()
    with pytest.raises(ns.NoshowError, match="has no finished algorithm yet"):
        export(folder.path, "--csv", tmp_path / "t.csv")
    folder.save(RunFolder.open(made(tmp_path / "other")).load("mifa"))
    with pytest.raises(ns.NoshowError, match="slow is not finished in"):
        export(folder.path, "--csv", tmp_path / "t.csv", "--algorithm", "slow")
    with pytest.raises(ns.NoshowError, match="is no run folder"):
        export(tmp_path, "--csv", tmp_path / "t.csv")
