"""What `noshow run --json` says is JSON, line by line, and what the run folder holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_divergence import SPEC
from typer.testing import CliRunner

from noshow.cli import app
from noshow.store import RunFolder


def test_every_line_is_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wild.toml").write_text(SPEC)
    done = CliRunner().invoke(app, ["run", "wild.toml", "--out", "out", "--json"])
    assert done.exit_code == 0, done.output
    lines = [json.loads(line, parse_constant=lambda word: pytest.fail(word)) for line in done.output.splitlines()]
    events = [(line["event"], line.get("algorithm")) for line in lines]
    wild = [("begin", "fedavg"), *[("evaluated", "fedavg")] * 2, ("finish", "fedavg")]
    tame = [("begin", "mifa"), *[("evaluated", "mifa")] * 9, ("finish", "mifa")]
    assert events == [("preparing", None), *wild, *tame, ("done", None)]
    folder = RunFolder.open(Path(lines[-1]["run folder"]))
    scores = folder.load("mifa").scores
    told = [line for line in lines if line["event"] == "evaluated" and line["algorithm"] == "mifa"]
    np.testing.assert_allclose([line["train_loss"] for line in told], scores.train_loss.T, rtol=1e-6)
    assert [line["round"] for line in told] == list(range(0, 41, 5))
    calls = folder.load("mifa").roll_call
    assert (told[0]["epsilon_t"], told[0]["silent"]) == ([None, None], [[], []])
    for line in told[1:]:
        t = line["round"]
        np.testing.assert_allclose(line["epsilon_t"], calls.epsilon_t[:, max(0, t - 10) : t].mean(1))
        assert line["silent"] == [sorted(calls.silenced(k, t - 1).tolist()) for k in range(2)]
    [diverged] = [line for line in lines if line["event"] == "finish" and line["algorithm"] == "fedavg"]
    assert diverged["diverged_at"] == [5, 5]
    assert diverged["train_loss"] is None
    assert lines[3]["train_loss"] == [None, None]
