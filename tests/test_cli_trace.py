"""`noshow trace`: what it prints and writes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.image
import pytest
from click.testing import Result
from typer.testing import CliRunner

import noshow as ns
from noshow import trace
from noshow.cli import app
from noshow.trace import Entry

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def noshow(*arguments: str | Path, columns: str = "100") -> Result:
    environment = os.environ | {"COLUMNS": columns}
    return CliRunner().invoke(app, [str(word) for word in arguments], env=environment, catch_exceptions=False)


@pytest.fixture
def live(tmp_path: Path) -> Path:
    rows = [
        Entry(1, "[bold]a", "answered", "", 10, NOW),
        Entry(1, "b", "silent", "timeout", 30, NOW),
        Entry(2, "b", "silent", "a [red]reason", 30, NOW),
    ]
    trace.write(tmp_path / "live.parquet", rows)
    return tmp_path / "live.parquet"


def test_summary_is_plain_without_a_terminal(live: Path) -> None:
    said = noshow("trace", "summary", live).stdout
    assert "\x1b" not in said
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines == [
        "rounds 2 (1 to 2)",
        "clients 2, 2 sampled a round",
        "answered 1 of 3 calls (33.3%)",
        "epsilon_t 1.1250 in the mean, 1.5000 at most (round 2)",
        "",
        "reason silences",
        "a [red]reason 1",
        "timeout 1",
        "",
        "most silent silent called share",
        "b 2 2 100.0%",
    ]


def test_a_name_cannot_command_the_terminal(tmp_path: Path) -> None:
    trace.write(tmp_path / "t.parquet", [Entry(1, "a\x1b[2Jb\n", "silent", "c\x1b]0;d\x07", 1, NOW)])
    said = noshow("trace", "summary", tmp_path / "t.parquet").stdout
    assert "\x1b" not in said
    assert r"'a\x1b[2Jb\n'" in said
    noshow("trace", "plot", tmp_path / "t.parquet")
    assert (tmp_path / "t.png").stat().st_size > 0


def test_a_long_name_is_shown_whole(tmp_path: Path) -> None:
    name = "x" * 150
    trace.write(tmp_path / "t.parquet", [Entry(1, name, "silent", "timeout", 1, NOW)])
    said = noshow("trace", "summary", tmp_path / "t.parquet", columns="60").stdout
    assert said.count("x") == 150


def test_plot_writes_a_picture_beside_the_trace_or_where_it_is_told(live: Path, tmp_path: Path) -> None:
    assert str(tmp_path / "live.png") in noshow("trace", "plot", live, columns="400").stdout
    noshow("trace", "plot", live, "--out", tmp_path / "new" / "other.png")
    before = live.read_bytes()
    with pytest.raises(ns.NoshowError, match="is the trace itself: give the picture another name"):
        noshow("trace", "plot", live, "--out", live)
    assert live.read_bytes() == before
    for file in (tmp_path / "live.png", tmp_path / "new" / "other.png"):
        height, width, _ = matplotlib.image.imread(file).shape
        assert width > 1000
        assert height > 300


def test_import_then_summary(tmp_path: Path) -> None:
    (tmp_path / "phones.csv").write_text("client,start,end\nanna,0,3600\nbert,0,1800\n", "utf-8")
    out = tmp_path / "phones.parquet"
    done = noshow(
        "trace", "import", tmp_path / "phones.csv", "--out", out, "--round-seconds", "600", "--examples", "40"
    )
    assert done.stdout.startswith("12 calls of 2 clients: ")
    rows = list(trace.read(out))
    assert [row.round for row in rows if row.status == "silent"] == [3, 4, 5]
    assert {row.client for row in rows if row.status == "silent"} == {"bert"}
    assert {row.n for row in rows} == {40}
    assert "answered   9 of 12 calls (75.0%)" in noshow("trace", "summary", out).stdout


def test_import_does_not_replace_the_file_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("round,client,status\n1,anna,answered\n", "utf-8")
    before = (tmp_path / "a.csv").read_bytes()
    (tmp_path / "link.parquet").symlink_to("a.csv")
    monkeypatch.chdir(tmp_path)
    for out in ("a.csv", tmp_path / "a.csv", "link.parquet"):
        with pytest.raises(ns.NoshowError, match="is the CSV file itself: give the trace another name"):
            noshow("trace", "import", "a.csv", "--out", out)
    assert (tmp_path / "a.csv").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.csv", "link.parquet"]


SPEC = """
name = "recorded"
rounds = 12
sampled = 4
seeds = [3, 5]
evaluate_every = 6
[data]
name = "synthetic"
clients = 8
sizes = 20
[model]
name = "logistic"
[adversary]
name = "random_response"
probability = 0.5
[[algorithms]]
name = "fedavg"
rate = 0.01
steps = 1
"""


@pytest.mark.slow
def test_a_run_is_exported_and_replayed(tmp_path: Path) -> None:
    """From a run folder to a trace, and from there into a run with the same roll call."""
    (tmp_path / "spec.toml").write_text(SPEC, "utf-8")
    noshow("run", tmp_path / "spec.toml", "--out", tmp_path / "run")
    noshow("trace", "export", tmp_path / "run", "fedavg", "--seed", "5", "--out", tmp_path / "run.parquet")
    noshow(
        *("run", tmp_path / "spec.toml", "--seeds", "5", "--out", tmp_path / "again"),
        *("--set", f'adversary={{name="replay", trace="{tmp_path / "run.parquet"}"}}'),
    )
    import pyarrow.parquet as pq

    first, second = (pq.read_table(tmp_path / run / "fedavg" / "roll_call.parquet") for run in ("run", "again"))
    rows = [row for row in first.to_pylist() if row["seed"] == 5]
    assert rows == second.to_pylist()
    assert any(row["silenced"] for row in rows)
    recorded = list(trace.read(tmp_path / "run.parquet"))
    assert [int(row.client) for row in recorded if row.round == 7] == rows[7]["sampled"]
    noshow("trace", "export", tmp_path / "run", "fedavg", "--out", tmp_path / "first.parquet")
    assert list(trace.read(tmp_path / "first.parquet")) != recorded
    with pytest.raises(ns.NoshowError, match=r"has no finished 'fedavgg': did you mean 'fedavg'\?"):
        noshow("trace", "export", tmp_path / "run", "fedavgg", "--out", tmp_path / "x.parquet")


def test_a_wrong_file_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"nothing of the kind")
    done = subprocess.run(
        [sys.executable, "-c", "from noshow.cli import main; main()", "trace", "summary", str(tmp_path / "t.parquet")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("noshow: ")
