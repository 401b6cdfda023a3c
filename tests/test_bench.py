"""The benchmark's harness: its statistics, its check, its page, and small works with noshow alone."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

import noshow as ns
from noshow.bench import page
from noshow.bench.contest import Contestant, Outcome, Work, apart, contest
from noshow.bench.ours import Experiment, begin_rounds, written_out
from noshow.bench.own_process import in_own_process
from noshow.bench.spread import Spread, ratios
from noshow.bench.task import Play, RoundsTask, Turn
from noshow.bench.works import robust_rules, synthetic_round
from noshow.cli import app
from noshow.errors import NoshowError

START = np.zeros(2)


def playing(answer: list[float], seconds: float, log: list[str], name: str) -> Contestant:
    """Someone whose every turn takes so long and ends there."""

    def play(rounds: int, exact: bool) -> Turn:
        log.append(f"{name} {rounds}{' exact' if exact else ''}")
        return Turn(seconds, np.array(answer))

    return Contestant(name, lambda stack: play)


def work(own: Contestant, *peers: Contestant, **settings: Any) -> Work:
    return Work("x", "a work", "round", START, own, list(peers), rounds=7, **settings)


def test_spread_and_ratios_by_hand() -> None:
    assert Spread.of([4.0, 1.0, 3.0, 2.0]) == (2.5, 1.0, 4.0)
    # Turn by turn 2, 4, 1: not the ratio of the medians, 6 / 2 = 3.
    assert ratios([6.0, 8.0, 1.0], [3.0, 2.0, 1.0]) == (2.0, 1.0, 4.0)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9), st.floats(0.1, 10))
def test_a_slowdown_that_hits_both_leaves_the_ratio(seconds: list[float], factor: float) -> None:
    theirs = [factor * value for value in seconds]
    assert ratios(theirs, seconds) == pytest.approx((factor, factor, factor))


def test_turns_are_interleaved_after_the_check() -> None:
    log: list[str] = []
    own, peer = playing([1, 0], 0.1, log, "own"), playing([1, 0], 0.3, log, "peer")
    outcomes = contest(work(own, peer), repeats=2)
    assert log == ["own 1 exact", "peer 1 exact", "own 1", "peer 1", *["own 7", "peer 7"] * 2]
    assert [outcome.seconds for outcome in outcomes] == [[0.1, 0.1], [0.3, 0.3]]


def test_a_peer_that_does_other_work_is_not_timed() -> None:
    log: list[str] = []
    right, wrong = playing([1, 0], 0.1, log, "right"), playing([1, 0.01], 0.1, log, "wrong")
    _, first, second = contest(work(playing([1, 0], 1, log, "own"), wrong, right, tolerance=1e-3), repeats=1)
    assert first.seconds == []
    assert first.reason == "does other work: its model is off by 1.0e-02 of the way gone"
    assert (second.seconds, second.reason) == ([0.1], None)
    assert log.count("wrong 7") == 0


@pytest.mark.parametrize("answer", [[float("nan"), 0], [1, 0, 0]])
def test_nan_and_other_shapes_are_other_work(answer: list[float]) -> None:
    log: list[str] = []
    _, outcome = contest(work(playing([1, 0], 1, log, "own"), playing(answer, 1, log, "peer")), repeats=1)
    assert outcome.seconds == []
    assert "does other work" in str(outcome.reason)


def test_an_absent_peer_is_named_and_not_begun() -> None:
    def begin(stack: ExitStack) -> Play:
        raise AssertionError("begun")

    absent = Contestant("Peer", begin, ("no_such_package",), "peer==1.0")
    _, outcome = contest(work(playing([1, 0], 1, [], "own"), absent), repeats=1)
    assert (outcome.name, outcome.reason) == ("Peer", "not installed: pip install peer==1.0")


def test_the_page_names_everybody(tmp_path: Path) -> None:
    own, slow = Outcome("noshow", [0.01, 0.02, 0.03], 0.0), Outcome("slow", [0.04, 0.06, 0.03], 2e-4)
    gone = Outcome("gone", reason="not installed: pip install gone")
    results = [(work(playing([1, 0], 1, [], "own"), whole=1500), [own, slow, gone])]
    about = {"machine": "two cores", "command": "noshow bench"}
    page.write(results, about, 3, tmp_path / "new" / "bench.md")
    lines = (tmp_path / "new" / "bench.md").read_text().splitlines()
    assert "- machine: two cores" in lines
    assert "- command: `noshow bench`" in lines
    # Ratios 4, 3 and 1; 1500 rounds of 40 ms are a minute.
    assert "| slow | 40.0 | 30.0 – 60.0 | 3.00 (1.00 – 4.00) | 2e-04 | 1.0 min |" in lines
    assert "| noshow | 20.0 | 10.0 – 30.0 | 1 |  | 0.5 min |" in lines
    assert "| gone | not installed: pip install gone |  |  |  |  |" in lines
    numbers = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert numbers["works"][0]["outcomes"][1]["seconds"] == [0.04, 0.06, 0.03]
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(page.table(*results[0]))
    console.file.close()
    assert "pip install gone" in " ".join(console.export_text().split())


def doubling(start: float) -> Play:
    """A peer for its own process: prints, and doubles a number in every round."""

    def play(rounds: int, exact: bool) -> Turn:
        print("noise")
        if rounds == 99:
            raise ValueError("too many rounds")
        if rounds == 100:
            sys.stderr.write("last words\n")
            os._exit(3)
        return Turn(0.5, np.array([start * 2**rounds]))

    return play


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "sentence"), [(99, "ValueError: too many rounds"), (100, "last words")])
def test_a_peer_in_its_own_process(rounds: int, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with ExitStack() as stack:
        play = in_own_process("test_bench:doubling", 3.0)(stack)
        turn = play(4, False)
        assert (turn.seconds, turn.answer.tolist()) == (0.5, [48.0])
        with pytest.raises(NoshowError, match=sentence):
            play(rounds, False)


def by_hand(task: RoundsTask) -> np.ndarray:
    """Logistic regression's rounds in float64, straight from the definition."""
    theta = [array.astype(np.float64) for array in task.start]
    for visits in task.rounds:
        moved = [np.zeros_like(p) for p in theta]
        for visit in visits:
            x, y = task.inputs[visit.rows].astype(np.float64), task.labels[visit.rows]
            weights, bias = (p.copy() for p in theta)
            size = task.batch or len(x)
            for _ in range(task.epochs):
                for first in range(0, len(x), size):
                    part, right = x[first : first + size], y[first : first + size]
                    scores = np.exp(part @ weights.T + bias)
                    off = scores / scores.sum(1, keepdims=True) - np.eye(len(bias))[right]
                    weights -= task.rate * off.T @ part / len(part)
                    bias -= task.rate * off.mean(0)
            moved = [m + visit.share * (new - p) for m, new, p in zip(moved, (weights, bias), theta, strict=True)]
        theta = [p + m for p, m in zip(theta, moved, strict=True)]
    return np.concatenate([p.ravel() for p in theta])


@pytest.mark.parametrize(
    "batches", [pytest.param("full", marks=pytest.mark.long), "round", pytest.param("step", marks=pytest.mark.long)]
)
def test_rounds_written_out_are_the_rounds_that_noshow_plays(batches: Any) -> None:
    federation = ns.datasets.synthetic(clients=12, sizes=30).drawing(batches, None if batches == "full" else 8)
    amplified = batches == "full"
    experiment = Experiment(federation, ns.models.logistic(), "logistic", 4, 3, 0.05, 5, amplified)
    task = written_out(experiment)
    assert (task.batch, task.epochs) == ((8, 1) if batches == "step" else (None, 3))
    with ExitStack() as stack:
        ours = begin_rounds(experiment, stack)(5, True).answer
    assert apart(by_hand(task), ours, task.start_vector) < 1e-5


@pytest.mark.long
def test_small_works_with_noshow_alone() -> None:
    (rounds,) = synthetic_round(rounds=2)
    median, clip = robust_rules(shapes=((6, 50),))
    for one in (rounds, median, clip):
        (outcome,) = contest(one._replace(peers=[]), repeats=2)
        assert outcome.name == "noshow"
        assert len(outcome.seconds) == 2
        assert min(outcome.seconds) > 0


def test_bad_options_get_one_sentence() -> None:
    for arguments, sentence in (
        (["--work", "z"], "work 'z' is not known"),
        (["--work", "a", "--repeats", "0"], "repeats is 0: give 1 or more"),
    ):
        result = CliRunner().invoke(app, ["bench", *arguments])
        assert isinstance(result.exception, NoshowError)
        assert sentence in str(result.exception)
