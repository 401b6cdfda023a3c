"""Sweeps: grids, their cells in one store, workers that are killed and stopped, the table."""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text
from sweeping import TINY, cells, check_all_done, in_progress, kill_workers, prepare, sweeping

import noshow as ns
from noshow.evaluate import Metrics
from noshow.lock import alone_in
from noshow.progress import progress_of
from noshow.spec import realise
from noshow.store import RunFolder
from noshow.sweep import Entry, Swept, sweep
from noshow.sweep_display import LiveCells
from noshow.sweep_grid import grid_names, load_grid
from noshow.sweep_table import Row, best_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(tmp_path, "")
    return tmp_path


def write_grid(folder: Path, text: str, name: str = "grid") -> str:
    file = folder / f"{name}.toml"
    file.write_text('experiment = "tiny.toml"\n' + text, "utf-8")
    return str(file)


def test_a_grid_is_the_product_of_its_lists_and_every_table_adds_to_it(folder: Path) -> None:
    text = """
    [set]
    rounds = 7
    [[grid]]
    rate = [0.1, 0.2, 0.3]
    "data.clients" = [5, 6]
    [[grid]]
    rate = { name = "inverse_sqrt", initial = 0.5 }
    seeds = [[0, 1, 2]]
    """
    grid = load_grid(write_grid(folder, text))
    specs = [cell.spec for cell in grid.cells]
    assert [(spec.algorithms[0]["rate"], spec.data["clients"]) for spec in specs[:-1] if spec] == [
        (rate, clients) for rate in (0.1, 0.2, 0.3) for clients in (5, 6)
    ]
    assert specs[-1] is not None
    assert specs[-1].algorithms[0]["rate"] == {"name": "inverse_sqrt", "initial": 0.5}
    assert specs[-1].seeds == [0, 1, 2]
    assert {spec.rounds for spec in specs if spec} == {7}
    assert grid.cells[0].name == "rate=0.1,data.clients=5"
    assert grid.keys == ["rate", "data.clients", "seeds"]


@settings(max_examples=15)
@given(
    rates=st.lists(st.floats(1e-4, 10.0), min_size=1, max_size=4, unique=True),
    clients=st.lists(st.integers(4, 30), min_size=1, max_size=3),
)
def test_cells_are_as_many_as_different_combinations(
    rates: list[float], clients: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("grid")
    prepare(folder, f'[[grid]]\nrate = {rates}\n"data.clients" = {clients}\n')
    grid = load_grid(str(folder / "grid.toml"))
    assert len(grid.cells) == len(rates) * len(set(clients))
    assert len({cell.spec.digest for cell in grid.cells if cell.spec}) == len(grid.cells)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no grid: write \\[\\[grid\\]\\]"),
        ("[[grid]]\nrate = []", "grid.rate is an empty list"),
        ("[[grid]]\ndata.clients = [3, 4]", 'keys with a dot in quotes, such as "data.clients"'),
        ("[[grids]]\nrate = [1.0]", "grids is not part of a grid: did you mean 'grid'"),
        ("[[grid]]\nrats = [1.0, 2.0]", "no cell is an experiment; the first: rats is a setting neither"),
        ("[[grid]]\nalgorithms = [['mifas']]", "there is no algorithm 'mifas' here: did you mean 'mifa'"),
        ("[[grid]", "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_grid_is_told(folder: Path, text: str, sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        load_grid(write_grid(folder, text))


def test_an_unknown_grid_is_told() -> None:
    with pytest.raises(ns.NoshowError, match="there is no grid 'paper-gird': did you mean 'paper-grid'"):
        load_grid("paper-gird")


def test_the_papers_grid_searches_what_the_paper_says() -> None:
    """eta_0 in 10^-4 … 10^1 for all nine algorithms, mu_0 in 10^-3 … 1 for FedProx, one adversary for all cells."""
    assert grid_names() == ["paper-grid"]
    searched: dict[str, set[tuple[float, ...]]] = {}
    adversaries = []
    for cell in load_grid("paper-grid").cells:
        assert cell.spec is not None
        adversaries.append(cell.spec.adversary)
        for table in cell.spec.algorithms:
            point = tuple(table[key] for key in ("rate", "mu") if key in table)
            searched.setdefault(table["name"], set()).add(point)
    rates, mus = [10.0**n for n in range(-4, 2)], [10.0**n for n in range(-3, 1)]
    assert len(searched) == 9
    for name, points in searched.items():
        expected = [(r, m) for r in rates for m in mus] if "prox" in name else [(r,) for r in rates]
        np.testing.assert_allclose(sorted(points), sorted(expected))
    assert all(adversary == adversaries[0] for adversary in adversaries)
    assert adversaries[0]["fedavg"]["rate"] == 0.01


def test_the_grid_of_the_docs_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "sweeps.md").read_text("utf-8")
    (tmp_path / "grid.toml").write_text(page.split("```toml\n")[1].split("```")[0], "utf-8")
    grid = load_grid(str(tmp_path / "grid.toml"))
    assert [cell.problem for cell in grid.cells] == [""] * 7
    assert grid.cells[-1].spec is not None
    assert grid.cells[-1].spec.labels == ["fedavg", "cclip"]


class Log:
    """What a sweep said of its cells."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def show(self, entries: object) -> None:
        return None

    def changed(self, entry: Entry) -> None:
        self.said.append((entry.cell.name, entry.status, entry.why))


SHORT = "[set]\nrounds = 3\nevaluate_every = 2\n[[grid]]\nrate = [0.1, 0.2]\n"


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Swept, Log]:
    """A sweep in this process: two good cells, one that no spec can be, one that cannot be built."""
    folder = tmp_path_factory.mktemp("swept")
    prepare(folder, SHORT + "[[grid]]\nepsilon = 2\n[[grid]]\nsampled = 9\n")
    log = Log()
    return folder, sweep(load_grid(str(folder / "grid.toml")), out=folder / "store", watcher=log), log


def test_bad_cells_are_told_and_the_others_go_on(swept: tuple[Path, Swept, Log]) -> None:
    folder, done, log = swept
    assert [entry.status for entry in done.entries] == ["done", "done", "failed", "failed"]
    assert [entry.why.split(":")[0] for entry in done.failed] == [
        "epsilon is 2",
        "sampled is 9, but there are 8 clients",
    ]
    assert [name for name, status, _ in log.said if status == "running"] == ["rate=0.1", "rate=0.2", "sampled=9"]
    assert [cell.name.rsplit("-", 1)[0] for cell in cells(folder)] == ["rate=0.1", "rate=0.2"]


def test_a_cell_is_the_run_that_its_values_say(swept: tuple[Path, Swept, Log]) -> None:
    folder, done, _ = swept
    spec = RunFolder.open(cells(folder)[1]).spec
    parts = realise(spec)
    history = ns.simulate(
        parts.federation,
        parts.model,
        ns.algorithms.mifa(0.2, steps=2).renamed("mifa"),
        ns.adversaries.largest_reply(),
        sampled=4,
        epsilon=0.5,
        rounds=3,
        evaluate_every=2,
    )
    assert done.rows[1].metrics.train_loss == pytest.approx(float(history.scores.train_loss[0, -1]))
    table = pq.read_table(folder / "store" / "grid.parquet")
    assert table["rate"].to_pylist() == [0.1, 0.2]
    assert table["train_loss"].to_pylist() == [row.metrics.train_loss for row in done.rows]
    assert pa_csv.read_csv(folder / "store" / "grid.csv")["cell"].to_pylist() == table["cell"].to_pylist()


def test_what_is_in_the_store_is_not_run_again_whichever_grid_asks(swept: tuple[Path, Swept, Log]) -> None:
    folder, _, _ = swept
    before = {cell.name: (cell / "mifa" / "result.json").stat().st_mtime_ns for cell in cells(folder)}
    grid = load_grid(write_grid(folder, SHORT + "steps = [2]\n", "other"))
    again = sweep(grid, out=folder / "store")
    assert again.complete
    assert all(entry.before for entry in again.entries)
    assert {cell.name: (cell / "mifa" / "result.json").stat().st_mtime_ns for cell in cells(folder)} == before
    assert all(len(progress_of(cell)["starts"]) == 1 for cell in cells(folder))


def test_the_best_row_is_never_one_that_diverged() -> None:
    losses = (math.nan, 0.7, math.inf, 0.5, 0.6)
    rows = [Row(str(k), {}, "gm", Metrics(loss, 0.0, 0.0), 1, 1) for k, loss in enumerate(losses)]
    assert [row.cell for row in best_rows(rows)] == ["3"]
    assert best_rows(rows[:1]) == []


def test_the_live_picture_shows_cells_in_progress(swept: tuple[Path, Swept, Log]) -> None:
    """Read off the run folder, whoever is at it: its last algorithm and round."""
    _, done, _ = swept
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    first, *others = done.entries
    with LiveCells(console) as watcher:
        watcher.show([replace(first, status="running"), *others])
    text = Text.from_ansi(console.file.getvalue()).plain  # type: ignore[attr-defined]
    for words in ("epsilon=2: failed: epsilon is 2", "1 of 4 cells done, 1 running, 2 failed", "mifa 3/3"):
        assert words in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set", "rate=5"), "--set rate=…: grid.toml has values of its own for rate; change them there"),
        (("--on", "cloud"), "on is 'cloud': give here, pool, ray, or the address"),
        (("--workers", "2"), "one process runs the sweep here: leave out --workers"),
        (("--on", "pool", "--workers", "0"), "workers is 0: give at least 1"),
    ],
)
def test_bad_choices_are_one_sentence(folder: Path, arguments: tuple[str, ...], sentence: str) -> None:
    write_grid(folder, SHORT)
    failed = command(folder, "grid.toml", *arguments)
    assert failed.returncode == 2
    assert sentence in failed.stderr
    assert failed.stderr.count("\n") == 1
    assert not (folder / "runs").exists()


def test_the_command_prints_a_table_and_fails_if_a_cell_did(swept: tuple[Path, Swept, Log]) -> None:
    folder, _, _ = swept
    done = command(folder, "grid.toml", "--out", "store")
    assert done.returncode == 1, done.stderr
    for words in ("★", "train loss", "failed: epsilon=2: epsilon is 2", "grid.csv"):
        assert words in done.stdout
    assert "paper-grid" in command(folder, "--list").stdout


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from noshow.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "sweep", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120"},
    )


def test_a_cell_that_another_process_is_at_is_waited_for(folder: Path) -> None:
    """And when that process ends without having finished it, it is run."""
    grid = load_grid(write_grid(folder, "[set]\nrounds = 3\n[[grid]]\nrate = [0.1, 0.2]\n"))
    log = Log()

    class Releasing(Log):
        def changed(self, entry: Entry) -> None:
            log.changed(entry)
            if entry.status == "done":
                held.close()

    spec = grid.cells[0].spec
    assert spec is not None
    held = ExitStack()
    held.enter_context(alone_in(folder / "store" / f"rate=0.1-{spec.digest}"))
    assert sweep(grid, out=folder / "store", watcher=Releasing()).complete
    assert [(name, status) for name, status, _ in log.said] == [
        ("rate=0.1", "elsewhere"),
        ("rate=0.2", "running"),
        ("rate=0.2", "done"),
        ("rate=0.1", "running"),
        ("rate=0.1", "done"),
    ]


@pytest.mark.long
def test_two_sweeps_share_a_store_and_a_killed_worker_is_replaced(folder: Path) -> None:
    """No cell is run twice, and the one whose worker was killed goes on from its checkpoint."""
    write_grid(folder, "[[grid]]\nrate = [0.01, 0.1]\n'data.seed' = [1, 2]\n")
    with sweeping(folder, "pool", 1) as one, sweeping(folder, "pool", 1) as other:
        killed = kill_workers(folder, 1)
        said = [running.communicate(timeout=300)[0] for running in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), said
    assert "its worker died (exit code -9): taken up again from its checkpoint" in "".join(said)
    check_all_done(folder, 4, killed)


@pytest.mark.long
def test_a_stopped_sweep_leaves_checkpoints_and_no_workers(folder: Path) -> None:
    """Stopped by Ctrl-C, and killed without a word: the workers notice that nobody is there."""
    (folder / "tiny.toml").write_text(TINY.replace("8000", "2000000"), "utf-8")
    write_grid(folder, "[[grid]]\nrate = [0.01, 0.1]\n")
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        with sweeping(folder, "pool", 1) as running:
            cell, worker = in_progress(folder) if number == signal.SIGKILL else _taken_up(folder, starts=2)
            running.send_signal(number)
            said, _ = running.communicate(timeout=120)
        assert running.returncode == code, said
        deadline = time.monotonic() + 60
        while psutil.pid_exists(worker) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not psutil.pid_exists(worker)
        with np.load(cell / "unfinished" / "mifa.npz") as kept:
            assert int(kept["t"]) == progress_of(cell)["now"]["round"] or number == signal.SIGKILL
    assert [start["round"] > 0 for start in progress_of(cell)["starts"]] == [False, True]


def _taken_up(folder: Path, starts: int) -> tuple[Path, int]:
    while True:
        cell, worker = in_progress(folder)
        told = progress_of(cell)
        if len(told["starts"]) == starts and told["now"]["round"] > told["starts"][-1].get("round", math.inf):
            return cell, worker
        time.sleep(0.05)
