"""What the paper proves, as functions: what absence must cost, and what it costs at most."""

from noshow.theory.closed import (
    Universal,
    constant_rate_corollary,
    decaying_rate_corollary,
    non_convex_theorem,
    strongly_convex_theorem,
    universal,
)
from noshow.theory.conditions import Condition, conditions, failures, table
from noshow.theory.constants import Problem
from noshow.theory.kappa import kappa, kappa_ceiling
from noshow.theory.lemmas import local_drift, objective_inconsistency, selection_bias
from noshow.theory.lower import distance_floor, gradient_floor, hidden_share
from noshow.theory.recursions import (
    Recursion,
    non_convex_contraction,
    non_convex_recursion,
    strongly_convex_contraction,
    strongly_convex_recursion,
)
from noshow.theory.steps import (
    constant_rate,
    constant_step,
    decaying_rate,
    inverse_rate,
    smallest_alpha,
    step_cap,
    strongly_convex_step_cap,
)
from noshow.theory.upper import (
    non_convex_curve,
    non_convex_limit,
    strongly_convex_curve,
    strongly_convex_limit,
)

__all__ = [
    "Condition",
    "Problem",
    "Recursion",
    "Universal",
    "conditions",
    "constant_rate",
    "constant_rate_corollary",
    "constant_step",
    "decaying_rate",
    "decaying_rate_corollary",
    "distance_floor",
    "failures",
    "gradient_floor",
    "hidden_share",
    "inverse_rate",
    "kappa",
    "kappa_ceiling",
    "local_drift",
    "non_convex_contraction",
    "non_convex_curve",
    "non_convex_limit",
    "non_convex_recursion",
    "non_convex_theorem",
    "objective_inconsistency",
    "selection_bias",
    "smallest_alpha",
    "step_cap",
    "strongly_convex_contraction",
    "strongly_convex_curve",
    "strongly_convex_limit",
    "strongly_convex_recursion",
    "strongly_convex_step_cap",
    "strongly_convex_theorem",
    "table",
    "universal",
]
