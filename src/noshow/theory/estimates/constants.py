"""All of the theory's constants of one federation and model, ready for the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from noshow.contracts import Model
from noshow.federation import Federation
from noshow.theory.constants import Numbers, Problem
from noshow.theory.estimates.curvature import Curvature, curvature, strong_convexity
from noshow.theory.estimates.dissimilarity import Dissimilarity, dissimilarity
from noshow.theory.estimates.noise import Noise, gradient_noise
from noshow.theory.estimates.visited import Thetas, flat_models


class Estimates(NamedTuple):
    """What the theory's constants come to at the visited models; see `estimate`.

    Example:
        >>> weights = np.full(2, 0.5)
        >>> found = Estimates(Curvature(lowest=np.zeros((1, 2)), highest=np.full((1, 2), 2.0)), 0.5,
        ...                   Noise(np.ones((1, 2)), weights), Dissimilarity(np.full((1, 2), 4.0), np.ones(1), weights))
        >>> found.L, found.L_minus, found.mu, found.sigma, found.frontier([1.0, 2.0]).tolist()
        (2.0, 0.0, 0.5, 1.0, [2.0, 1.0])
    """

    curvature: Curvature
    mu: float
    noise: Noise
    dissimilarity: Dissimilarity

    @property
    def L(self) -> float:  # noqa: N802 (the paper's letter)
        """The largest absolute curvature of a client's loss."""
        return self.curvature.L

    @property
    def L_minus(self) -> float:  # noqa: N802 (the paper's letter)
        """The largest downward curvature of a client's loss, or 0."""
        return self.curvature.L_minus

    @property
    def sigma(self) -> float:
        """The root of sigma^2 = sum_i w_i sigma_i^2."""
        return self.noise.sigma

    @property
    def sigmas(self) -> np.ndarray:
        """sigma_i of every client [M]."""
        return self.noise.sigmas

    def frontier(self, B: Numbers | Sequence[float]) -> Numbers:  # noqa: N803 (the paper's letter)
        """The smallest G that goes with each B; see `Dissimilarity.frontier`."""
        return self.dissimilarity.frontier(B)

    def problem(
        self,
        *,
        B: Numbers | Sequence[float],  # noqa: N803 (the paper's letter)
        epsilon: Numbers,
        K: Numbers,  # noqa: N803 (the paper's letter)
        s: Numbers = 1,
        beta: Numbers | None = None,
    ) -> Problem:
        """The constants as the bounds take them, with the smallest G that goes with B; many B make a problem of arrays.

        Args:
            B: of the assumption on bounded dissimilarity, at least 1.
            epsilon: the adversary's share.
            K: clients sampled in a round, of the federation's M.
            s: local steps of FedAvg.
            beta: the server's amplification; M/K if left out.

        Example:
            >>> weights = np.full(2, 0.5)
            >>> found = Estimates(Curvature(lowest=np.zeros((1, 2)), highest=np.full((1, 2), 2.0)), 0.5,
            ...                   Noise(np.ones((1, 2)), weights),
            ...                   Dissimilarity(np.full((1, 2), 4.0), np.ones(1), weights))
            >>> problem = found.problem(B=[1.0, 2.0], epsilon=0.001, K=1)
            >>> problem.G.tolist(), float(problem.L), float(problem.M)
            ([2.0, 1.0], 2.0, 2.0)
        """
        return Problem(
            epsilon=epsilon,
            L=self.L,
            B=np.asarray(B, np.float64),
            G=self.frontier(B),
            sigma=self.sigma,
            L_minus=self.L_minus,
            mu=self.mu,
            s=s,
            K=K,
            M=len(self.sigmas),
            **({} if beta is None else {"beta": beta}),
        )


def estimate(federation: Federation, model: Model, thetas: Thetas, *, draws: int = 0, seed: int = 0) -> Estimates:
    """The theory's constants of this federation and model at the visited models.

    The assumptions speak of all models, and here only some are looked at. So L, L_minus, sigma and G may be larger in
    truth, and mu smaller: a condition that fails with these constants fails, but a bound made of them may be too low.

    Args:
        federation: the clients, and how they draw.
        model: what they train.
        thetas: the visited models: an array [T, d], or a list of flat vectors or of the model's own parameters, such as
            the `history().models` of a `Simulation` after each `advance`.
        draws: how many drawn batches of each client to look at for L and L_minus, beside all its data; see `curvature`.
        seed: the batches are those of rounds 0, 1, … of the run with this seed.

    Example:
        >>> import jax, noshow as ns
        >>> federation, model = ns.datasets.synthetic(clients=4, sizes=20), ns.models.logistic()
        >>> found = estimate(federation, model, [model.init(jax.random.key(0))])
        >>> found.L > 1, found.L_minus, found.mu, found.sigma  # convex, but not strongly; full batches have no noise
        (True, 0.0, 0.0, 0.0)
        >>> float(found.problem(B=2.0, epsilon=0.001, K=2, s=25).sigma)
        0.0
    """
    flat = flat_models(model, thetas)
    bent = curvature(federation, model, flat, draws=draws, seed=seed)
    # F bends no more than the sharpest client; only rounding can say otherwise.
    mu = min(strong_convexity(federation, model, flat), bent.L)
    return Estimates(bent, mu, gradient_noise(federation, model, flat), dissimilarity(federation, model, flat))
