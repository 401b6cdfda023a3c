"""Many points in, one point out: points [m, d], weights [m], a key for rules that shuffle -> [d].

Weights need not sum to one; every rule divides by their sum. Distances are over the whole vector. Rules that
`reading_narrow` marks take points that a server keeps narrow (`noshow.width`), and widen them a few at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from noshow.additive import adding_up
from noshow.contracts import Aggregator, Array, Key, Points, Vector, Weights
from noshow.distances import distances_in
from noshow.errors import require
from noshow.width import Sums, is_narrow, over_rows, reading_narrow, widen


def mean() -> Aggregator:
    """sum w_i x_i / sum w_i.

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> ns.aggregators.mean()(jnp.array([[0.0], [4.0]]), jnp.array([3.0, 1.0]), jax.random.key(0)).tolist()
        [1.0]
    """

    def aggregate(points: Points, weights: Weights, key: Key) -> Vector:
        return over_rows(lambda x, w: w @ x, points, _normal(weights))

    return adding_up(reading_narrow(aggregate), _normal)


def geometric_median(iterations: int = 8, smoothing: float = 0.1) -> Aggregator:
    """argmin_v sum w_i ||v - x_i||, by the smoothed Weiszfeld iteration from v = 0.

        v <- sum b_i x_i / sum b_i,   b_i = w_i / max(smoothing, ||v - x_i||)

    K. Pillutla, S. Kakade, Z. Harchaoui, *Robust aggregation for federated learning*, 2022, Algorithm 2.

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> points = jnp.array([[0.0], [0.0], [90.0]])
        >>> v = ns.aggregators.geometric_median()(points, jnp.ones(3), jax.random.key(0))
        >>> bool(v[0] < 1)
        True
    """
    require(iterations >= 1, f"iterations is {iterations}: give 1 or more")
    require(math.isfinite(smoothing) and smoothing > 0, f"smoothing is {smoothing}: give a number above zero")

    def aggregate(points: Points, weights: Weights, key: Key) -> Vector:
        distances = distances_in(points)

        def pull(_: Array, v: Vector) -> Vector:
            def of_rows(x: Points, w: Weights) -> tuple[Vector, Array]:
                b = w / jnp.maximum(smoothing, distances(x, v))
                return b @ x, b.sum()

            total, mass = _summed(of_rows, points, _normal(weights))
            return total / jnp.where(mass > 0, mass, 1.0)

        return lax.fori_loop(0, iterations, pull, jnp.zeros(points.shape[1]))

    return reading_narrow(aggregate)


def centered_clip(radius: float = 100.0, iterations: int = 3) -> Aggregator:
    """v <- v + sum w_i (x_i - v) min(1, radius / ||x_i - v||), from v = 0; all differences from the same v.

    S. P. Karimireddy, L. He, M. Jaggi, *Learning from history for Byzantine robust optimization*, 2021, weighted
    as in the paper's appendix. The default radius is its tau = 10 / (1 - beta_0) for beta_0 = 0.9.

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> clip = ns.aggregators.centered_clip(radius=1.0, iterations=1)
        >>> clip(jnp.array([[10.0], [0.5]]), jnp.ones(2), jax.random.key(0)).tolist()
        [0.75]
    """
    require(radius > 0, f"radius is {radius}: give a number above zero")
    require(iterations >= 1, f"iterations is {iterations}: give 1 or more")

    def aggregate(points: Points, weights: Weights, key: Key) -> Vector:
        share, distances = _normal(weights), distances_in(points)

        def pull(_: Array, v: Vector) -> Vector:
            def of_rows(x: Points, w: Weights) -> Vector:
                distance = distances(x, v)
                clipped = w * jnp.where(distance > radius, radius / distance, 1.0)
                return clipped @ x - clipped.sum() * v  # the sum of w_i (x_i - v), without making the differences

            return v + _summed(of_rows, points, share)

        return lax.fori_loop(0, iterations, pull, jnp.zeros(points.shape[1]))

    return reading_narrow(aggregate)


def bucketed(size: int, aggregator: Aggregator) -> Aggregator:
    """Shuffles the points into ceil(m / size) buckets, averages each with its weights, then aggregates the means.

    A bucket weighs what its points weigh together. S. P. Karimireddy, L. He, M. Jaggi, *Byzantine-robust learning
    on heterogeneous datasets via bucketing*, 2022.

    Example:
        >>> import noshow as ns
        >>> rule = ns.aggregators.bucketed(2, ns.aggregators.geometric_median())
    """
    require(size >= 1, f"bucket size is {size}: give 1 or more")

    def aggregate(points: Points, weights: Weights, key: Key) -> Vector:
        m = points.shape[0]
        buckets = -(-m // size)
        shuffle, inner = jax.random.split(key)
        place = jax.random.permutation(shuffle, m)  # point i goes to bucket place[i] // size
        members = jnp.full(buckets * size, m).at[place].set(jnp.arange(m)).reshape(buckets, size)
        taken = members < m  # the last bucket may have places left over
        together = jnp.where(taken, weights[members], 0.0).sum(1)
        sums = jnp.zeros((buckets, points.shape[1]))
        for k in range(size):
            weighted = weights[members[:, k], None] * widen(points[members[:, k]])
            sums += jnp.where(taken[:, k, None], weighted, 0.0)
        means = sums / jnp.where(together > 0, together, 1.0)[:, None]
        return aggregator(means, together, inner)

    return reading_narrow(aggregate)


def coordinate_median() -> Aggregator:
    """The weighted median of each coordinate; the midpoint where two values share the middle.

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> points = jnp.array([[1.0], [2.0], [100.0]])
        >>> ns.aggregators.coordinate_median()(points, jnp.ones(3), jax.random.key(0)).tolist()
        [2.0]
    """

    def aggregate(points: Points, weights: Weights, key: Key) -> Vector:
        values, _, above = _sorted_columns(points, weights)
        # Rounding of the running sums must not decide which value stands in the middle.
        lower = jnp.argmax(above >= 0.5 - 1e-6, axis=0)
        upper = jnp.argmax(above > 0.5 + 1e-6, axis=0)
        column = jnp.arange(points.shape[1])
        return 0.5 * (values[lower, column] + values[upper, column])

    return aggregate


def trimmed_mean(trim: float = 0.1) -> Aggregator:
    """The mean of each coordinate after cutting the share `trim` of the weight off either end.

    A point on the cut counts with the part of its weight inside. D. Yin et al., *Byzantine-robust distributed
    learning: towards optimal statistical rates*, 2018.

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> points = jnp.array([[-90.0], [1.0], [3.0], [90.0]])
        >>> ns.aggregators.trimmed_mean(0.25)(points, jnp.ones(4), jax.random.key(0)).tolist()
        [2.0]
    """
    require(0 <= trim < 0.5, f"trim is {trim}: give a share from 0 up to, but not including, 0.5")

    def aggregate(points: Points, weights: Weights, key: Key) -> Vector:
        values, below, above = _sorted_columns(points, weights)
        inside = jnp.clip(above, trim, 1 - trim) - jnp.clip(below, trim, 1 - trim)
        return (values * inside).sum(0) / inside.sum(0)

    return aggregate


def krum(faulty: int = 1, keep: int = 1) -> Aggregator:
    """The weighted mean of the `keep` points closest to their m - faulty - 2 nearest neighbours.

    keep = 1 is Krum, more is multi-Krum. The choice itself counts heads, not weights: it asks which points agree.
    P. Blanchard et al., *Machine learning with adversaries: Byzantine tolerant gradient descent*, 2017.

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> points = jnp.array([[0.0], [0.1], [0.2], [90.0]])
        >>> float(ns.aggregators.krum()(points, jnp.ones(4), jax.random.key(0))[0]) < 1
        True
    """
    require(faulty >= 0, f"faulty is {faulty}: give zero or more")
    require(keep >= 1, f"keep is {keep}: give 1 or more")

    def aggregate(points: Points, weights: Weights, key: Key) -> Vector:
        m = points.shape[0]
        neighbours = m - faulty - 2
        require(neighbours >= 1, f"krum with faulty = {faulty} has {m} points: it needs {faulty + 3} or more")
        require(keep <= m, f"krum keeps {keep} of {m} points: lower keep")
        # One row at a time: m x m x d at once would not fit for large models.
        squared = lax.map(lambda x: jnp.square(points - x).sum(1), points)
        squared = jnp.where(jnp.eye(m, dtype=bool), jnp.inf, squared)
        closeness = jnp.sort(squared, axis=1)[:, :neighbours].sum(1)
        chosen = jnp.argsort(closeness)[:keep]
        return _normal(weights[chosen]) @ points[chosen]

    return aggregate


def _summed(function: Callable[[Points, Weights], Sums], points: Points, weights: Weights) -> Sums:
    """`over_rows` of narrow points; wide ones all at once, as `distances_in` has their lengths."""
    return over_rows(function, points, weights) if is_narrow(points) else function(points, weights)


def _normal(weights: Weights) -> Weights:
    total = weights.sum()
    return weights / jnp.where(total > 0, total, 1.0)


def _sorted_columns(points: Points, weights: Weights) -> tuple[Points, Points, Points]:
    """Each column sorted, with the share of the weight below each value and up to it."""
    order = jnp.argsort(points, axis=0)
    values = jnp.take_along_axis(points, order, axis=0)
    shares = _normal(weights)[order]
    above = jnp.cumsum(shares, axis=0)
    return values, above - shares, above
