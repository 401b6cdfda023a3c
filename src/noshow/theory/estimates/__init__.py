"""The theory's constants, estimated on a federation and a model at the models that a run has visited."""

from noshow.theory.estimates.constants import Estimates, estimate
from noshow.theory.estimates.curvature import Curvature, curvature, strong_convexity
from noshow.theory.estimates.dissimilarity import Dissimilarity, dissimilarity
from noshow.theory.estimates.noise import Noise, gradient_noise

__all__ = [
    "Curvature",
    "Dissimilarity",
    "Estimates",
    "Noise",
    "curvature",
    "dissimilarity",
    "estimate",
    "gradient_noise",
    "strong_convexity",
]
