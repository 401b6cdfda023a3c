"""`noshow new flower-app`: what it writes, and that what it wrote runs."""

from __future__ import annotations

import errno
import importlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from flwr.app import Context, Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from moving_nodes import Nodes
from typer.testing import CliRunner

import noshow as ns
from noshow import cli_new, trace
from noshow.cli import app


def noshow(*arguments: str | Path) -> Result:
    environment = os.environ | {"COLUMNS": "400"}
    return CliRunner().invoke(app, [str(word) for word in arguments], env=environment, catch_exceptions=False)


@pytest.mark.parametrize("client", ["torch", "numpy"])
def test_a_whole_app_is_written(client: str, tmp_path: Path) -> None:
    place = tmp_path / "It's a $café"
    assert str(place) in noshow("new", "flower-app", place, "--client", client).stdout
    assert sorted(str(file.relative_to(place)) for file in place.rglob("*.*")) == [
        "README.md",
        *(f"it_s_a_caf/{name}.py" for name in ("__init__", "client_app", "data", "model", "server_app")),
        "pyproject.toml",
    ]
    assert [file.name for file in tmp_path.iterdir()] == [place.name]
    project = tomllib.loads((place / "pyproject.toml").read_text("utf-8"))
    flower = project["tool"]["flwr"]["app"]
    assert project["project"]["name"] == "it-s-a-caf"
    assert flower["components"]["clientapp"] == "it_s_a_caf.client_app:app"
    assert flower["config"]["folder"] == str(place / "state")
    for file in place.rglob("*.py"):
        compile(file.read_text("utf-8"), str(file), "exec")
    assert ("import torch" in (place / "it_s_a_caf" / "model.py").read_text("utf-8")) == (client == "torch")
    readme = (place / "README.md").read_text("utf-8")
    assert ("torch" in readme) == (client == "torch")
    assert not re.search(r"\$(name|package|needs|folder|\$)", readme)


def test_pytorch_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()  # an empty folder will do
    noshow("new", "flower-app", tmp_path / "app")
    assert "import torch" in (tmp_path / "app" / "app" / "model.py").read_text("utf-8")


def test_an_empty_folder_stays_the_one_that_a_shell_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app").mkdir()
    monkeypatch.chdir(tmp_path / "app")
    noshow("new", "flower-app", ".")
    assert sorted(os.listdir(".")) == ["README.md", "app", "pyproject.toml"]
    assert os.listdir(tmp_path) == ["app"]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_fails_halfway_leaves_nothing(
    there: bool, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def fails_at_last(self: Path, *arguments: Any) -> int:
        if self.name == "data.py":
            raise error
        return write(self, *arguments)

    if there:
        (tmp_path / "app").mkdir()
    monkeypatch.setattr(Path, "write_text", fails_at_last)
    expected = ns.NoshowError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        cli_new.flower_app(tmp_path / "app", "numpy", "synthetic")
    assert list(tmp_path.rglob("*")) == ([tmp_path / "app"] if there else [])


def test_nothing_that_is_there_is_touched(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine", "utf-8")
    (tmp_path / "file").write_text("mine", "utf-8")
    for place in ("full", "file"):
        with pytest.raises(ns.NoshowError, match="is there already and is no empty folder: choose another"):
            noshow("new", "flower-app", tmp_path / place)
    assert sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")) == ["file", "full", "full/mine.txt"]
    with pytest.raises(ns.NoshowError, match="client is 'pytorch': did you mean 'torch'"):
        noshow("new", "flower-app", tmp_path / "new", "--client", "pytorch")
    with pytest.raises(ns.NoshowError, match="data is 'mnist': known: synthetic"):
        noshow("new", "flower-app", tmp_path / "new", "--data", "mnist")
    with pytest.raises(ns.NoshowError, match="has no letters to name an app by"):
        noshow("new", "flower-app", tmp_path / "---")
    with pytest.raises(ns.NoshowError, match="cannot be written"):
        noshow("new", "flower-app", tmp_path / "file" / "below")


class AppNodes(Nodes):
    """The generated client app at nodes of its own, in this process."""

    def __init__(self, client_app: Any, clients: int, run_config: dict[str, Any]) -> None:
        super().__init__(clients, lambda client, t: np.zeros(1))
        self.app, self.run_config = client_app, run_config

    def reply(self, client: int, message: Message) -> Message:
        return self.app(message, Context(1, client, {"partition-id": client}, RecordDict(), self.run_config))


def test_the_numpy_app_takes_the_step_that_can_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From zero, one full-batch step of everybody: theta = -rate / N X'(1/C - Y) over all clients' data."""
    noshow("new", "flower-app", tmp_path / "one-step", "--client", "numpy")
    monkeypatch.syspath_prepend(str(tmp_path / "one-step"))
    server, client, data = (
        importlib.import_module(f"one_step.{name}") for name in ("server_app", "client_app", "data")
    )
    project = tomllib.loads((tmp_path / "one-step" / "pyproject.toml").read_text("utf-8"))
    config = project["tool"]["flwr"]["app"]["config"] | {"rounds": 1, "steps": 1, "sampled": 4, "run": "first"}
    grid = AppNodes(client.app, 4, config)
    server.app(grid, Context(1, SUPERLINK_NODE_ID, {}, RecordDict(), config))

    held = [data.load(number) for number in range(4)]
    x = np.concatenate([one.train_x for one in held]).astype(np.float64)
    y = np.concatenate([one.train_y for one in held])
    slope = 1 / data.CLASSES - np.eye(data.CLASSES)[y]
    with np.load(tmp_path / "one-step" / "state" / "first.npz") as model:
        np.testing.assert_allclose(model["weights"], -config["rate"] * x.T @ slope / len(y), atol=1e-6)
        np.testing.assert_allclose(model["bias"], -config["rate"] * slope.mean(0), atol=1e-6)
        right = [(one.test_x @ model["weights"] + model["bias"]).argmax(1) == one.test_y for one in held]
    weights = [len(one.train_y) for one in held]
    accuracy = np.average([hits.mean() for hits in right], weights=weights)
    assert f"after round 1: accuracy {accuracy:.3f}, loss " in capsys.readouterr().out
    called = trace.read(tmp_path / "one-step" / "state" / "first.parquet")
    assert {entry.client: entry.n for entry in called} == {f"client-{k}": n for k, n in enumerate(weights)}

    grid.dead = {2}  # registered, and gone: sampled all the same
    config |= {"rounds": 3, "timeout": 0.2}
    server.app(grid, Context(1, SUPERLINK_NODE_ID, {}, RecordDict(), config))
    called = trace.read(tmp_path / "one-step" / "state" / "first.parquet")
    assert [(entry.round, entry.client) for entry in called if entry.status == "silent"] == [
        (2, "client-2"),
        (3, "client-2"),
    ]


@pytest.mark.long
def test_the_pytorch_app_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    noshow("new", "flower-app", tmp_path / "in-torch")
    monkeypatch.syspath_prepend(str(tmp_path / "in-torch"))
    server, client = (importlib.import_module(f"in_torch.{name}") for name in ("server_app", "client_app"))
    project = tomllib.loads((tmp_path / "in-torch" / "pyproject.toml").read_text("utf-8"))
    config = project["tool"]["flwr"]["app"]["config"] | {"rounds": 20, "sampled": 4, "run": "first"}
    server.app(AppNodes(client.app, 4, config), Context(1, SUPERLINK_NODE_ID, {}, RecordDict(), config))
    scores = [float(score) for score in re.findall(r"accuracy ([\d.]+)", capsys.readouterr().out)]
    assert len(scores) == 20
    assert scores[-1] > scores[0] + 0.2
    with np.load(tmp_path / "in-torch" / "state" / "first.npz") as model:
        assert {name: array.shape for name, array in model.items()} == {
            "0.weight": (32, 20),
            "0.bias": (32,),
            "2.weight": (5, 32),
            "2.bias": (5,),
        }


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def superlink(home: Path, environment: dict[str, str]) -> Iterator[None]:
    """A SuperLink with Flower's simulation, on a free port of this machine, known to `flwr` as `here`."""
    port = free_port()
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n', "utf-8"
    )
    words = ["flower-superlink", "--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)]
    with (home / "superlink.log").open("w") as log:
        process = subprocess.Popen(
            [*words, "--disable-runtime-dependency-installation"],
            env=environment,
            cwd=home,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                    break
            except OSError:
                time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def snippet(place: Path, starts: str) -> tuple[str, str]:
    """The import and the line that the app's README gives for a rehearsal."""
    found = re.search(rf"```python\n({starts}\n)\n(.*)\n```", (place / "README.md").read_text("utf-8"))
    assert found is not None
    return found[1], found[2]


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), "utf-8")


def flower_run(place: Path, home: Path) -> str:
    """What `flwr run` says of eight rounds of six simulated clients, four of them sampled in each."""
    environment = os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RAY_ADDRESS": "local",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    words = ["flwr", "run", str(place), "here", "--stream", "--federation-config", "num-supernodes=6"]
    with superlink(home, environment):
        done = subprocess.run(
            [*words, "--run-config", 'rounds=8 sampled=4 run="first"'],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.long
def test_the_app_runs_in_flowers_simulation_and_its_clients_fail_where_they_were_asked_to(tmp_path: Path) -> None:
    place = tmp_path / "night-shift"
    noshow("new", "flower-app", place, "--client", "numpy")
    needed, line = snippet(place, "from noshow.flower.faults import unreliable")
    line = line.replace("crash=0.1, delay=0.1, corrupt=0.05", "crash=0.3, corrupt=0.2")
    change(place / "night_shift" / "client_app.py", "app = ClientApp()", f"{needed}\n{line}")
    said = flower_run(place, tmp_path / "flower")
    called = trace.read(place / "state" / "first.parquet")
    assert (len(called), called.sampled, len(called.names)) == (32, 4, 6)
    for entry in called:
        draw = np.random.default_rng([0, entry.round, int(entry.client.removeprefix("client-"))]).random()
        assert entry.reason == ("error" if draw < 0.3 else "not finite" if draw < 0.5 else ""), entry
    scores = [float(score) for score in re.findall(r"after round \d+: accuracy ([\d.]+)", said)]
    assert scores[-1] > 0.6
    with np.load(place / "state" / "first.npz") as model:
        assert np.isfinite(model["weights"]).all()


@pytest.mark.slow
@pytest.mark.long
def test_the_app_runs_in_flowers_simulation_with_an_adversary_at_the_server(tmp_path: Path) -> None:
    place = tmp_path / "night-shift"
    noshow("new", "flower-app", place, "--client", "numpy")
    needed, line = snippet(place, "from noshow.flower.faults import rehearse")
    server = place / "night_shift" / "server_app.py"
    change(server, "from noshow.flower import", f"{needed}from noshow.flower import")
    change(server, "    result = strategy.start(", f"    {line}\n    result = strategy.start(")
    said = flower_run(place, tmp_path / "flower")
    called = trace.read(place / "state" / "first.parquet")
    sizes = {entry.client: entry.n for entry in called}
    assert len(sizes) == 6
    for t in range(1, 9):
        silent = sum(entry.n for entry in called if entry.round == t and entry.status == "silent")
        assert silent <= 0.6 * 4 * sum(sizes.values()) / 6
    assert 0.2 < 1 - called.answered.mean() < 0.8
    assert {entry.reason for entry in called} == {"", "timeout"}
    assert said.count("largest_reply silences nodes") >= 6
