"""Aggregators against SciPy, NumPy and hand cases, and the laws they keep."""

from __future__ import annotations

from functools import wraps

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import trim_mean

import noshow as ns
from noshow.additive import factors_of
from noshow.recall import aggregator_of
from noshow.width import reads_narrow

G = ns.aggregators
KEY = jax.random.key(0)

# Compiled once each: hypothesis calls them many times.
RULES = {
    "mean": jax.jit(G.mean()),
    "geometric_median": jax.jit(G.geometric_median()),
    "centered_clip": jax.jit(G.centered_clip(radius=2.0)),
    "coordinate_median": jax.jit(G.coordinate_median()),
    "trimmed_mean": jax.jit(G.trimmed_mean(0.2)),
    "krum": jax.jit(G.krum(faulty=1)),
    "multi_krum": jax.jit(G.krum(faulty=1, keep=3)),
}
LONG_MEDIAN = jax.jit(G.geometric_median(iterations=3000, smoothing=1e-4))
KRUM_OF_TWO = jax.jit(G.krum(faulty=2))
THREE_OF_TWO = jax.jit(G.krum(faulty=2, keep=3))


def cloud(seed: int, m: int = 7, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)).astype(np.float32) * 3, rng.uniform(0.1, 2, m).astype(np.float32)


@pytest.mark.parametrize("name", RULES)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_unchanged_by_a_permutation_of_the_points(name: str, seed: int) -> None:
    points, weights = cloud(seed)
    order = np.random.default_rng(seed + 1).permutation(len(points))
    there = RULES[name](jnp.asarray(points), jnp.asarray(weights), KEY)
    again = RULES[name](jnp.asarray(points[order]), jnp.asarray(weights[order]), KEY)
    np.testing.assert_allclose(there, again, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", RULES)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100))
@settings(max_examples=10)
def test_only_the_proportions_of_the_weights_matter(name: str, seed: int, scale: float) -> None:
    points, weights = map(jnp.asarray, cloud(seed))
    np.testing.assert_allclose(
        RULES[name](points, weights, KEY), RULES[name](points, weights * scale, KEY), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ["mean", "geometric_median", "coordinate_median", "trimmed_mean", "bucketed"])
def test_equal_points_give_that_point(name: str) -> None:
    rule = (RULES | {"bucketed": G.bucketed(2, G.mean())})[name]
    points = jnp.tile(jnp.array([1.0, -2.0, 3.0]), (7, 1))
    np.testing.assert_allclose(rule(points, jnp.arange(1.0, 8.0), KEY), [1, -2, 3], rtol=1e-6)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_geometric_median_is_scipys_minimiser(seed: int) -> None:
    points, weights = cloud(seed, m=6, d=2)
    x, w = points.astype(np.float64), weights.astype(np.float64)

    def cost(v: np.ndarray) -> float:
        return float(w @ np.linalg.norm(x - v, axis=1))

    best = min(
        minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).fun
        for start in (x.mean(0), *x)
    )
    found = LONG_MEDIAN(jnp.asarray(points), jnp.asarray(weights), KEY)
    assert cost(np.asarray(found, np.float64)) <= best * (1 + 1e-4)


def test_geometric_median_of_three_by_hand() -> None:
    # From v = 0, distances 1 and 2, smoothing small: pulls 1/1 and 1/2, so v = (1·1 + 0.5·(-2)) / 1.5 = 0.
    one = G.geometric_median(iterations=1, smoothing=1e-6)(jnp.array([[1.0], [-2.0]]), jnp.ones(2), KEY)
    np.testing.assert_allclose(one, [0.0], atol=1e-6)
    # The smoothing holds a pull down: the point at the origin counts 1/0.5, the one at distance 1 counts 1.
    smooth = G.geometric_median(iterations=1, smoothing=0.5)(jnp.array([[0.0], [1.0]]), jnp.ones(2), KEY)
    np.testing.assert_allclose(smooth, [1 / 3], rtol=1e-6)


def test_centered_clip_by_hand() -> None:
    # Weights 1/4 and 3/4, radius 2. v0 = 0: v1 = 1/4·2 + 3/4·1 = 1.25. v1: 1/4·2 + 3/4·(-0.25) = 0.3125 more.
    points, weights = jnp.array([[10.0], [1.0]]), jnp.array([1.0, 3.0])
    np.testing.assert_allclose(G.centered_clip(2.0, 1)(points, weights, KEY), [1.25], rtol=1e-6)
    np.testing.assert_allclose(G.centered_clip(2.0, 2)(points, weights, KEY), [1.5625], rtol=1e-6)


def test_centered_clip_with_a_wide_radius_is_the_mean() -> None:
    points, weights = map(jnp.asarray, cloud(5))
    np.testing.assert_allclose(
        G.centered_clip(1e6)(points, weights, KEY), G.mean()(points, weights, KEY), rtol=1e-5, atol=1e-6
    )


def test_bucketing_by_hand() -> None:
    points, weights = jnp.array([[1.0], [2.0], [4.0], [8.0], [16.0]]), jnp.array([1.0, 2.0, 3.0, 4.0, 5.0])
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def spy(means: jax.Array, together: jax.Array, key: jax.Array) -> jax.Array:
        seen.append((np.asarray(means)[:, 0], np.asarray(together)))
        return means[0]

    G.bucketed(2, spy)(points, weights, KEY)
    means, together = seen[0]
    places = np.asarray(jax.random.permutation(jax.random.split(KEY)[0], 5)) // 2
    assert sorted(np.bincount(places)) == [1, 2, 2]
    for bucket in range(3):
        inside = places == bucket
        w, x = np.asarray(weights)[inside], np.asarray(points)[inside, 0]
        assert together[bucket] == pytest.approx(w.sum())
        assert means[bucket] == pytest.approx((w @ x) / w.sum())


def test_bucketing_shuffles_with_its_key() -> None:
    points, weights = map(jnp.asarray, cloud(1, m=9))
    rule = G.bucketed(2, G.geometric_median())
    one, same, other = (rule(points, weights, jax.random.key(k)) for k in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.allclose(one, other)


def test_mean_of_buckets_is_the_mean() -> None:
    points, weights = map(jnp.asarray, cloud(2, m=9))
    np.testing.assert_allclose(G.bucketed(4, G.mean())(points, weights, KEY), G.mean()(points, weights, KEY), rtol=1e-5)


@pytest.mark.parametrize("m", [1, 2, 5, 8])
def test_coordinate_median_of_equal_weights_is_numpys(m: int) -> None:
    points, _ = cloud(3, m=m)
    np.testing.assert_allclose(
        G.coordinate_median()(jnp.asarray(points), jnp.full(m, 0.7), KEY), np.median(points, axis=0), rtol=1e-6
    )


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_whole_weights_are_repeated_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, copies = rng.normal(size=(5, 3)).astype(np.float32), rng.integers(1, 4, 5)
    repeated = np.repeat(points, copies, axis=0)
    by_weight = RULES["coordinate_median"](jnp.asarray(points), jnp.asarray(copies, jnp.float32), KEY)
    np.testing.assert_allclose(by_weight, np.median(repeated, axis=0), rtol=1e-6)
    trimmed = RULES["trimmed_mean"](jnp.asarray(points), jnp.asarray(copies, jnp.float32), KEY)
    alone = RULES["trimmed_mean"](jnp.asarray(repeated), jnp.ones(len(repeated)), KEY)
    np.testing.assert_allclose(trimmed, alone, rtol=1e-4, atol=1e-5)


def test_trimmed_mean_is_scipys() -> None:
    points, _ = cloud(4, m=10)
    np.testing.assert_allclose(
        G.trimmed_mean(0.2)(jnp.asarray(points), jnp.ones(10), KEY),
        trim_mean(points, 0.2, axis=0),
        rtol=1e-5,
        atol=1e-6,
    )


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_krum_is_the_loop_in_its_paper(seed: int) -> None:
    points, weights = cloud(seed, m=8)
    closeness = []
    for i in range(8):
        others = sorted(float(((points[i] - points[j]) ** 2).sum()) for j in range(8) if j != i)
        closeness.append(sum(others[: 8 - 2 - 2]))
    np.testing.assert_allclose(
        KRUM_OF_TWO(jnp.asarray(points), jnp.asarray(weights), KEY), points[np.argmin(closeness)], rtol=1e-5
    )
    best = np.argsort(closeness)[:3]
    expected = weights[best] @ points[best] / weights[best].sum()
    np.testing.assert_allclose(
        THREE_OF_TWO(jnp.asarray(points), jnp.asarray(weights), KEY), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: G.geometric_median(iterations=0), "iterations is 0"),
        (lambda: G.geometric_median(smoothing=0), "smoothing is 0"),
        (lambda: G.centered_clip(radius=-1), "radius is -1"),
        (lambda: G.bucketed(0, G.mean()), "bucket size is 0"),
        (lambda: G.trimmed_mean(0.5), "trim is 0.5"),
        (lambda: G.krum(keep=0), "keep is 0"),
        (lambda: G.krum(faulty=5)(jnp.zeros((7, 1)), jnp.ones(7), KEY), "it needs 8 or more"),
    ],
)
def test_bad_settings_are_named(make: object, sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("centre", [0.0, 1.0, 3000.0])
@pytest.mark.parametrize("outlier", [0.0, 1e5])
@pytest.mark.parametrize("rule", ["median", "clip"])
def test_distances_keep_their_figures_wherever_the_points_lie(centre: float, outlier: float, rule: str) -> None:
    """Points close to each other and far from zero, or far from one of them: as in double precision, step by step."""
    rng = np.random.default_rng(0)
    points = (centre + rng.normal(size=(20, 400))).astype(np.float32)
    points[0] += np.float32(outlier)
    exact, v = points.astype(np.float64), np.zeros(400)
    for _ in range(8):
        distance = np.linalg.norm(exact - v, axis=1)
        if rule == "median":
            pull = 1 / np.maximum(0.1, distance)
            v = pull @ exact / pull.sum()
        else:
            v = v + (np.minimum(1, 50 / distance) / 20) @ (exact - v)
    aggregate = G.geometric_median(8) if rule == "median" else G.centered_clip(50.0, 8)

    def one(points: jax.Array) -> jax.Array:
        return aggregate(points, jnp.ones(20), jax.random.key(0))

    # The outlier's own figures are what single precision leaves of it.
    close = 1e-4 * np.linalg.norm(exact[1:] - v, axis=1).min() + 1e-6 * np.linalg.norm(v)
    assert np.linalg.norm(jax.jit(one)(points) - v) < close
    assert np.linalg.norm(jax.jit(jax.vmap(one))(points[None])[0] - v) < close


def test_what_is_known_of_a_rule_is_not_known_of_what_wraps_it() -> None:
    """A live federation would add rows up by the factors of the mean, and never call what is around it."""
    mean = ns.aggregators.mean()

    @wraps(mean)
    def halved(points: jax.Array, weights: jax.Array, key: jax.Array) -> jax.Array:
        return 0.5 * mean(points, weights, key)

    assert factors_of(mean) is not None
    assert factors_of(halved) is None
    assert reads_narrow(mean)
    assert not reads_narrow(halved)
    server = ns.servers.remember(mean)
    assert aggregator_of(server) is mean
    assert aggregator_of(server._replace(step=wraps(server.step)(lambda *parts: server.step(*parts)))) is None
