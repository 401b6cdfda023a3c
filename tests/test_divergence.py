"""Runs that blow up end as diverged, with their last good model; others beside them do not notice."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import small_federation
from jax.flatten_util import ravel_pytree
from rich.console import Console
from typer.testing import CliRunner

import noshow as ns
from noshow.cli import app
from noshow.contracts import Array, Batch, Key, Params
from noshow.display import result_table

FEDERATION = small_federation(clients=6)


def quadratic(limit: float = np.inf) -> ns.Model:
    """F(theta) = theta^2 / 2, whatever the data; beyond the limit it is no number. A step at rate r: theta (1 - r)."""

    def measure(params: Params, batch: Batch) -> tuple[Array, Array]:
        n = batch[1].shape[0]
        square = 0.5 * jnp.square(params["theta"])
        return jnp.full(n, jnp.where(square > limit, jnp.nan, square)), jnp.zeros(n)

    return ns.Model(lambda key: {"theta": jnp.ones(())}, measure, name="quadratic")


def play(model: ns.Model, rate: object, **settings: object) -> ns.History:
    defaults = {"sampled": 3, "rounds": 40, "evaluate_every": 5}
    return ns.simulate(FEDERATION, model, ns.algorithms.fedavg(rate, steps=1), **(defaults | settings))  # type: ignore[arg-type]


def test_a_run_without_numbers_ends_with_the_model_of_the_last_good_evaluation() -> None:
    # theta_t = (-2)^t: the loss 4^t / 2 passes 1000 in round 6, which the evaluation after round 10 finds.
    history = play(quadratic(limit=1000.0), 3.0)
    assert history.diverged_at == [10]
    assert history.evaluated.tolist() == [0, 5, 10]
    assert history.scores.train_loss[0, :2].tolist() == pytest.approx([0.5, 512.0])
    assert np.isnan(history.scores.train_loss[0, 2])
    assert float(history.models[0]["theta"]) == pytest.approx(-32.0)
    assert history.roll_call.sampled.shape == (1, 10, 3)
    assert str(history.summary()).startswith("fedavg: diverged by round 10, ")


def test_a_million_times_the_first_loss_is_an_explosion() -> None:
    # 0.5 counts as 1: 4^t / 2 passes a million in round 11, found after round 15; a factor less is no explosion.
    assert play(quadratic(), 3.0).diverged_at == [15]
    assert play(quadratic(), 3.0, rounds=10).diverged_at == [None]


@pytest.mark.long
def test_seeds_that_hold_go_on() -> None:
    def measure(params: Params, batch: Batch) -> tuple[Array, Array]:
        n = batch[1].shape[0]
        return jnp.full(n, 0.5 * jax.lax.stop_gradient(params["curve"]) * jnp.square(params["theta"])), jnp.zeros(n)

    def init(key: Key) -> Params:
        return {"theta": jnp.ones(()), "curve": jnp.where(jax.random.uniform(key) < 0.5, 0.01, 30.0)}

    model = ns.Model(init, measure, name="lottery")
    history = play(model, 0.1, seeds=range(6), rounds=60)
    alone = [play(model, 0.1, seeds=[seed], rounds=60) for seed in range(6)]
    assert history.diverged_at == [each.diverged_at[0] for each in alone]
    assert None in history.diverged_at
    assert set(history.diverged_at) != {None}
    for seed, each in enumerate(alone):
        length = len(each.evaluated)
        np.testing.assert_allclose(
            history.scores.train_loss[seed, :length], each.scores.train_loss[0], rtol=1e-5, equal_nan=True
        )
        kept, own = (ravel_pytree(models)[0] for models in (history.models[seed], each.models[0]))
        np.testing.assert_allclose(kept, own, rtol=1e-5)
    assert np.isfinite(ravel_pytree(history.models)[0]).all()


def test_a_run_beside_one_that_diverges_is_what_it_is_alone() -> None:
    client, model = ns.clients.sgd(steps=1), quadratic(limit=1000.0)
    algorithms = [
        ns.Algorithm(client, ns.servers.average(), ns.rates.constant(rate), name=f"rate {rate}") for rate in (3.0, 0.5)
    ]
    runs = ns.Simulation.side_by_side(
        FEDERATION, model, [ns.Entry(each, sampled=3) for each in algorithms], rounds=20, evaluate_every=5
    )
    while not all(run.done for run in runs):
        for run in runs:
            run.advance()
    wild, tame = (run.history() for run in runs)
    assert (wild.diverged_at, wild.evaluated.tolist()) == ([10], [0, 5, 10])
    assert float(wild.models[0]["theta"]) == pytest.approx(-32.0)
    assert tame.diverged_at == [None]
    assert float(tame.models[0]["theta"]) == pytest.approx(0.5**20)


def test_a_resumed_run_diverges_as_an_undisturbed_one() -> None:
    def begin() -> ns.Simulation:
        algorithm = ns.algorithms.fedavg(3.0, steps=1)
        model = quadratic(limit=1000.0)
        return ns.Simulation(FEDERATION, model, algorithm, sampled=3, rounds=40, evaluate_every=5)

    first, second = begin(), begin()
    while first.t < 7:
        first.advance()
    second.resume(first.snapshot())
    while not second.done:
        second.advance()
    assert second.history().diverged_at == [10]
    assert float(second.history().models[0]["theta"]) == pytest.approx(-32.0)
    third = begin()
    third.resume(second.snapshot())
    assert third.done


def test_a_first_model_without_a_loss_is_told() -> None:
    with pytest.raises(ns.NoshowError, match=r"first model is nan \(seed 0\): look for NaN or Inf in the data"):
        play(quadratic(limit=0.1), 0.1)


SPEC = """
name = "wild"
rounds = 40
sampled = 4
seeds = [0, 1]
evaluate_every = 5
epsilon = "off"
data = { name = "synthetic", clients = 8, sizes = 20 }
model = { name = "logistic" }
adversary = { name = "nobody" }
[[algorithms]]
name = "fedavg"
rate = 1e30
[[algorithms]]
name = "mifa"
rate = 0.01
"""


def test_folder_table_and_figure_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wild.toml").write_text(SPEC)
    done = CliRunner().invoke(app, ["run", "wild.toml", "--out", "out"])
    assert done.exit_code == 0, done.output
    assert "diverged by round 5" in done.output
    table = pq.read_table("out/fedavg/metrics.parquet")
    assert np.isnan(np.asarray(table["train_loss"])).tolist() == [False, True, False, True]
    assert pq.read_table("out/mifa/metrics.parquet").num_rows == 2 * 9
    kept = np.load("out/fedavg/model.npz")
    assert all(np.isfinite(kept[name]).all() for name in kept.files)
    assert json.loads(Path("out/progress.json").read_text())["played"] == {"fedavg": 5, "mifa": 40}
    folder = ns.store.RunFolder.open(Path("out"))
    history = folder.load("fedavg")
    assert history.diverged_at == [5, 5]
    console = Console(record=True, width=120)
    console.print(result_table([history, folder.load("mifa")]))
    assert "diverged by round 5" in console.export_text()
    legend = history.plot().legends[0].get_texts()
    assert [text.get_text() for text in legend] == ["fedavg (diverged by round 5)"]
    again = CliRunner().invoke(app, ["run", "wild.toml", "--out", "out"])
    assert again.output.count("finished before, not run again") == 2
