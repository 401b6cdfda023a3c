"""Clients with parabolas for losses, whose constants L, mu, (B, G) and sigma are what was asked for, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noshow.contracts import Model
from noshow.errors import require
from noshow.federation import Federation
from noshow.models.quadratic import quadratic
from noshow.theory.constants import Problem


@dataclass(frozen=True, eq=False)
class Quadratics:
    """A federation of parabolas, the model that starts on them, and what is known of both.

    The optimum theta* is the origin, and F(theta) = F(theta*) + sum_j H_j theta_j^2 / 2. The federation's only test
    example is F itself, so that a run's `test_loss` is F(theta) - F(theta*).

    Args:
        federation: clients of equal size that draw one batch a round.
        model: `noshow.models.quadratic` from a point `distance` away from theta*.
        curvatures: H [d], of F.
        start: theta_0 [d].
        constants: L, L_minus, mu, B, G and sigma, by name.

    Example:
        >>> family = quadratics(clients=10, d=2, L=4.0, mu=1.0)
        >>> family.excess([1.0, 1.0]), family.gradient([1.0, 1.0]).tolist()
        (2.5, [1.0, 4.0])
    """

    federation: Federation
    model: Model
    curvatures: NDArray[np.float64]
    start: NDArray[np.float64]
    constants: dict[str, float]

    def excess(self, theta: Any) -> float:
        """F(theta) - F(theta*)."""
        return float(self.curvatures @ np.square(np.asarray(theta, np.float64)) / 2)

    def gradient(self, theta: Any) -> NDArray[np.float64]:
        """grad F(theta) [d]."""
        return self.curvatures * np.asarray(theta, np.float64)

    def problem(self, epsilon: float, sampled: int, steps: int = 1, beta: float | None = None) -> Problem:
        """The constants as the bounds of `noshow.theory` take them.

        Args:
            epsilon: the adversary's share.
            sampled: K, the clients sampled in a round.
            steps: s, the local steps of FedAvg.
            beta: the server's amplification; M/K if left out.

        Example:
            >>> family = quadratics(clients=10, d=2, L=4.0, mu=1.0, G=0.5)
            >>> float(family.problem(epsilon=0.1, sampled=5).G)
            0.5
        """
        given = {} if beta is None else {"beta": beta}
        return Problem(epsilon=epsilon, s=steps, K=sampled, M=self.federation.clients, **self.constants, **given)


def quadratics(
    clients: int,
    d: int,
    L: float,  # noqa: N803  the paper's names
    mu: float,
    B: float = 1.0,  # noqa: N803
    G: float = 0.0,  # noqa: N803
    sigma: float = 0.0,
    *,
    examples: int = 8,
    batch_size: int = 1,
    distance: float = 1.0,
    seed: int = 0,
) -> Quadratics:
    """Quadratic local losses with the constants of the paper's assumptions chosen, not estimated.

    Client i's loss in a round is sum_j (h_ij theta_j^2 / 2 - b_ij theta_j) - xi^T theta, xi the mean of its batch's
    noise vectors. Up to the rounding of 32-bit numbers these are exact:

    - L and mu: h_ij = H_j (1 + v_i), with H_j from mu to L / (1 + v) in geometric steps, v = sqrt(B^2 - 1), and
      v_i = v for every other client, -v for the rest. The largest |h_ij| is L, and F has the curvatures H_j. Above
      B = sqrt(2) the rest curve downwards, by up to L_minus = (v - 1) / (v + 1) L, while F stays mu-strongly convex.
    - B and G: sum w_i ||grad F_i||^2 = B^2 ||grad F||^2 + G^2 for every theta, an equality. The v_i have the mean 0
      and the mean square B^2 - 1, and the slopes b_i, of mean square G^2, sum to zero over either half of the clients,
      so that no cross term is left.
    - sigma: a batch of n of a client's m noise vectors, drawn without replacement, has a mean of variance
      S (m - n) / (n (m - 1)), S being their mean square; they are scaled until that is sigma^2, for every client.
    - theta* = 0, as all slopes and all noise sum to zero.

    Args:
        clients: M; even where B is above 1.
        d: parameters. With one of them F has one curvature, and L must be (1 + v) mu.
        L: the largest curvature of any client.
        mu: the smallest curvature of F.
        B: at least 1.
        G: the clients' spread.
        sigma: the batches' noise.
        examples: m, that each client holds.
        batch_size: n, that each client draws once a round.
        distance: ||theta_0 - theta*||; theta_0 has equal coordinates.
        seed: of the directions in which slopes and noise point.

    Example:
        >>> family = quadratics(clients=20, d=3, L=4.0, mu=1.0, B=1.25, G=0.5, sigma=0.3)
        >>> family.curvatures.round(3).tolist(), family.federation.clients
        ([1.0, 1.512, 2.286], 20)
    """
    _check(clients, d, L, mu, B, G, sigma, examples, batch_size, distance, seed)
    bend = math.sqrt(B**2 - 1)
    curvatures = np.geomspace(mu, L / (1 + bend), d)
    rng = np.random.default_rng(seed)
    half = np.arange(clients) % 2 if B > 1 else np.zeros(clients, int)
    slopes = _scaled(_centred(rng.standard_normal((clients, d)), half), G**2)
    client = np.repeat(np.arange(clients), examples)
    square = sigma**2 * batch_size * (examples - 1) / max(examples - batch_size, 1)
    noise = np.concatenate(
        [_scaled(_centred(rng.standard_normal((examples, d)), np.zeros(examples, int)), square) for _ in range(clients)]
    )
    data = (curvatures * (1 + bend * (1 - 2 * half[client, None])), slopes[client] + noise)
    federation = Federation(
        data,
        np.full(clients, examples),
        test=(curvatures[None], np.zeros((1, d))),
        batches="round",
        batch_size=batch_size,
        name="quadratics",
    )
    start = np.full(d, distance / math.sqrt(d))
    downwards = max(0.0, float(curvatures[-1]) * (bend - 1))
    constants = {"L": L, "L_minus": downwards, "mu": mu, "B": B, "G": G, "sigma": sigma}
    return Quadratics(federation, quadratic(start), curvatures, start, constants)


def _centred(vectors: NDArray[np.float64], group: NDArray[np.int_]) -> NDArray[np.float64]:
    """The vectors [n, d] less the mean of their group."""
    means = np.stack([vectors[group == label].mean(0) for label in range(group.max() + 1)])
    return np.asarray(vectors - means[group])


def _scaled(vectors: NDArray[np.float64], mean_square: float) -> NDArray[np.float64]:
    """The vectors [n, d] scaled to this mean of ||.||^2."""
    if mean_square == 0:
        return np.zeros_like(vectors)
    return vectors * math.sqrt(mean_square / np.square(vectors).sum(1).mean())


def _check(
    clients: int,
    d: int,
    smooth: float,
    mu: float,
    b: float,
    g: float,
    sigma: float,
    examples: int,
    batch_size: int,
    distance: float,
    seed: int,
) -> None:
    for name, count in (("clients", clients), ("d", d), ("examples", examples), ("batch_size", batch_size)):
        require(count >= 1, f"{name} is {count}: give 1 or more")
    for name, value in (("G", g), ("sigma", sigma), ("distance", distance), ("seed", seed)):
        require(math.isfinite(value) and value >= 0, f"{name} is {value}: give zero or more")
    require(math.isfinite(mu) and mu > 0, f"mu is {mu}: give a number above zero")
    require(math.isfinite(b) and b >= 1, f"B is {b}: give 1 or more")
    least = (1 + math.sqrt(b**2 - 1)) * mu
    require(
        math.isfinite(smooth) and smooth >= least * (1 - 1e-9),
        f"L is {smooth}: with mu = {mu} and B = {b} some client's curvature is {least:g}, so give that or more",
    )
    require(
        d > 1 or smooth <= least * (1 + 1e-9),
        f"L is {smooth}, but with d = 1 the largest curvature is {least:g}: give L = {least:g}, or d = 2 or more",
    )
    require(b == 1 or clients % 2 == 0, f"clients is {clients}: B above 1 takes two halves, so give an even number")
    fewest = 2 if b == 1 else 4
    require(g == 0 or clients >= fewest, f"clients is {clients}: for this B and a G above zero give {fewest} or more")
    require(batch_size <= examples, f"batch_size is {batch_size} of {examples} examples: give no more than there are")
    require(
        sigma == 0 or batch_size < examples,
        f"batch_size is {batch_size} of {examples} examples, so there is no noise: give a smaller one, or sigma = 0",
    )
