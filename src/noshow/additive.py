"""Rules that add points up: what they take of each is told by the weights alone, so that sums can begin early."""

from __future__ import annotations

from collections.abc import Callable

from noshow.contracts import Aggregator, Weights
from noshow.marks import mark, marked
from noshow.width import Rule

Factors = Callable[[Weights], Weights]


def adding_up(rule: Rule, factors: Factors) -> Rule:
    """Mark a rule that adds points up, each times a factor that the weights alone tell."""
    return mark(rule, "factors", factors)


def factors_of(rule: Aggregator) -> Factors | None:
    """What a rule that is known to add points up takes of each.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> factors_of(ns.aggregators.mean())(jnp.array([3.0, 1.0])).tolist()
        [0.75, 0.25]
        >>> factors_of(ns.aggregators.geometric_median()) is None
        True
    """
    factors: Factors | None = marked(rule, "factors")
    return factors
