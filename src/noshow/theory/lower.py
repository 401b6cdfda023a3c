"""What absence must cost: below these no algorithm can get on every problem, however long it runs."""

from __future__ import annotations

import numpy as np

from noshow.theory.constants import Numbers, Problem


def hidden_share(problem: Problem) -> Numbers:
    """floor(epsilon K) / M, the share of equal clients that the law lets an adversary hide for ever.

    However the K are sampled, no more than these are among them, so they can always be silenced. It is epsilon in the
    setting of Theorem nonconvex-lb-dropout-G: all clients sampled (K = M) and epsilon M a whole number.

    Example:
        >>> [float(hidden_share(Problem(epsilon=0.29, L=1.0, K=K, M=100))) for K in (100, 10, 1)]
        [0.29, 0.02, 0.0]
    """
    # epsilon K may fall short of a whole number by rounding: 0.29 * 100 does.
    return np.floor(problem.epsilon * problem.K * (1 + 1e-12)) / problem.M


def gradient_floor(problem: Problem) -> Numbers:
    """Worst-case E ||grad F(theta)||^2 >= epsilon / (8 (1 - epsilon)) (G^2 + sigma^2): Theorem nonconvex-lb-dropout-G.

    With `hidden_share` for epsilon, which is what the proof supports: it samples all clients and hides whole ones of
    equal weight; the law never silences a single sampled client, for one. The bound is on the worse of two problems
    that nobody can tell apart.

    Example:
        >>> float(gradient_floor(Problem(epsilon=0.5, L=1.0, G=1.0, sigma=1.0, K=10, M=10)))
        0.25
    """
    hidden = hidden_share(problem)
    return hidden / (8 * (1 - hidden)) * problem.square_spread


def distance_floor(problem: Problem) -> Numbers:
    """Worst-case E ||theta - theta*||^2 >= epsilon / (8 (1 - epsilon) mu^2) (G^2 + sigma^2), F mu-strongly convex.

    Theorem nonconvex-lb-dropout-G, with `hidden_share` for epsilon as in `gradient_floor`.

    Example:
        >>> float(distance_floor(Problem(epsilon=0.5, L=1.0, mu=0.5, G=1.0, sigma=1.0, K=10, M=10)))
        1.0
    """
    return gradient_floor(problem) / problem.strong_convexity**2
