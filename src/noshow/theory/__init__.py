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
from noshow.theory.estimates import (
    Curvature,
    Dissimilarity,
    Estimates,
    Noise,
    curvature,
    dissimilarity,
    estimate,
    gradient_noise,
    strong_convexity,
)
from noshow.theory.hard import HardInstance, HardPair, hard_pair
from noshow.theory.kappa import kappa, kappa_ceiling
from noshow.theory.lemmas import local_drift, objective_inconsistency, selection_bias
from noshow.theory.lower import distance_floor, gradient_floor, hidden_share
from noshow.theory.overview import Overview, non_convex_overview, strongly_convex_overview
from noshow.theory.quadratics import Quadratics, quadratics
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
    "Curvature",
    "Dissimilarity",
    "Estimates",
    "HardInstance",
    "HardPair",
    "Noise",
    "Overview",
    "Problem",
    "Quadratics",
    "Recursion",
    "Universal",
    "conditions",
    "constant_rate",
    "constant_rate_corollary",
    "constant_step",
    "curvature",
    "decaying_rate",
    "decaying_rate_corollary",
    "dissimilarity",
    "distance_floor",
    "estimate",
    "failures",
    "gradient_floor",
    "gradient_noise",
    "hard_pair",
    "hidden_share",
    "inverse_rate",
    "kappa",
    "kappa_ceiling",
    "local_drift",
    "non_convex_contraction",
    "non_convex_curve",
    "non_convex_limit",
    "non_convex_overview",
    "non_convex_recursion",
    "non_convex_theorem",
    "objective_inconsistency",
    "quadratics",
    "selection_bias",
    "smallest_alpha",
    "step_cap",
    "strong_convexity",
    "strongly_convex_contraction",
    "strongly_convex_curve",
    "strongly_convex_limit",
    "strongly_convex_overview",
    "strongly_convex_recursion",
    "strongly_convex_step_cap",
    "strongly_convex_theorem",
    "table",
    "universal",
]
