"""The command, as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from test_spec import SMALL

import noshow as ns
from noshow.progress import progress_of
from noshow.store import RunFolder

TWO = SMALL + '\n[[algorithms]]\nname = "gm"\nrate = 0.1\n'


def noshow(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", "from noshow.cli import main; main()", *arguments]
    environment = os.environ | {"COLUMNS": "120"} | variables
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of two algorithms and two seeds in `out`."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "small.toml").write_text(TWO, "utf-8")
    done = noshow(folder, "run", "small.toml", "--set", "rounds=20", "--seeds", "0,5", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for word in ("train loss", "test accuracy", "mean ε_t", "seconds", "fedavg", "gm", "out/figure.png"):
        assert word in done.stdout
    return folder


def test_the_run_folder_holds_everything(home: Path) -> None:
    out = home / "out"
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    facts = json.loads((out / "about.json").read_text())
    assert {"noshow", "jax", "numpy", "python", "machine", "started"} <= set(facts)
    metrics = pq.read_table(out / "gm" / "metrics.parquet")
    assert set(metrics["seed"].to_pylist()) == {0, 5}
    assert set(metrics["round"].to_pylist()) == {0, 15, 20}
    calls = pq.read_table(out / "fedavg" / "roll_call.parquet").to_pylist()
    assert len(calls) == 2 * 20
    assert max(row["epsilon_t"] for row in calls) <= 0.5
    model = np.load(out / "gm" / "model.npz", allow_pickle=False)
    assert {name: model[name].shape for name in model.files} == {
        "0:bias": (10,),
        "0:weights": (10, 60),
        "5:bias": (10,),
        "5:weights": (10, 60),
    }
    assert not list(out.glob(".*"))


def test_the_saved_model_is_the_evaluated_one(home: Path) -> None:
    """The accuracy of the last row, from the saved arrays alone."""
    folder = RunFolder.open(home / "out")
    model = np.load(home / "out" / "fedavg" / "model.npz")
    x, y = ns.datasets.synthetic(clients=8, sizes=20).test
    accuracy = np.mean(np.argmax(x @ model["5:weights"].T + model["5:bias"], axis=1) == y)
    assert folder.load("fedavg").scores.test_accuracy[1, -1] == pytest.approx(accuracy)


def test_a_loaded_history_is_the_saved_one(home: Path) -> None:
    folder = RunFolder.open(home / "out")
    history = folder.load("fedavg")
    assert history.seeds.tolist() == [0, 5]
    assert history.roll_call.epsilon == 0.5
    assert history.roll_call.answered.shape == (2, 20, 4)
    assert history.metrics.equals(pq.read_table(home / "out" / "fedavg" / "metrics.parquet"))
    assert history.roll_call_table.equals(pq.read_table(home / "out" / "fedavg" / "roll_call.parquet"))


def test_a_finished_run_is_not_run_again_unless_asked(home: Path) -> None:
    result = home / "out" / "gm" / "result.json"
    before = result.stat().st_mtime_ns
    arguments = ("run", "small.toml", "--set", "rounds=20", "--seeds", "0,5", "--out", "out")
    again = noshow(home, *arguments)
    assert again.returncode == 0
    assert "not run again" in again.stdout
    assert result.stat().st_mtime_ns == before
    numbers = (home / "out" / "gm" / "metrics.parquet").read_bytes()
    anew = noshow(home, *arguments, "--again")
    assert anew.returncode == 0
    assert result.stat().st_mtime_ns != before
    assert (home / "out" / "gm" / "metrics.parquet").read_bytes() == numbers  # the same seed, the same numbers


@pytest.mark.long
def test_only_what_is_missing_is_run(home: Path, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(TWO, "utf-8")
    assert noshow(tmp_path, "run", "small.toml", "--out", "out").returncode == 0
    kept = (tmp_path / "out" / "fedavg" / "result.json").stat().st_mtime_ns
    shutil.rmtree(tmp_path / "out" / "gm")
    shown = noshow(tmp_path, "show", "out")
    assert "not finished: gm" in shown.stdout
    again = noshow(tmp_path, "run", "out/spec.toml", "--out", "out")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "out" / "gm" / "result.json").exists()
    assert (tmp_path / "out" / "fedavg" / "result.json").stat().st_mtime_ns == kept


def test_show(home: Path) -> None:
    shown = noshow(home, "show", "out")
    assert shown.returncode == 0
    assert "small" in shown.stdout
    assert "fedavg" in shown.stdout
    spec = noshow(home, "show", "out", "--spec")
    (home / "again.toml").write_text(spec.stdout)
    same = noshow(home, "run", "again.toml", "--out", "out")
    assert "not run again" in same.stdout


def test_presets_and_version(home: Path) -> None:
    assert "synthetic-0.9" in noshow(home, "presets").stdout
    assert noshow(home, "--version").stdout == f"noshow {ns.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "sinthetic-0.9"), "there is no preset 'sinthetic-0.9': did you mean 'synthetic-0.9'?"),
        (("run", "small.toml", "--set", "epsilon=2"), "epsilon is 2: give a number from 0"),
        (("run", "small.toml", "--seeds", "0,x"), "seeds is"),
        (("run", "small.toml", "--out", "out"), "out holds another run (rounds, seeds differ): choose another --out"),
        (("run", "small.toml", "--out", "taken"), "taken is there already and is no run folder"),
        (("run", "small.toml", "--out", "small.toml/x"), "cannot be written"),
        (("run", "small.toml", "--out", "mine"), "mine is there already and is no run folder"),
        (("run", "small.toml", "--out", "x" * 300), "File name too long"),
        (
            ("run", "small.toml", "--set", "model.features=5"),
            "the model 'logistic' cannot read the data of 'synthetic(1,1)'",
        ),
        (("show", "nowhere"), "nowhere is no run folder: it has no spec.toml"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(home: Path, arguments: tuple[str, ...], sentence: str) -> None:
    (home / "taken").mkdir(exist_ok=True)
    (home / "taken" / "notes.txt").write_text("mine")
    (home / "mine" / "fedavg").mkdir(parents=True, exist_ok=True)
    (home / "mine" / "spec.toml").write_text((home / "small.toml").read_text())
    before = sorted(str(path) for path in home.rglob("*"))
    failed = noshow(home, *arguments)
    assert failed.returncode == 2
    assert sentence in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert sorted(str(path) for path in home.rglob("*")) == before


@pytest.mark.long
def test_zero_rounds_are_kept_and_read_back(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL, "utf-8")
    for expected in ("done in", "not run again"):
        done = noshow(tmp_path, "run", "small.toml", "--set", "rounds=0", "--out", "out")
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout


def test_a_damaged_result_is_told(home: Path, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL, "utf-8")
    assert noshow(tmp_path, "run", "small.toml", "--out", "out").returncode == 0
    (tmp_path / "out" / "fedavg" / "metrics.parquet").write_bytes(b"not parquet")
    failed = noshow(tmp_path, "show", "out")
    assert failed.returncode == 2
    assert "are damaged" in failed.stderr
    assert failed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "text"), [("fedavg/result.json", "[]"), ("fedavg/result.json", '{"seeds": 3}'), ("about.json", "[3]")]
)
def test_damaged_json_is_told(home: Path, tmp_path: Path, file: str, text: str) -> None:
    shutil.copytree(home / "out", tmp_path / "out")
    (tmp_path / "out" / file).write_text(text)
    failed = noshow(tmp_path, "show", "out")
    assert failed.returncode == 2
    assert "damaged" in failed.stderr
    assert failed.stderr.count("\n") == 1


def test_a_users_folder_in_the_way_is_kept(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "out", tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "gm")
    (tmp_path / "out" / "gm").mkdir()
    (tmp_path / "out" / "gm" / "thesis.txt").write_text("mine")
    failed = noshow(tmp_path, "run", "out/spec.toml", "--out", "out")
    assert failed.returncode == 2
    assert "holds no results: move it away" in failed.stderr
    assert (tmp_path / "out" / "gm" / "thesis.txt").read_text() == "mine"


@pytest.mark.long
def test_brackets_and_poor_terminals(home: Path, tmp_path: Path) -> None:
    """Text from a file is shown as it is, and signs that a terminal lacks are replaced."""
    text = (home / "small.toml").read_text().replace('name = "small"', 'name = "small"\ndescription = "[/] of [red]"')
    (tmp_path / "small.toml").write_text(text)
    done = noshow(tmp_path, "run", "small.toml", "--out", "[/out]")
    assert done.returncode == 0, done.stderr
    shown = noshow(tmp_path, "show", "[/out]", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert shown.returncode == 0, shown.stderr
    assert "[/] of [red]" in shown.stdout


# Where tests run in the background, programs start with SIGINT ignored, and Python leaves it so.
HEARS_SIGINT = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from noshow.cli import main; main()"
)


@contextmanager
def interruptible(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, to be sent SIGINT; it never outlives its test."""
    command = [sys.executable, "-u", "-c", HEARS_SIGINT, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stderr=pipe, stdout=pipe, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.slow
def test_an_interrupt_puts_the_run_aside_and_says_so(home: Path, tmp_path: Path) -> None:
    shutil.copy(home / "small.toml", tmp_path)
    changes = ["--set", "rounds=2000000", "--set", "evaluate_every=2000000"]
    with interruptible(tmp_path, "run", "small.toml", "--out", "out", *changes) as running:
        deadline = time.monotonic() + 120
        while not progress_of(tmp_path / "out")["played"].get("fedavg") and time.monotonic() < deadline:
            time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        said, told = running.communicate(timeout=120)
    assert running.returncode == 130
    assert told == "noshow: putting the run aside; once more to stop at once\n"
    assert said.endswith("stopped; the same command goes on from here\n")
    with np.load(tmp_path / "out" / "unfinished" / "fedavg.npz") as kept:
        assert 0 < int(kept["t"]) < 2000000


@pytest.mark.long
@pytest.mark.slow
def test_an_interrupted_reproduction_is_put_aside(tmp_path: Path) -> None:
    arguments = ["reproduce", "synthetic-long", "--setting", "written", "--seeds", "0", "--out", "out"]
    with interruptible(tmp_path, *arguments) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if "fedavg: 4000 rounds" in line:
                break
        time.sleep(8)
        running.send_signal(signal.SIGINT)
        said, told = running.communicate(timeout=120)
    assert running.returncode == 130
    assert told == "noshow: putting the run aside; once more to stop at once\n"
    assert "stopped; the same command goes on from here" in said
    aside = tmp_path / "out" / "synthetic-long" / "written" / "unfinished" / "fedavg.npz"
    with np.load(aside) as kept:
        assert 0 <= int(kept["t"]) < 4000  # zero if the adversary was still preparing
