"""Histories as tables, summaries and pictures."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from conftest import small_federation

import noshow as ns


@pytest.fixture(scope="module")
def history() -> ns.History:
    return ns.simulate(
        small_federation(),
        ns.models.logistic(features=4, classes=3),
        ns.algorithms.fedavg(0.1, steps=2),
        ns.adversaries.largest_reply(),
        sampled=4,
        epsilon=0.5,
        rounds=20,
        seeds=[4, 9],
        evaluate_every=2,
    )


def test_metrics_as_arrow_and_pandas(history: ns.History) -> None:
    table = history.metrics
    assert table.column_names == ["algorithm", "seed", "round", "train_loss", "test_loss", "test_accuracy"]
    assert table.num_rows == 2 * 11
    frame = history.to_pandas()
    nine = frame[(frame["seed"] == 9) & (frame["round"] == 20)]
    assert nine["train_loss"].item() == history.scores.train_loss[1, -1]


def test_without_pandas_the_way_out_is_told(history: ns.History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ns.NoshowError, match="needs pandas"):
        history.to_pandas()


def test_roll_call_as_a_table(history: ns.History) -> None:
    rows = history.roll_call_table.to_pylist()
    assert len(rows) == 2 * 20
    row = rows[20 + 7]  # the second seed's round 7
    assert (row["seed"], row["round"]) == (9, 7)
    assert row["sampled"] == history.roll_call.sampled[1, 7].tolist()
    assert sorted(row["silenced"] + row["responders"]) == sorted(row["sampled"])
    assert row["epsilon_t"] == history.roll_call.epsilon_t[1, 7]


def test_summary(history: ns.History) -> None:
    summary = history.summary()
    assert summary.train_loss == pytest.approx(history.scores.train_loss[:, -1].mean())
    last_quarter = history.scores.test_accuracy[:, -2:]  # 11 evaluations: the last quarter is two of them
    assert summary.test_accuracy_spread == pytest.approx(np.std(last_quarter, axis=1).mean())
    assert summary.mean_epsilon_t == pytest.approx(history.roll_call.epsilon_t.mean())
    assert str(summary).startswith("fedavg: train loss ")


def test_plot_draws_what_was_measured(history: ns.History) -> None:
    figure = history.plot()
    loss, accuracy, used = figure.axes
    np.testing.assert_allclose(loss.lines[0].get_ydata(), history.scores.train_loss.mean(0), rtol=1e-6)
    np.testing.assert_allclose(accuracy.lines[0].get_ydata(), history.scores.test_accuracy.mean(0), rtol=1e-6)
    np.testing.assert_allclose(used.lines[0].get_ydata(), history.roll_call.epsilon_t[0])
    assert used.lines[1].get_ydata()[0] == 0.5  # the law
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fedavg"]
