"""The measures behind the claims, against hand calculation, NumPy's own fits and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from noshow.paper import figures, readings
from noshow.paper.readings import ACCURACY, LOSS, example

THREE = arrays(np.float64, 3, elements=st.floats(0.01, 10, allow_nan=False))


def curve(seed: int, evaluations: int = 41, seeds: int = 3) -> readings.Curves:
    return example(loss=np.random.default_rng(seed).normal(2, 0.1, (seeds, evaluations)))


def test_the_level_is_the_mean_of_the_last_quarter() -> None:
    # Evaluations at 0, 10, …, 400: the tail begins after 300.
    one = curve(0)
    by_hand = [[value for value, t in zip(row, one.evaluated, strict=True) if t > 300] for row in one.scores.train_loss]
    assert [len(tail) for tail in by_hand] == [10, 10, 10]
    np.testing.assert_allclose(readings.level(one, LOSS), [sum(tail) / 10 for tail in by_hand])
    np.testing.assert_allclose(readings.level(one, LOSS), figures.level(one, LOSS))


def test_the_level_of_a_window() -> None:
    one = curve(1)
    inside = (one.evaluated > 150) & (one.evaluated <= 200)
    np.testing.assert_allclose(readings.level(one, LOSS, 0.375, 0.5), one.scores.train_loss[:, inside].mean(1))
    assert inside.sum() == 5


def test_roughness_and_drift_are_those_of_numpys_line() -> None:
    one = curve(2)
    tail = one.evaluated > 300
    for row, rough, drift in zip(
        one.scores.train_loss, readings.roughness(one, LOSS), readings.drift(one, LOSS), strict=True
    ):
        line = np.polynomial.Polynomial.fit(one.evaluated[tail], row[tail], 1)
        ends = line(one.evaluated[tail][[0, -1]])
        assert rough == pytest.approx(np.std(row[tail] - line(one.evaluated[tail])))
        assert drift == pytest.approx(ends[1] - ends[0])


@given(slope=st.floats(-5, 5), start=st.floats(-5, 5))
def test_a_slope_adds_no_roughness(slope: float, start: float) -> None:
    one = curve(3)
    tilted = example(loss=one.scores.train_loss + start + slope * one.evaluated / 400)
    np.testing.assert_allclose(readings.roughness(tilted, LOSS), readings.roughness(one, LOSS), atol=1e-12)


@given(THREE, THREE)
def test_of_two_at_most_one_beats_the_other(mine: np.ndarray, theirs: np.ndarray) -> None:
    opposite = {"holds": "does not hold", "does not hold": "holds", "not decidable": "not decidable"}
    for what in (LOSS, ACCURACY):
        there = readings.beats(readings.gain(mine, theirs, what))
        assert readings.beats(readings.gain(theirs, mine, what)) == opposite[there]


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([0.1, 0.2, 0.3], "holds"),  # mean 0.2, standard deviation 0.1
        ([0.01, 0.01, 0.4], "not decidable"),  # of one sign, but mean 0.14 below 0.225
        ([-0.01, 0.4, 0.4], "not decidable"),  # a large mean, but not of one sign
        ([-0.1, -0.2, -0.3], "does not hold"),
        ([0.0, 0.0, 0.0], "not decidable"),
        ([np.inf, 0.1, 0.1], "holds"),  # the other blew up in one seed
        ([np.nan, 0.1, 0.1], "not decidable"),  # both blew up in one seed
    ],
)
def test_who_beats_whom(gains: list[float], verdict: str) -> None:
    assert readings.beats(np.array(gains)) == verdict


@pytest.mark.parametrize(
    ("mine", "theirs", "what", "better", "alike"),
    [
        (0.52, 0.50, ACCURACY, "holds", "does not hold"),  # 0.02 apart, 0.01 is close
        (0.505, 0.50, ACCURACY, "not decidable", "holds"),
        (0.48, 0.50, ACCURACY, "does not hold", "does not hold"),
        (1.00, 1.06, LOSS, "holds", "does not hold"),  # 6 % apart, 5 % is close
        (1.00, 1.04, LOSS, "not decidable", "holds"),
    ],
)
def test_one_seed_is_held_against_what_counts_as_similar(
    mine: float, theirs: float, what: str, better: str, alike: str
) -> None:
    one, other = np.array([mine]), np.array([theirs])
    assert readings.beats(readings.gain(one, other, what), readings.near(one, other, what)) == better
    assert readings.similar(one, other, what)[0] == alike


def test_a_loss_that_is_no_number_loses() -> None:
    fine, broken = np.array([1.0, 1.1, 1.2]), np.array([np.nan, np.inf, np.nan])
    assert readings.beats(readings.gain(fine, broken, LOSS)) == "holds"
    assert readings.similar(fine, broken, LOSS)[0] == "does not hold"
    assert readings.roughness(example(loss=[[1.0] * 12 + [np.nan]]), LOSS).tolist() == [np.inf]
    assert readings.steps(example(loss=[[1.0] + [np.nan] * 12]), LOSS).tolist() == [np.inf]


@pytest.mark.parametrize(
    ("mine", "theirs", "what", "verdict"),
    [
        ([0.5, 0.5, 0.5], [0.509, 0.509, 0.509], ACCURACY, "holds"),  # 0.009 apart
        ([0.5, 0.5, 0.5], [0.52, 0.52, 0.52], ACCURACY, "does not hold"),
        ([0.50, 0.54, 0.58], [0.52, 0.56, 0.60], ACCURACY, "does not hold"),  # 0.02 apart in every seed
        ([0.50, 0.54, 0.58], [0.48, 0.56, 0.64], ACCURACY, "not decidable"),  # 0.02 apart, one way and the other
        ([1.00, 1.00, 1.00], [1.04, 1.04, 1.04], LOSS, "holds"),  # 4 %
        ([1.00, 1.00, 1.00], [1.06, 1.06, 1.06], LOSS, "does not hold"),
    ],
)
def test_what_is_similar(mine: list[float], theirs: list[float], what: str, verdict: str) -> None:
    assert readings.similar(np.array(mine), np.array(theirs), what)[0] == verdict
    assert readings.similar(np.array(theirs), np.array(mine), what)[0] == verdict


def test_by_far_is_three_of_the_larger_spread() -> None:
    low = np.array([0.1, 0.2, 0.3])  # spread 0.1
    assert readings.beats_by_far(low + 0.31, low, ACCURACY) == "holds"
    assert readings.beats_by_far(low + 0.29, low, ACCURACY) == "does not hold"
    assert readings.spreads_apart(low + 0.31, low, ACCURACY) == pytest.approx(3.1)


def test_convergence_is_rest_by_what_counts_as_similar() -> None:
    times = np.arange(41)
    noise = (-1.0) ** times
    # The tail's ten evaluations fall by nine steps. At a level of 2, similar is 0.1, and a quarter of it 0.025.
    slow, fast = 2 - 0.002 * (times - 36), 2 - 0.004 * (times - 36)
    assert readings.converged(example(loss=[slow, fast]), LOSS).tolist() == [True, False]
    # A drift of 0.036 in a roughness of 0.05 is none; a roughness of 0.2 is no rest.
    assert readings.converged(example(loss=[fast + 0.05 * noise, fast + 0.2 * noise]), LOSS).tolist() == [True, False]
    # Of accuracy 0.01 is similar: 0.0018 over the tail is rest, 0.0036 is not.
    gains = [0.5 + 0.0002 * times, 0.5 + 0.0004 * times]
    assert readings.converged(example(accuracy=gains), ACCURACY).tolist() == [True, False]


def test_rounds_to_a_target_by_hand() -> None:
    rising = example(accuracy=[[0, 0, 0, 0, 0, 1, 1, 1, 1, 1], [0] * 10])
    # The mean of five evaluations is 0.6 at the eighth of them, round 70; the second seed never gets there.
    assert readings.rounds_to(rising, ACCURACY, np.array([0.6, 0.6])).tolist() == [70, np.inf]


@given(arrays(np.int64, 9, elements=st.integers(0, 5)), arrays(np.int64, 9, elements=st.integers(0, 5)))
def test_rank_correlation_is_spearmans(ours: np.ndarray, others: np.ndarray) -> None:
    if np.ptp(ours) and np.ptp(others):
        assert readings.rank_correlation(ours, others) == pytest.approx(stats.spearmanr(ours, others).statistic)
    else:
        assert np.isnan(readings.rank_correlation(ours, others))
