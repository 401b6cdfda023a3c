"""What a run shows of itself: the numbers are the run's own, and they fit the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.text import Text
from test_divergence import SPEC as DIVERGING
from test_spec import SMALL

import noshow as ns
from noshow import display
from noshow.bars import Bars
from noshow.display import LiveBars, PlainLines, display_for
from noshow.evaluate import Metrics
from noshow.pace import Pace
from noshow.run import complete
from noshow.spec_file import load
from noshow.standing import Standing, of_call, of_history
from noshow.store import RunFolder

LONG = "a_label_that_is_much_longer_than_any_terminal_would_like_it_to_be"


def terminal(width: int, height: int = 30) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height)


def shown(console: Console) -> list[str]:
    return Text.from_ansi(console.file.getvalue()).plain.splitlines()  # type: ignore[attr-defined]


def drawn(width: int, *standings: Standing, height: int = 30) -> list[str]:
    console = terminal(width, height)
    console.print(Bars(standings))
    return shown(console)


RUNNING = Standing(
    "gm",
    rounds=2000,
    state="running",
    round=500,
    rate=12.5,
    train_loss=0.81234,
    test_accuracy=0.7321,
    epsilon_t=0.4123,
    silent=list(range(100, 200, 3)),
    silenced=34,
    sampled=60,
)


@pytest.mark.parametrize("width", [80, 120])
def test_everything_is_there_and_fits(width: int) -> None:
    lines = drawn(width, Standing("fedavg", 2000, "done", 2000), RUNNING, Standing(LONG, 2000))
    assert max(map(len, lines)) < width
    headings, done, running, silent, waiting = lines
    for word in ("algorithm", "round", "rounds/s", "left", "loss", "accuracy", "ε_t"):
        assert word in headings
    for number in ("500/2000", "12.5", "0:02:00", "0.8123", "0.7321", "0.412"):
        assert number in running
    for heading, number in (("rounds/s", "12.5"), ("accuracy", "0.7321"), ("ε_t", "0.412")):
        assert headings.index(heading) + len(heading) == running.index(number) + len(number)
    assert silent.startswith("  silent 100, 103, 106, ")
    assert silent.endswith(" … (34 of 60)")
    assert len(silent) > width - 8  # as many as fit
    assert "done" in done
    assert "waiting" in waiting
    assert "…" in waiting


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_narrow_terminal_shows_what_fits(width: int) -> None:
    lines = drawn(width, RUNNING)
    assert len(lines) == 3
    assert max(map(len, lines)) <= width


def test_a_low_terminal_shows_the_running_one() -> None:
    many = [Standing(f"early-{k}", 10, "done", 10) for k in range(40)]
    late = [Standing(f"late-{k}", 10) for k in range(40)]
    lines = drawn(80, *many, RUNNING, *late, height=15)
    assert len(lines) <= 15
    assert any("500/2000" in line for line in lines)


def test_a_poor_terminal_gets_plain_signs() -> None:
    console = Console(file=io.TextIOWrapper(io.BytesIO(), "ascii"), force_terminal=True, width=80)
    [_, line, *_] = console.render_lines(Bars([RUNNING]))
    text = "".join(segment.text for segment in line)
    assert "=" in text
    assert text.isascii()


class Told(PlainLines):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
        self.calls: list[tuple[str, int, ns.RollCall]] = []
        self.evaluations: list[tuple[str, int]] = []

    def played(self, label: str, t: int, call: ns.RollCall) -> None:
        self.calls.append((label, t, call))

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        assert self.calls[-1][:2] == (label, t)  # whoever is told of an evaluation knows the rounds up to it
        self.evaluations.append((label, t))


def test_the_newest_rounds_are_those_of_the_roll_call(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL, "utf-8")
    spec = load(str(tmp_path / "small.toml"), ["rounds=40", "evaluate_every=6", "seeds=[0,5]"])
    told = Told()
    histories = complete(spec, RunFolder.of(spec, tmp_path / "out"), told)
    assert histories is not None
    kept = histories[0].roll_call
    assert told.evaluations == [("fedavg", t) for t in (*range(0, 37, 6), 40)]
    assert told.calls[0][1] == 0
    assert told.calls[0][2].sampled.shape == (2, 0, 4)
    for _, t, call in told.calls[1:]:
        first = max(0, t - 10)
        for ours, whole in ((call.sampled, kept.sampled), (call.answered, kept.answered)):
            assert np.array_equal(ours, whole[:, first:t])
        numbers = of_call(call)
        assert numbers["epsilon_t"] == pytest.approx(np.mean(kept.epsilon_t[:, first:t]))
        assert numbers["silent"] == sorted(kept.silenced(0, t - 1).tolist())
        assert (numbers["silenced"], numbers["sampled"], numbers["seeds"]) == (len(numbers["silent"]), 4, 2)


@pytest.mark.slow
def test_live_bars_show_a_run(tmp_path: Path) -> None:
    (tmp_path / "wild.toml").write_text(DIVERGING, "utf-8")
    spec = load(str(tmp_path / "wild.toml"))
    folder, console = RunFolder.of(spec, tmp_path / "out"), terminal(80)
    with display_for(console) as bars:
        assert isinstance(bars, LiveBars)
        histories = complete(spec, folder, bars)
    assert histories is not None
    lines = shown(console)
    assert max(map(len, lines)) < 80
    wild, tame = histories
    last = of_history(tame)
    assert wild.roll_call.epsilon_t.shape[1] == 5
    assert "5/40" in lines[-3]
    assert lines[-2].strip() == "diverged by round 5"
    for number in ("mifa", "40/40", "done", f"{last.train_loss:.4f}", f"{last.test_accuracy:.4f}"):
        assert number in lines[-1]
    again = terminal(80)
    with LiveBars(again) as bars:
        complete(spec, folder, bars)
    assert "mifa finished before: not run again" in shown(again)


def test_plain_lines_tell_of_long_runs_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.toml").write_text(SMALL, "utf-8")
    spec = load(str(tmp_path / "small.toml"), ["rounds=12", "evaluate_every=4"])

    def lines(out: str, seconds: float) -> list[str]:
        monkeypatch.setattr(display, "SECONDS_BETWEEN_LINES", seconds)
        console = Console(file=io.StringIO(), width=60)
        assert isinstance(display_for(console), PlainLines)
        complete(spec, RunFolder.of(spec, tmp_path / out), PlainLines(console))
        return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]

    few = lines("few", 1e9)
    assert [line.split(":")[0] for line in few] == ["largest_reply", "fedavg", "fedavg"]
    many = lines("many", 0.0)
    assert many[0] == few[0]
    assert any(line.startswith("fedavg: 12 of 12 rounds, ") and "silent" in line for line in many)


def test_the_pace_is_that_of_the_last_half_minute() -> None:
    pace = Pace(0, when=0.0)
    for second in range(1, 101):  # one round a second, then ten
        pace.reach(second if second <= 50 else 50 + 10 * (second - 50), when=float(second))
    assert pace.rate == pytest.approx(10.0)
    for tick in range(10_000):
        pace.reach(551 + tick, when=100.0 + tick / 1000)
    assert len(pace._seen) < 70
    assert pace.rate == pytest.approx((10_550 - 350) / (109.999 - 80), rel=0.05)
