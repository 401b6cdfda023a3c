"""A server that is killed at any moment goes on where it was: the same model, the same roll call."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import small_federation
from fake_grid import FakeGrid
from flwr.app import ArrayRecord, MetricRecord
from numpy_clients import adding, enrolled, first_model, flat, live, model_of

import noshow as ns
from noshow.flower import Roster, Strategy

SERVER = [sys.executable, str(Path(__file__).with_name("killed_server.py"))]


def called(folder: Path) -> list[tuple[int, str, str, str, int]]:
    return [tuple(entry[:5]) for entry in ns.trace.read(folder / "trace.parquet")]


def kill_in_its_rounds(folder: Path, server_name: str, after: float) -> list[str]:
    """Start the server, kill it so many seconds after the first round that it ends; what it has said."""
    with subprocess.Popen(
        [*SERVER, str(folder), server_name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        said = [server.stdout.readline()]
        if said[0] == "after 0\n":
            said.append(server.stdout.readline())
        time.sleep(after)
        server.kill()
        return said + server.stdout.readlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "kills"),
    [
        ("mifa", 3),
        pytest.param("amplify", 10, marks=pytest.mark.long),
        pytest.param("mifa", 10, marks=pytest.mark.long),
        pytest.param("bucketing", 10, marks=pytest.mark.long),
    ],
)
def test_a_killed_server_goes_on(server: str, kills: int, tmp_path: Path) -> None:
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
    subprocess.run([*SERVER, str(tmp_path / "undisturbed"), server], check=True, capture_output=True)
    chance = random.Random(kills)
    starts = []
    for _ in range(kills):
        said = kill_in_its_rounds(tmp_path / "killed", server, chance.uniform(0.0, 0.6 / kills))
        starts.append(said[0].strip())
        assert not (tmp_path / "killed" / "final.bin").exists(), "it was not killed in time: the test proves nothing"
    subprocess.run([*SERVER, str(tmp_path / "killed"), server], check=True, capture_output=True)
    finals = [(tmp_path / name / "final.bin").read_bytes() for name in ("undisturbed", "killed")]
    assert finals[0] == finals[1]
    assert np.abs(np.frombuffer(finals[0], np.float32)).max() > 0.01
    assert called(tmp_path / "killed") == called(tmp_path / "undisturbed")
    assert starts[0] == "after 0"
    assert all(start != "after 0" for start in starts[1:]), starts


def strategy_at(folder: Path, **changes: object) -> Strategy:
    settings: dict[str, object] = {
        "server": ns.servers.remember(ns.aggregators.mean()),
        "roster": Roster(folder / "f.sqlite"),
        "sampled": 3,
        "timeout": 1.0,
        "rate": 0.1,
    }
    return Strategy(**(settings | changes))  # type: ignore[arg-type]


def test_more_rounds_later_are_the_same_rounds(tmp_path: Path) -> None:
    federation = small_federation(5)
    for name in ("once", "twice"):
        enrolled(tmp_path / name / "f.sqlite", federation)
    whole = strategy_at(tmp_path / "once").start(live(federation), first_model(), 6)
    strategy_at(tmp_path / "twice").start(live(federation), first_model(), 2)
    later = strategy_at(tmp_path / "twice").start(live(federation), first_model(), 6)
    np.testing.assert_array_equal(flat(later.arrays), flat(whole.arrays))
    for kind in ("train_metrics_clientapp", "evaluate_metrics_clientapp"):
        assert {t: dict(m) for t, m in getattr(later, kind).items()} == {
            t: dict(m) for t, m in getattr(whole, kind).items()
        }
    finished = strategy_at(tmp_path / "twice").start(live(federation), first_model(), 6)
    np.testing.assert_array_equal(flat(finished.arrays), flat(whole.arrays))


def test_two_processes_do_not_play_one_run(tmp_path: Path) -> None:
    federation = small_federation(5)
    enrolled(tmp_path / "f.sqlite", federation)
    slow, quick = strategy_at(tmp_path), strategy_at(tmp_path)

    def overtake(t: int, arrays: ArrayRecord) -> None:
        if t == 1:
            quick.start(live(federation), first_model(), 3)

    with pytest.raises(ns.NoshowError, match="run 'run' was taken up by another process since"):
        slow.start(live(federation), first_model(), 3, evaluate_fn=overtake)


def test_two_runs_share_a_roster(tmp_path: Path) -> None:
    federation = small_federation(5)
    enrolled(tmp_path / "f.sqlite", federation)
    first = strategy_at(tmp_path, run="first").start(live(federation), first_model(), 3)
    second = strategy_at(tmp_path, run="second").start(live(federation), first_model(), 3)
    np.testing.assert_array_equal(flat(first.arrays), flat(second.arrays))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampled": 4}, "another sampled"),
        ({"seed": 9}, "another seed"),
        ({"server": ns.servers.average()}, "another server"),
        ({"server": ns.servers.remember(ns.aggregators.mean(), memory="bfloat16")}, "another server"),
        ({"sends": "gradient"}, "another sends"),
    ],
)
def test_another_experiment_under_the_same_name_is_refused(
    changes: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    federation = small_federation(5)
    enrolled(tmp_path / "f.sqlite", federation)
    strategy_at(tmp_path).start(live(federation), first_model(), 1)
    with pytest.raises(ns.NoshowError, match=sentence):
        strategy_at(tmp_path, **changes).start(live(federation), first_model(), 2)
    with pytest.raises(ns.NoshowError, match="another model"):
        strategy_at(tmp_path).start(live(federation), first_model(features=5), 2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampled": 0}, "sampled is 0"),
        ({"timeout": 0.0}, "timeout is 0.0"),
        ({"sends": "letters"}, "sends is 'letters'"),
        ({"mu": -1.0}, "mu is -1.0"),
        ({"largest_norm": 0.0}, "largest_norm is 0.0"),
        ({"rate": 0.0}, "rate is 0.0"),
        ({"evaluate_every": -1}, "evaluate_every is -1"),
        ({"seed": -1}, r"seed is -1: give a whole number from 0 to 2\^32 - 1"),
        ({"timeout": None}, "timeout is None: give seconds"),
        ({"roster": "f.sqlite"}, r"roster is 'f.sqlite': give a noshow.flower.Roster"),
        ({"server": ns.servers.average}, r"server is <function average.*: give one, such as ns.servers.amplify\(\)"),
    ],
)
def test_bad_settings_are_told_in_a_sentence(changes: dict[str, object], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        strategy_at(tmp_path, **changes)


@pytest.mark.parametrize("bad", [lambda t: t / 10, lambda t: float("nan"), lambda t: -1.0])
def test_a_rate_that_is_none_is_told_before_anybody_trains(bad: Callable[[int], float], tmp_path: Path) -> None:
    grid = FakeGrid({1: adding("a", 10)})
    with pytest.raises(ns.NoshowError, match="in round 0: rates must be finite and above zero"):
        strategy_at(tmp_path, sampled=1, rate=bad).start(grid, model_of(w=np.zeros(1)), 1)
    assert all(message.metadata.message_type == "query.roster" for message in grid.sent)


def test_a_rate_that_is_none_in_a_later_round_is_told_before_anybody_trains(tmp_path: Path) -> None:
    grid = FakeGrid({1: adding("a", 10)})
    with pytest.raises(ns.NoshowError, match=r"rate is 0\.0 in round 9: rates must be finite and above zero"):
        strategy_at(tmp_path, sampled=1, rate=lambda t: 0.1 * (1 - t / 9)).start(grid, model_of(w=np.zeros(1)), 10)
    assert not grid.sent


def test_a_run_that_ends_in_an_error_leaves_its_trace(tmp_path: Path) -> None:
    def act(t: int, arrays: ArrayRecord) -> None:
        if t == 2:
            raise RuntimeError("the disk of the evaluation is full")

    strategy = strategy_at(tmp_path, sampled=1, server=ns.servers.average(), trace=tmp_path / "trace.parquet")
    with pytest.raises(RuntimeError, match="the disk of the evaluation"):
        strategy.start(FakeGrid({1: adding("a", 10)}), model_of(w=np.zeros(1)), 5, evaluate_fn=act)
    assert [entry.round for entry in ns.trace.read(tmp_path / "trace.parquet")] == [1, 2]


def test_a_rule_that_needs_more_clients_is_told_before_they_train(tmp_path: Path) -> None:
    grid = FakeGrid({number: adding(f"client-{number}", 10) for number in range(1, 5)})
    roster = Roster(tmp_path / "f.sqlite")
    server = ns.servers.remember(ns.aggregators.krum(1))
    strategy = Strategy(server=server, roster=roster, sampled=4, timeout=1.0, evaluate_every=0)
    strategy.start(grid, model_of(w=np.zeros(1)), 1)
    roster.leave("client-4")
    sent = len(grid.sent)
    with pytest.raises(ns.NoshowError, match=r"krum .* has 3 points: it needs 4 or more"):
        strategy.start(grid, model_of(w=np.zeros(1)), 2)
    assert len(grid.sent) == sent


def test_large_seeds_and_numpys_numbers_are_taken(tmp_path: Path) -> None:
    grid = FakeGrid({1: adding("a", 10), 2: adding("b", 10)})
    settings = {"sampled": 1, "seed": 2**32 - 1, "mu": np.float32(0.5), "server": ns.servers.average()}
    strategy_at(tmp_path, **settings).start(grid, model_of(w=np.zeros(1)), 2)
    told = [message.content["config"] for message in grid.sent if message.metadata.message_type == "train"]
    assert [config["proximal-mu"] for config in told] == [0.5, 0.5]


def test_starting_once_more_returns_what_is_known_and_asks_nobody(tmp_path: Path) -> None:
    strategy, grid = strategy_at(tmp_path, sampled=1, server=ns.servers.average()), FakeGrid({1: adding("a", 10)})
    first = strategy.start(grid, model_of(w=np.zeros(1)), 3)
    sent = len(grid.sent)
    again = strategy.start(grid, model_of(w=np.zeros(1)), 3)
    assert len(grid.sent) == sent
    assert sorted(again.train_metrics_clientapp) == sorted(first.train_metrics_clientapp) == [1, 2, 3]
    assert sorted(again.evaluate_metrics_clientapp) == sorted(first.evaluate_metrics_clientapp) == [1, 2, 3]


def test_what_is_not_trained_stays_as_it_was_in_the_first_model(tmp_path: Path) -> None:
    nodes = {1: adding("a", 10)}
    settings = {"sampled": 1, "evaluate_every": 0, "server": ns.servers.average()}
    first = model_of(w=np.zeros(1), order=np.array([3, 1, 2]))
    strategy_at(tmp_path, **settings).start(FakeGrid(nodes), first, 1)
    other = model_of(w=np.ones(1), order=np.array([9, 9, 9, 9]))
    arrays = strategy_at(tmp_path, **settings).start(FakeGrid(nodes), other, 2).arrays
    assert arrays["order"].numpy().tolist() == [3, 1, 2]
    assert arrays["w"].numpy().tolist() == [2.0]


def test_an_evaluation_that_was_cut_short_is_made_up_for(tmp_path: Path) -> None:
    nodes = {1: adding("a", 10), 2: adding("b", 10)}
    seen: list[int] = []

    def evaluate(t: int, arrays: ArrayRecord) -> MetricRecord:
        if t == 3 and 3 not in seen:
            seen.append(3)
            raise KeyboardInterrupt
        seen.append(t)
        return MetricRecord({"sum": float(arrays["w"].numpy().sum())})

    settings = {"sampled": 2, "server": ns.servers.average()}
    with pytest.raises(KeyboardInterrupt):
        strategy_at(tmp_path, **settings).start(FakeGrid(nodes), model_of(w=np.zeros(1)), 3, evaluate_fn=evaluate)
    for _ in range(2):  # made up for once, not every time
        result = strategy_at(tmp_path, **settings).start(
            FakeGrid(nodes), model_of(w=np.zeros(1)), 3, evaluate_fn=evaluate
        )
        assert {t: dict(m) for t, m in result.evaluate_metrics_serverapp.items()} == {t: {"sum": t} for t in range(4)}
        assert sorted(result.evaluate_metrics_clientapp) == [1, 2, 3]
    assert seen == [0, 1, 2, 3, 3]


def test_a_timeout_given_to_start_is_for_that_start_and_is_checked(tmp_path: Path) -> None:
    hurried = strategy_at(tmp_path, sampled=2, timeout=60.0)
    with pytest.raises(ns.NoshowError, match="1 clients and 2 are to be sampled"):  # and not after a minute
        hurried.start(FakeGrid({1: adding("a", 1)}), model_of(w=np.zeros(1)), 1, timeout=0.2)
    strategy = strategy_at(tmp_path, sampled=1)
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ns.NoshowError, match=r"timeout is .*: give seconds, more than zero"):
            strategy.start(FakeGrid({1: adding("a", 1)}), model_of(w=np.zeros(1)), 1, timeout=bad)
