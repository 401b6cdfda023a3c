"""The paper's experiments: their specs, the driver that stops in time and goes on, results on disk, figures."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from test_spec import SMALL
from typer.testing import CliRunner

import noshow as ns
from noshow import cli
from noshow.clock import Clock
from noshow.display import PlainLines
from noshow.engine import Simulation
from noshow.lock import alone_in
from noshow.paper import copies, costs, experiments
from noshow.paper.driver import run_missing
from noshow.paper.experiments import EXPERIMENTS, Experiment, find
from noshow.paper.results import Results
from noshow.spec import Spec, realise, validate
from noshow.spec_file import load
from noshow.workbench import Bench

shadow = importlib.import_module("noshow.adversaries.shadow")  # the name `shadow` there is the function
TWO = SMALL + '\n[[algorithms]]\nname = "gm"\nrate = 0.1\nrounds = 7\nevaluate_every = 2\n'


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    file = tmp_path / "small.toml"
    file.write_text(TWO, "utf-8")
    own = ["algorithms.gm.rounds=7", "algorithms.gm.evaluate_every=2"]
    return load(str(file), ["rounds=12", "evaluate_every=5", "seeds=[0,4]", *own])


class Countdown(Clock):
    """Time is up after so many looks at the clock."""

    def __init__(self, looks: int) -> None:
        super().__init__(None)
        self._looks = looks

    @property
    def up(self) -> bool:
        self._looks -= 1
        return self._looks < 0


def silent() -> PlainLines:
    return PlainLines(Console(quiet=True))


@pytest.mark.parametrize("setting", ["written", "published"])
@pytest.mark.parametrize("scale", ["paper", "quick"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_valid_specs_in_both_settings_and_scales(name: str, setting: str, scale: str) -> None:
    specs = EXPERIMENTS[name].specs(setting, scale)
    seeds = (0,) if name.startswith("shakespeare") else (0, 1, 2)
    assert {(spec.setting, spec.scale, tuple(spec.seeds)) for spec in specs.values()} == {(setting, scale, seeds)}
    for spec in specs.values():
        published = setting == "published"
        if "batches" in spec.data:
            assert spec.data["batches"] == ("step" if published else "round")
        if spec.adversary["name"] == "shadow":
            assert spec.adversary["candidates"] == ("all" if published else [25, 10])
        damping = {table.get("damping") for table in spec.algorithms if table["name"] in ("gm", "cclip", "fedprox")}
        assert damping <= ({1.0} if published else {None})


def test_what_the_table_of_experiments_says() -> None:
    paper = {name: experiment.specs("written", "paper") for name, experiment in EXPERIMENTS.items()}
    cifar = paper["cifar10-0.8"][""]
    by_label = dict(zip(cifar.labels, cifar.algorithms, strict=True))
    assert (cifar.rounds, cifar.sampled, cifar.epsilon, cifar.data["clients"], cifar.data["batch_size"]) == (
        2000,
        10,
        0.8,
        100,
        100,
    )
    assert by_label["mifa"]["rate"] == {"name": "inverse_sqrt", "initial": 0.1}
    assert (by_label["fedprox"]["rate"], by_label["fedprox"]["mu"], by_label["fedprox"]["steps"]) == (0.03, 0.1, 10)
    assert by_label["gm"]["rate"] == 0.001
    assert (paper["cifar10-0.2"][""].epsilon, paper["cifar10-long"][""].epsilon) == (0.2, 0.2)
    assert (paper["cifar10-long"][""].rounds, len(paper["cifar10-long"][""].labels)) == (4000, 4)
    shakespeare = paper["shakespeare-0.7"][""]
    assert (shakespeare.length("fedavg")[0], shakespeare.length("gm")[0]) == (60, 1000)
    assert (shakespeare.sampled, shakespeare.data["batch_size"], shakespeare.epsilon) == (20, 500, 0.7)
    control = paper["shakespeare-random"][""]
    assert control.adversary == {"name": "anybody"}
    told = {"name", "description", "adversary", "algorithms"}
    assert control.model_dump(exclude=told) == shakespeare.model_dump(exclude=told)
    assert control.algorithms == shakespeare.algorithms[:2]
    assert len(paper["round-robin"]) == 9
    for cell, spec in paper["round-robin"].items():
        betas = {table.get("label"): table.get("beta") for table in spec.algorithms}
        assert cell == f"K{spec.sampled}-r{spec.adversary['groups']}"
        assert betas["fedavg_variant-beta-root"] == pytest.approx(sqrt(100 / spec.sampled))
        assert betas["fedavg_variant-beta-1"] == 1.0
    assert [spec.adversary["probability"] for spec in paper["random-response"].values()] == [
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
    ]


def test_an_unknown_experiment_is_told() -> None:
    with pytest.raises(ns.NoshowError, match=r"there is no experiment 'cifar-0.8': did you mean 'cifar10-0\.8'"):
        find("cifar-0.8")


@pytest.mark.long
def test_a_driver_that_is_stopped_often_ends_where_an_undisturbed_one_does(spec: Spec, tmp_path: Path) -> None:
    whole = Results(tmp_path / "whole", spec)
    assert run_missing({"": whole}, Bench(), silent(), Clock(None))
    calls = 0
    stopped = Results(tmp_path / "stopped", spec)
    while not run_missing({"": stopped}, Bench(), silent(), Countdown(5)):
        calls += 1
        assert calls < 30
        stopped = Results(tmp_path / "stopped", spec)
    assert calls > 2
    for name in ("metrics.parquet", "rounds.parquet"):
        assert pq.read_table(tmp_path / "whole" / name).equals(pq.read_table(tmp_path / "stopped" / name))
    assert not (tmp_path / "stopped" / "unfinished").exists()


@pytest.mark.long
def test_an_accelerator_plays_cells_side_by_side(spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cells of FedAvg and its variant, which share their client, are one group, also when stopped often."""
    tables = [{"name": name, "rate": 0.05, "steps": 2} for name in ("fedavg", "fedavg_variant")]
    own = {"algorithms": tables, "adversary": {"name": "largest_reply"}}
    cells = {f"K{k}": validate(spec.model_dump(exclude_none=True) | own | {"sampled": k}) for k in (3, 4)}

    def run(folder: str, clock: Callable[[], Clock]) -> dict[str, Results]:
        while not run_missing(
            found := {cell: Results(tmp_path / folder / cell, one) for cell, one in cells.items()},
            Bench(),
            silent(),
            clock(),
        ):
            continue
        return found

    alone = run("alone", Clock)
    groups: list[int] = []
    together = Simulation.side_by_side
    monkeypatch.setattr("noshow.devices.on_cpu", lambda: False)
    monkeypatch.setattr("noshow.paper.driver.on_cpu", lambda: False)
    monkeypatch.setattr(
        Simulation, "side_by_side", lambda *parts, **rest: groups.append(len(parts[2])) or together(*parts, **rest)
    )
    beside = run("beside", lambda: Countdown(8))
    assert set(groups) == {4}
    assert len(groups) > 1
    for cell, results in beside.items():
        for label, curves in results.curves().items():
            single = alone[cell].curves()[label]
            np.testing.assert_array_equal(curves.responders, single.responders)
            np.testing.assert_allclose(curves.scores.train_loss, single.scores.train_loss, rtol=2e-5)


def test_results_are_the_history(spec: Spec, tmp_path: Path) -> None:
    results = Results(tmp_path / "results", spec)
    run_missing({"": results}, Bench(), silent(), Clock(None))
    curves = Results(tmp_path / "results", spec).curves()
    assert list(curves) == ["fedavg", "gm"]
    parts = realise(spec)
    history = ns.simulate(
        parts.federation,
        parts.model,
        parts.algorithms[1],
        parts.adversary,
        sampled=4,
        epsilon=0.5,
        rounds=7,
        evaluate_every=2,
        seeds=[0, 4],
    )
    assert curves["gm"].evaluated.tolist() == history.evaluated.tolist() == [0, 2, 4, 6, 7]
    np.testing.assert_array_equal(curves["gm"].scores.train_loss, history.scores.train_loss)
    np.testing.assert_allclose(curves["gm"].epsilon_t, history.roll_call.epsilon_t, rtol=1e-6)
    np.testing.assert_array_equal(curves["gm"].responders, history.roll_call.answered.sum(-1))
    facts = json.loads((tmp_path / "results" / "about.json").read_text())
    assert {"commit", "finished", "devices", "seconds", "jax"} <= set(facts["gm"])


def test_results_of_another_spec_are_told(spec: Spec, tmp_path: Path) -> None:
    run_missing({"": Results(tmp_path / "results", spec)}, Bench(), silent(), Clock(None))
    with pytest.raises(ns.NoshowError, match=r"holds another run \(rounds differ\)"):
        Results(tmp_path / "results", spec.model_copy(update={"rounds": 13}))


def test_what_is_put_aside_is_no_other_specs(spec: Spec, tmp_path: Path) -> None:
    while not run_missing({"": (results := Results(tmp_path / "results", spec))}, Bench(), silent(), Countdown(5)):
        if results.checkpoints("fedavg").newest().snapshot is not None:
            break
    assert not results.finished
    with pytest.raises(ns.NoshowError, match=r"holds another run \(seeds differ\)"):
        Results(tmp_path / "results", spec.model_copy(update={"seeds": [1, 4]}))


def test_what_the_adversary_rehearses_is_kept_seed_by_seed(
    spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is up after each seed's rehearsal, and after the first rounds: nothing is rehearsed twice."""
    played: list[int] = []
    rehearse = shadow.rehearse
    monkeypatch.setattr(
        shadow, "rehearse", lambda *all_, **rest: played.append(rest["seed"]) or rehearse(*all_, **rest)
    )
    tables = [{"name": "fedavg", "rate": 0.05, "steps": 2}, {"name": "cclip", "rate": 0.05}]
    adversary = {"name": "shadow", "pairs": [[1, 3]], "candidates": [2, 1]}
    shadowed = validate(spec.model_dump(exclude_none=True) | {"algorithms": tables, "adversary": adversary})

    def call(looks: int) -> bool:
        return run_missing({"": Results(tmp_path / "results", shadowed)}, Bench(), silent(), Countdown(looks))

    for looks, rehearsed in ((2, 2), (3, 4), (5, 4), (5, 4)):  # of each seed FedAvg and cclip
        assert not call(looks)
        assert len(played) == rehearsed
    assert call(1000)
    assert len(played) == len(set(played)) * 2 == 4
    assert not (tmp_path / "results" / "unfinished").exists()


def test_one_process_at_a_time_and_nothing_is_run_before_damage_is_told(spec: Spec, tmp_path: Path) -> None:
    results = Results(tmp_path / "results", spec)
    with alone_in(results.path), pytest.raises(ns.NoshowError, match=r"is in use by process \d+"):
        run_missing({"": results}, Bench(), silent(), Clock())
    run_missing({"": results}, Bench(), silent(), Clock())
    (results.path / "metrics.parquet").write_bytes(b"PAR1")
    about = json.loads((results.path / "about.json").read_text("utf-8"))
    del about["gm"]
    (results.path / "about.json").write_text(json.dumps(about), "utf-8")
    with pytest.raises(ns.NoshowError, match=r"are damaged .*: remove it and run again"):
        run_missing({"": results}, Bench(), silent(), Clock())
    assert results.missing == ["gm"]


def test_the_bench_builds_equal_parts_once(spec: Spec) -> None:
    bench = Bench()
    one, other = bench.realise(spec), bench.realise(spec.model_copy(update={"epsilon": 0.2}))
    assert one.federation is other.federation
    assert one.model is other.model
    assert one.adversary is other.adversary
    assert bench.realise(spec.model_copy(update={"data": spec.data | {"clients": 9}})).federation.clients == 9


def test_costs_follow_rounds_steps_and_seeds(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_measured", lambda spec: (0.5, 2.0))
    # fedavg: 12 rounds of 2 steps, 12/5 + 1 evaluations; gm: 7 rounds of 1 step, 7/2 + 1; two seeds.
    assert costs.Costs().seconds(spec) == pytest.approx(2 * (12 * 2 * 0.5 + 3.4 * 2 + 7 * 0.5 + 4.5 * 2))


def test_costs_have_the_adversarys_rehearsal_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """151 rounds of all 100 clients, 10 at a time: 25 steps of FedAvg and one of cclip, for three seeds."""
    monkeypatch.setattr(costs, "_measured", lambda spec: (0.5, 0.0))
    written, published = (
        sum(map(costs.Costs().seconds, EXPERIMENTS["cifar10-long"].specs(setting, "paper").values()))
        for setting in ("written", "published")
    )
    assert written - published == pytest.approx(3 * 151 * 10 * 26 * 0.5)


def test_costs_are_measured_once(spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = costs.Costs().seconds(spec)
    assert 0 < first < 60
    assert costs.Costs().seconds(spec) == first
    monkeypatch.setattr(costs, "__version__", "of another release")
    monkeypatch.setattr(costs, "_measure", lambda parts, trial: (1000.0, 1000.0))
    assert costs.Costs().seconds(spec) > first


def test_costs_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOSHOW_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert costs.Costs().of(list(EXPERIMENTS["cifar10-0.8"].specs("written", "paper").values())) == "no data here"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "small.toml"
    file.write_text(TWO + "\n[settings.published]\nsteps = 1\n", "utf-8")
    tiny = Experiment("synthetic-long", "a small one", str(file), {"": ()})
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"synthetic-long": tiny})
    monkeypatch.setattr(copies, "PRESETS", ())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "150")
    out = tmp_path / "results"

    def command(*arguments: str) -> str:
        done = CliRunner().invoke(cli.app, ["reproduce", *arguments, "--out", str(out)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    assert "0 of 2" in command("--list")
    assert "time is up" in command("synthetic-long", "--setting", "written", "--minutes", "0")
    assert "figure.png" in command("synthetic-long", "--seeds", "0,1")
    assert (out / "synthetic-long" / "published" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "2 of 2" in command("--list", "--seeds", "0,1")
    others = command("--list", "--seeds", "3")
    assert "see below" in others
    assert "holds another run (seeds differ): choose another --out" in others
    assert "power-law.png" in command("power-law")
    with pytest.raises(ns.NoshowError, match="setting is 'other'"):
        command("synthetic-long", "--setting", "other")
    with pytest.raises(ns.NoshowError, match="seeds is 'x'"):
        command("synthetic-long", "--seeds", "x")
