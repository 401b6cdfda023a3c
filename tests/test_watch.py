"""A run as another terminal sees it: the run's own numbers, whoever runs it, and whatever its folder holds."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from mutations import JUNK, mutated_bytes
from reported import made
from rich.console import Console
from rich.text import Text
from test_cli import HEARS_SIGINT, noshow
from test_spec import SMALL
from typer.testing import CliRunner

import noshow as ns
from noshow.cli import app
from noshow.lock import alone_in, taken
from noshow.lock import process as process_name
from noshow.progress import PROGRESS, Progress, progress_of
from noshow.store import RunFolder
from noshow.watch import View, Watched
from noshow.watch_display import LiveView, PlainView, follow

NOW = {
    "algorithm": "mifa",
    "round": 30,
    "rounds": 40,
    "done": False,
    "rate": 2.5,
    "train_loss": 0.8125,
    "test_accuracy": 0.75,
    "epsilon_t": 0.4,
    "silent": [3, 7],
    "silenced": 2,
    "sampled": 4,
    "seeds": 3,
}
STARTS = [{"when": "now", "who": "process 12 on host.example"}]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def tell(run: Path, now: object = NOW, played: object = None) -> None:
    """Write the progress of a run whose first algorithm is done and whose second is at it."""
    said = {"starts": STARTS, "played": {"fedavg": 40, "mifa": 30} if played is None else played, "now": now}
    part = run / ".part"
    part.write_text(json.dumps(said), "utf-8")
    part.replace(run / PROGRESS)


def unfinished(run: Path) -> Path:
    for label in ("mifa", "slow"):
        shutil.rmtree(run / label)
    tell(run)
    return run


def states(view: View) -> list[str]:
    return [one.state for one in view.standings]


def test_a_finished_run_is_shown_with_its_table(finished: Path) -> None:
    view = Watched(finished).look()
    assert view.finished
    assert states(view) == ["done"] * 3
    for one in view.standings:
        history = RunFolder.open(finished).load(one.label)
        assert one.train_loss == pytest.approx(np.mean(history.scores.train_loss[:, -1]))
        assert one.epsilon_t == pytest.approx(np.mean(history.roll_call.epsilon_t))
    done = CliRunner().invoke(app, ["watch", str(finished)])
    assert done.exit_code == 0, done.output
    assert "mean ε_t" in done.output
    assert re.search(r"slow: done, 20 of 20 rounds, loss [\d.]+, acc [\d.]+", done.output)


def test_what_runs_what_waits_and_what_is_done(copy: Path) -> None:
    unfinished(copy)
    watched = Watched(copy)
    with alone_in(copy):
        view = watched.look()
        assert states(view) == ["done", "running", "waiting"]
        assert view.sentence == "run by process 12 on host.example"
        one = view.standings[1]
        assert (one.round, one.rounds, one.seconds_left, one.train_loss) == (30, 40, 4.0, 0.8125)
        assert (one.epsilon_t, one.silent, one.silenced, one.sampled, one.seeds) == (0.4, [3, 7], 2, 4, 3)
        tell(copy, NOW | {"done": True})  # its results come any moment
        assert states(watched.look()) == ["done", "running", "waiting"]
        assert watched.look().standings[1].note == "preparing"
    view = watched.look()
    assert not view.finished
    assert f"nobody is running it: `noshow run {copy}/spec.toml --out {copy}` goes on" == view.sentence
    tell(copy)
    assert states(watched.look()) == ["done", "stopped", "waiting"]


def test_a_run_that_starts_over_has_nothing_before_it_is_done_again(copy: Path) -> None:
    watched = Watched(copy)
    first = watched.look()
    with alone_in(copy):
        tell(copy, None, played={})
        assert states(watched.look()) == ["running", "waiting", "waiting"]
        tell(copy)
        assert states(watched.look()) == ["done", "running", "waiting"]
        tell(copy, NOW | {"round": 40, "done": True})
        assert states(watched.look()) == ["done", "done", "running"]
    os.utime(copy / "mifa" / "result.json")
    assert watched.look().finished
    assert watched.look().results != first.results


def test_a_run_that_has_not_begun_is_waited_for(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    watched, console = Watched(run), Console(file=io.StringIO(), width=100)
    assert watched.look() == (str(run), [], f"{run}: the run has not begun yet; waiting for it", False, None)
    begins = threading.Timer(0.5, shutil.copytree(finished, tmp_path / "aside").rename, (run,))
    begins.start()
    assert [history.algorithm for history in follow(watched, console)] == ["fedavg", "mifa", "slow"]
    begins.join()
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[0].endswith("waiting for it")
    assert lines[-1].startswith("slow: done")


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nowhere", "there is no folder nowhere: give the folder of a run"),
        ("spec.toml", "there is no folder spec.toml"),
        ("other", "other is no run folder: it has no spec.toml"),
        ("damaged", "damaged/spec.toml is damaged"),
    ],
)
def test_what_is_no_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, sentence: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text("")
    for folder in ("other", "damaged"):
        Path(folder).mkdir()
        Path(folder, "about.json").write_text("{}")
    Path("damaged", "spec.toml").write_text("[")
    failed = CliRunner().invoke(app, ["watch", place])
    assert isinstance(failed.exception, ns.NoshowError)
    assert sentence in str(failed.exception)


def test_flags_that_do_not_go_together_are_told(finished: Path) -> None:
    for arguments, sentence in (
        (["--port", "80"], "give --browser as well"),
        (["--browser", "--port", "70000"], "port is"),
    ):
        failed = CliRunner().invoke(app, ["watch", str(finished), *arguments])
        assert sentence in str(failed.exception)


def test_a_folder_that_goes_away_is_told(copy: Path) -> None:
    watched = Watched(copy)
    shutil.rmtree(copy)
    with pytest.raises(ns.NoshowError, match="is gone"):
        watched.look()


def test_whatever_the_progress_says_there_is_something_to_show(copy: Path) -> None:
    """Junk in every place, bytes changed at random, and what a terminal must not be sent."""
    unfinished(copy)
    whole = (copy / PROGRESS).read_bytes()
    tables = [{"starts": STARTS, "played": {"fedavg": 40}, "now": NOW | {key: junk}} for key in NOW for junk in JUNK]
    tables += [{"starts": [junk], "played": junk, "now": junk} for junk in JUNK] + [{"starts": [{"who": "\x1b[2J"}]}]
    texts = [json.dumps(table).encode() for table in tables] + [json.dumps(junk).encode() for junk in JUNK]
    texts += [mutated_bytes(whole, seed) for seed in range(200)] + [b"[" * 100_000, b'{"now": 1e999}', b"\xff"]
    watched, console = Watched(copy), Console(file=io.StringIO(), width=80, force_terminal=True)
    with alone_in(copy), LiveView(console) as live, PlainView(Console(file=io.StringIO())) as plain:
        for text in texts:
            (copy / PROGRESS).write_bytes(text)
            view = watched.look()
            assert len(view.standings) == 3
            assert "\x1b" not in view.sentence
            live.show(view)
            plain.show(view)
    assert max(map(len, Text.from_ansi(console.file.getvalue()).plain.splitlines())) <= 80  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ['{"starts": 3, "played": {"fedavg": "x"}, "now": []}', "[3]", "null", "{"])
def test_strange_progress_does_not_stop_the_run_itself(tmp_path: Path, text: str) -> None:
    (tmp_path / PROGRESS).write_text(text)
    Progress(tmp_path)
    said = progress_of(tmp_path)
    assert [start["who"] for start in said["starts"]] == [process_name()]
    assert (said["played"], said["now"]) == ({}, None)


def test_files_that_are_replaced_at_the_same_moment_are_survived(copy: Path) -> None:
    folder, stop = RunFolder.open(copy), threading.Event()
    history = folder.load("fedavg")

    def replacing() -> None:
        while not stop.is_set():
            tell(copy)
            folder.save(history)

    thread = threading.Thread(target=replacing)
    thread.start()
    try:
        watched, end = Watched(copy), time.monotonic() + 1.5
        while time.monotonic() < end:
            one = watched.look().standings[0]
            assert one.state in ("done", "waiting")
            with suppress(ns.NoshowError):
                watched.histories()
    finally:
        stop.set()
        thread.join()
    assert watched.look().standings[0].train_loss is not None


def test_looking_stands_in_nobodys_way(tmp_path: Path) -> None:
    """Whoever begins while others look is never told that the folder is in use."""
    stop, looks = threading.Event(), [0]

    def looking() -> None:
        while not stop.is_set():
            taken(tmp_path)
            looks[0] += 1

    threads = [threading.Thread(target=looking) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            with alone_in(tmp_path):
                assert taken(tmp_path)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert looks[0] > 300
    assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")


@contextmanager
def process(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-u", "-c", HEARS_SIGINT, *arguments]
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "120"},
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def lines_until(running: subprocess.Popen[str], word: str) -> list[str]:
    assert running.stdout is not None
    lines: list[str] = []
    for line in running.stdout:
        lines.append(line.rstrip("\n"))
        if word in line:
            return lines
    raise AssertionError(f"it ended without saying {word!r}: {lines}")


@pytest.mark.long
def test_a_second_terminal_sees_a_run_that_is_killed_and_one_that_finishes(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL, "utf-8")
    changes = ["--set", "rounds=2000", "--set", "evaluate_every=20", "--out", "out"]
    (tmp_path / "out").mkdir()
    with process(tmp_path, "watch", "out") as watching:
        assert lines_until(watching, "waiting for it") == ["out: the run has not begun yet; waiting for it"]
        with process(tmp_path, "run", "small.toml", *changes) as running:
            said = lines_until(watching, "run by process")
            assert said == [f"small (written): run by process {running.pid} on {os.uname().nodename}"]
            lines_until(watching, "of 2000 rounds")
            while not progress_of(tmp_path / "out")["now"]:
                time.sleep(0.05)
            running.kill()
        said = lines_until(watching, "nobody is running it")
        assert said[-1].endswith("nobody is running it: `noshow run out/spec.toml --out out` goes on")
        done = noshow(tmp_path, "run", "out/spec.toml", "--out", "out")
        assert done.returncode == 0, done.stderr
        rest, complained = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert complained == ""
    table = done.stdout[done.stdout.index("┏") : done.stdout.index("run folder")]
    assert rest.endswith(table)  # the same table, to the letter
    assert "fedavg: done, 2000 of 2000 rounds" in rest


@pytest.mark.slow
def test_ctrl_c_ends_the_watching(copy: Path) -> None:
    unfinished(copy)
    with process(copy.parent, "watch", "run") as watching:
        lines_until(watching, "nobody is running it")
        watching.send_signal(signal.SIGINT)
        _, told = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert told == "noshow: not watching any more; the run is left as it is\n"
