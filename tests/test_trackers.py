"""Trackers show what the store holds, read back through their own programs."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noshow as ns
from noshow.evaluate import Metrics
from noshow.spec import Spec
from noshow.store import RunFolder
from noshow.trackers import tracker

SPEC = """
name = "followed"
rounds = 6
sampled = 3
seeds = [0, 4]
evaluate_every = 2
epsilon = 0.5
data = { name = "synthetic", clients = 6, sizes = 20 }
model = { name = "logistic" }
adversary = { name = "largest_reply" }
[[algorithms]]
name = "fedavg"
rate = 0.01
[[algorithms]]
name = "gm"
label = "wild"
rate = 1e30
"""


def noshow(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from noshow.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | variables)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that all three have followed."""
    folder = tmp_path_factory.mktemp("followed")
    (folder / "spec.toml").write_text(SPEC)
    tracks = [word for name in ("mlflow", "tensorboard", "wandb") for word in ("--track", name)]
    done = noshow(folder, "run", "spec.toml", "--out", "out", *tracks, **variables(folder))
    assert done.returncode == 0, done.stderr
    return folder


def variables(folder: Path) -> dict[str, str]:
    return {
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
    }


def stored(folder: Path, label: str) -> ns.History:
    return RunFolder.open(folder / "out").load(label)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["fedavg", "wild"])
@pytest.mark.long
def test_tensorboard_shows_what_the_store_holds(followed: Path, label: str) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = stored(followed, label)
    for place, seed in enumerate(history.seeds):
        events = EventAccumulator(str(followed / "out" / "tensorboard" / label / f"seed-{seed}"))
        events.Reload()
        for name, column in history.scores._asdict().items():
            points = events.Scalars(name)
            assert [point.step for point in points] == history.evaluated.tolist()
            np.testing.assert_array_equal([point.value for point in points], column[place])
        used = [point.value for point in events.Scalars("epsilon_t")]
        np.testing.assert_allclose(used, history.roll_call.epsilon_t[place], rtol=1e-6)


READ_MLFLOW = """
import json
from mlflow import MlflowClient
client = MlflowClient()
experiment = client.get_experiment_by_name("followed").experiment_id
seen = []
for run in client.search_runs([experiment]):
    curves = {name: [[point.step, point.value] for point in client.get_metric_history(run.info.run_id, name)]
              for name in ("train_loss", "test_loss", "test_accuracy")}
    seen.append({"name": run.info.run_name, "status": run.info.status, "curves": curves, "params": run.data.params})
print("SEEN" + json.dumps(seen))
"""


@pytest.mark.slow
def test_mlflow_shows_what_the_store_holds(followed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ_MLFLOW], capture_output=True, text=True, env=os.environ | variables(followed)
    )
    assert done.returncode == 0, done.stderr
    seen = {run["name"]: run for run in json.loads(done.stdout.partition("SEEN")[2])}
    assert sorted(seen) == ["fedavg seed 0", "fedavg seed 4", "wild seed 0", "wild seed 4"]
    for label, status in (("fedavg", "FINISHED"), ("wild", "FAILED")):
        history = stored(followed, label)
        for place, seed in enumerate(history.seeds):
            run = seen[f"{label} seed {seed}"]
            assert run["status"] == status
            assert run["params"]["data.name"] == "synthetic"
            for name, column in history.scores._asdict().items():
                steps, values = zip(*run["curves"][name], strict=True)
                assert list(steps) == history.evaluated.tolist()
                np.testing.assert_array_equal(np.array(values, np.float32), column[place])


def records(file: Path) -> Iterator[Any]:
    """The records of an offline run: W&B's messages in LevelDB's log format, 32 kB blocks of (crc, length, type)."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, message = file.read_bytes(), 7, b""
    while at + 7 <= len(content):
        left = 2**15 - at % 2**15
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        message += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(message)
            message = b""


@pytest.mark.slow
def test_wandb_shows_what_the_store_holds(followed: Path) -> None:
    curves: dict[str, list[dict[str, float]]] = {}
    for file in (followed / "out" / "wandb").glob("offline-run-*/run-*.wandb"):
        name, rows = "", []
        for record in records(file):
            name = record.run.display_name or name
            row = {item.key or item.nested_key[0]: float(json.loads(item.value_json)) for item in record.history.item}
            rows += [row] if row else []
        curves[name] = rows
    assert sorted(curves) == ["fedavg seed 0", "fedavg seed 4", "wild seed 0", "wild seed 4"]
    for label in ("fedavg", "wild"):
        history = stored(followed, label)
        for place, seed in enumerate(history.seeds):
            rows = curves[f"{label} seed {seed}"]
            assert [row["round"] for row in rows] == history.evaluated.tolist()
            for name, column in history.scores._asdict().items():
                np.testing.assert_array_equal(np.array([row[name] for row in rows], np.float32), column[place])


@pytest.mark.slow
def test_what_is_finished_is_not_told_again(followed: Path) -> None:
    before = sorted(path.name for path in (followed / "out").rglob("*"))
    done = noshow(followed, "run", "spec.toml", "--out", "out", "--track", "tensorboard")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (followed / "out").rglob("*")) == before


def test_a_tracker_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ns.NoshowError, match=r"there is no tracker 'mlflo': did you mean 'mlflow'\?"):
        tracker("mlflo", tmp_path)
    for module in ("wandb", "noshow.trackers.to_wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ns.NoshowError, match=r"wandb is not installed: pip install 'noshow\[wandb\]'"):
        tracker("wandb", tmp_path)


def test_three_hooks_are_enough(tmp_path: Path) -> None:
    from rich.console import Console

    from noshow.display import PlainLines
    from noshow.run import complete
    from noshow.spec_file import load
    from noshow.trackers.telling import Telling

    told: list[tuple[object, ...]] = []

    class Mine:
        def begin(self, spec: Spec, label: str) -> None:
            told.append(("begin", spec.name, label))

        def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
            told.append((label, t, metrics.train_loss.shape))

        def finish(self, history: ns.History) -> None:
            told.append(("finish", history.algorithm))

    (tmp_path / "spec.toml").write_text(SPEC)
    spec = load(str(tmp_path / "spec.toml"), ["seeds=[0]"])
    shown = Telling(PlainLines(Console(quiet=True)), [Mine()], spec)
    assert complete(spec, RunFolder.of(spec, tmp_path / "out"), shown) is not None
    fedavg = [("fedavg", t, (1,)) for t in (0, 2, 4, 6)]
    wild = [("wild", t, (1,)) for t in (0, 2)]
    begun = [("begin", "followed", label) for label in ("fedavg", "wild")]
    assert told == [begun[0], *fedavg, ("finish", "fedavg"), begun[1], *wild, ("finish", "wild")]
