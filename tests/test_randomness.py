"""Draws without replacement are draws without replacement, and uniform."""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from noshow.randomness import Purpose, round_key, run_key, without_replacement

DRAW = jax.jit(without_replacement, static_argnums=2)


@given(n=st.integers(1, 2**31 - 1), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_distinct_and_in_range(n: int, seed: int) -> None:
    drawn = np.asarray(DRAW(jax.random.key(seed), n, 16))[:n]
    assert len(set(drawn.tolist())) == len(drawn)
    assert drawn.min() >= 0
    assert drawn.max() < n


@given(n=st.integers(1, 300), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_all_of_them_is_a_permutation(n: int, seed: int) -> None:
    drawn = np.asarray(DRAW(jax.random.key(seed), n, 300))[:n]
    assert sorted(drawn.tolist()) == list(range(n))


FEW = [(2, 1), (5, 2), (7, 4), (12, 6)]
MORE = [(3, 2), (6, 3), (10, 5), (12, 4), (100, 1)]


@pytest.mark.parametrize(("n", "k"), [*FEW, *(pytest.param(*pair, marks=pytest.mark.long) for pair in MORE)])
def test_every_subset_comes_as_often_as_any_other(n: int, k: int) -> None:
    keys = jax.random.split(jax.random.key(n * 31 + k), 1_000_000)
    drawn = np.sort(np.asarray(jax.vmap(lambda key: without_replacement(key, n, k))(keys)), axis=1)
    codes = drawn @ n ** np.arange(k)
    subsets = {int(np.array(c) @ n ** np.arange(k)): 0 for c in combinations(range(n), k)}
    found, counts = np.unique(codes, return_counts=True)
    subsets.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
    assert chisquare(list(subsets.values())).pvalue > 1e-4


def test_every_order_comes_as_often_as_any_other() -> None:
    keys = jax.random.split(jax.random.key(7), 1_000_000)
    drawn = np.asarray(jax.vmap(lambda key: without_replacement(key, 6, 2))(keys))
    _, counts = np.unique(drawn @ [6, 1], return_counts=True)
    assert len(counts) == 30
    assert chisquare(counts).pvalue > 1e-4


def test_successive_rounds_do_not_depend_on_each_other() -> None:
    def sampled(t: jax.Array) -> jax.Array:
        chosen = without_replacement(round_key(5, t, Purpose.SAMPLE), 20, 5)
        return jnp.zeros(20).at[chosen].set(1.0)

    shown = np.asarray(jax.vmap(sampled)(jnp.arange(20_000)))
    centred = shown - 0.25
    correlation = (centred[:-1] * centred[1:]).mean(0) / (0.25 * 0.75)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(20_000)


def test_a_million_costs_no_more_than_a_hundred() -> None:
    small = jax.jit(lambda key: without_replacement(key, 100, 10)).lower(jax.random.key(0)).compile().cost_analysis()
    large = jax.jit(lambda key: without_replacement(key, 10**6, 10)).lower(jax.random.key(0)).compile().cost_analysis()
    assert large["bytes accessed"] == small["bytes accessed"]


def test_keys_differ_by_seed_round_and_purpose() -> None:
    keys = [round_key(seed, t, purpose) for seed in (0, 1) for t in (0, 1) for purpose in Purpose]
    keys += [run_key(seed, purpose) for seed in (0, 1) for purpose in Purpose]
    words = {tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys}
    assert len(words) == len(keys)
