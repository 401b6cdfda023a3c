"""Parts of installed packages are named in files like noshow's own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

import noshow as ns
from noshow import plugins
from noshow.parts import build, resolve

TEMPLATE = Path(__file__).parent.parent / "examples" / "noshow-sleepy"


@pytest.mark.slow
@pytest.mark.long
def test_the_template_package_is_installed_and_used(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(TEMPLATE)]
    subprocess.run([*install, "--disable-pip-version-check"], check=True, cwd=tmp_path)
    [toml] = re.findall(r"```toml\n(.*?)```", (TEMPLATE / "README.md").read_text(), re.DOTALL)
    (tmp_path / "night.toml").write_text(toml)
    done = subprocess.run(
        [sys.executable, "-c", "from noshow.cli import main; main()", "run", "night.toml", "--out", "out"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    losses = pq.read_table(tmp_path / "out" / "fedmedian" / "metrics.parquet")["train_loss"].to_pylist()
    assert losses[-1] < losses[0]
    for call in pq.read_table(tmp_path / "out" / "fedavg" / "roll_call.parquet").to_pylist():
        asleep = {client for client in call["sampled"] if (call["round"] + client) % 8 < 8 // 3}
        assert set(call["silenced"]) == asleep
    assert json.loads((tmp_path / "out" / "fedmedian" / "result.json").read_text())["seeds"] == [0]


def pretend(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str, str]) -> plugins.Parts:
    """As if packages had added these parts: package, name, and where it is."""
    made = []
    for package, name, value in points:
        point = EntryPoint(name, value, "noshow.models")
        made.append(SimpleNamespace(name=name, load=point.load, dist=SimpleNamespace(name=package)))
    monkeypatch.setattr(plugins, "entry_points", lambda group: made)
    return plugins.Parts("noshow.models", {"logistic": ns.models.logistic}, ns.Model)


def test_names_of_others_are_known_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = pretend(monkeypatch, ("theirs", "lenet", "noshow.models:lenet5"))
    assert sorted(parts) == ["lenet", "logistic"]
    assert len(parts) == 2
    assert parts["lenet"] is ns.models.lenet5
    settings = resolve(parts, {"name": "lenet", "start": "he"}, "model")
    assert build(parts, settings, "model").name == "lenet5"
    with pytest.raises(ns.NoshowError, match=r"model.name is 'lenett', which is not known: did you mean 'lenet'\?"):
        resolve(parts, {"name": "lenett"}, "model")


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ([("theirs", "logistic", "numpy:zeros")], "theirs adds 'logistic' to noshow.models, which noshow has already"),
        ([("one", "net", "numpy:zeros"), ("two", "net", "numpy:ones")], "two adds 'net' .* which one has already"),
        ([("theirs", "mine", "nowhere_at_all:net")], r"'mine' of the package theirs cannot be loaded \(ModuleNotFound"),
        ([("theirs", "mine", "numpy:pi")], "'mine' of the package theirs is no function"),
        ([("theirs", "mine", "builtins:dict")], "model: mine returned a dict, and no Model"),
    ],
)
def test_what_is_wrong_with_a_package_is_told(
    points: list[tuple[str, str, str]], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = pretend(monkeypatch, *points)
    with pytest.raises(ns.NoshowError, match=sentence):
        build(parts, {"name": "mine"}, "model")


def test_a_setting_without_a_type_takes_anything() -> None:
    def made(size, depth: int = 2):  # type: ignore[no-untyped-def]
        return np.zeros((size, depth))

    assert resolve({"made": made}, {"name": "made", "size": 3}, "data") == {"name": "made", "size": 3, "depth": 2}
