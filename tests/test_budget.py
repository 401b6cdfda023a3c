"""The law holds for every score, size and epsilon; it is greedy; and the last client always answers."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noshow as ns
from noshow import budget

scores = st.one_of(st.floats(-1e6, 1e6, width=32), st.sampled_from([-np.inf, np.inf, np.nan, 0.0]))


@st.composite
def rounds(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, int]:
    """Everybody's sizes, the sampled clients' ids and scores, epsilon, a seed."""
    sizes = np.array(draw(st.lists(st.integers(1, 10**6), min_size=1, max_size=12)))
    sampled = draw(st.integers(1, len(sizes)))
    ids = np.array(draw(st.permutations(range(len(sizes)))))[:sampled]
    points = np.array(draw(st.lists(scores, min_size=sampled, max_size=sampled)), np.float32)
    epsilon = draw(st.floats(0, 1, exclude_max=True))
    return sizes, ids, points, epsilon, draw(st.integers(0, 2**32 - 1))


SILENCE = jax.jit(budget.silence)


@given(rounds())
@settings(max_examples=300)
def test_the_law(case: tuple[np.ndarray, np.ndarray, np.ndarray, float, int]) -> None:
    sizes, ids, points, epsilon, seed = case
    most = budget.limit(epsilon, len(ids), sizes)
    silenced = np.asarray(SILENCE(jax.random.key(seed), jnp.asarray(points), jnp.asarray(sizes[ids], jnp.int32), most))
    dropped = int(sizes[ids][silenced].sum())
    assert dropped <= Fraction(repr(epsilon)) * len(ids) * int(sizes.sum()) / len(sizes)
    assert (~silenced).sum() >= 1
    assert not silenced[(points == -np.inf) | np.isnan(points)].any()

    # Greedy: whoever was passed over, though wanted, did not fit at its turn, or was the last one left.
    wanted = points > -np.inf
    for i in np.flatnonzero(wanted & ~silenced):
        no_later = silenced & (points >= points[i])  # equals may have come before it
        fits_after_equals = int(sizes[ids][no_later].sum()) + sizes[ids][i] <= most
        last = silenced.sum() == len(ids) - 1
        assert last or not fits_after_equals


def test_ties_are_broken_at_random() -> None:
    keys = jax.random.split(jax.random.key(0), 3000)
    silenced = jax.vmap(lambda key: budget.silence(key, jnp.zeros(4), jnp.full(4, 10), 20))(keys)
    assert np.all(np.asarray(silenced).sum(1) == 2)
    share = np.asarray(silenced).mean(0)
    assert np.all(np.abs(share - 0.5) < 4 * 0.5 / np.sqrt(3000))


def test_the_law_off_silences_everybody_wanted() -> None:
    silenced = budget.silence(jax.random.key(0), jnp.array([0.0, 5.0]), jnp.array([1, 1]), None)
    assert silenced.tolist() == [True, True]


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.3, 0.6, 0.7, 0.8, 0.9])
def test_a_written_decimal_is_meant_exactly(epsilon: float) -> None:
    assert budget.limit(epsilon, 10, np.full(100, 500)) == round(epsilon * 10) * 500


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, 1.5, np.nan, np.inf])
def test_epsilon_outside_its_range(epsilon: float) -> None:
    with pytest.raises(ns.NoshowError, match=r"epsilon is .*: give a number from 0"):
        budget.limit(epsilon, 10, np.full(100, 500))


def test_skips_a_client_that_does_not_fit_and_goes_on() -> None:
    silenced = budget.silence(jax.random.key(0), jnp.array([9.0, 8.0, 7.0, 6.0]), jnp.array([50, 60, 40, 30]), 95)
    assert silenced.tolist() == [True, False, True, False]


@given(rounds())
@settings(max_examples=200)
def test_what_the_law_allows_never_reads_as_more_than_epsilon(
    case: tuple[np.ndarray, np.ndarray, np.ndarray, float, int],
) -> None:
    sizes, ids, _, epsilon, _ = case
    most = budget.limit(epsilon, len(ids), sizes)
    assert budget.used_fraction(np.array(most), len(ids), sizes) <= epsilon


@pytest.mark.parametrize("clients", range(1, 31))
def test_a_quotient_is_meant_exactly(clients: int) -> None:
    """c of M equal clients, for every c, though most of these shares are no decimals."""
    allowed = [budget.limit(c / clients, clients, np.ones(clients)) for c in range(clients)]
    assert allowed == list(range(clients))


def test_a_share_below_a_quotient_is_not_it() -> None:
    assert budget.limit(0.333333, 3, np.ones(3)) == 0


def test_seven_of_ten_equal_clients_read_as_seven_tenths() -> None:
    assert budget.used_fraction(np.array(7 * 54), 10, np.full(100, 54)).item() == 0.7


def test_used_fraction() -> None:
    assert budget.used_fraction(np.array([0, 30]), 2, np.array([10, 20, 30])).tolist() == [0.0, 0.75]
