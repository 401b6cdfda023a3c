"""Adversaries on one-dimensional quadratics, in plain NumPy: the error stays under the explicit upper bounds.

Client i's loss in a round is (h_i/2) (x - m_i)^2 + xi x, with noise xi ~ N(0, sigma^2) drawn once a round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from noshow import theory
from noshow.contracts import Rate
from noshow.theory import Problem
from noshow.theory.constants import Method

RUNS = 200


class Quadratics(NamedTuple):
    """Curvatures h, minima m and weights w of the clients."""

    h: np.ndarray
    m: np.ndarray
    w: np.ndarray

    @property
    def optimum(self) -> float:
        return float(self.w * self.h @ self.m / (self.w @ self.h))

    def problem(self, epsilon: float, sigma: float, s: int, sampled: int) -> Problem:
        """Exact L, mu and (B, G): sum w h^2 (y + d)^2 <= 1.1 sum w h^2 y^2 + G^2, by 2uv <= 0.1 u^2 + 10 v^2."""
        away = self.optimum - self.m
        square, cross = self.w @ self.h**2, self.w @ (self.h**2 * away)
        slack = 0.0 if np.allclose(cross, 0) else 0.1
        spread = self.w @ (self.h * away) ** 2 + (cross**2 / (slack * square) if slack else 0.0)
        mu = self.w @ self.h
        return Problem(
            epsilon=epsilon,
            L=self.h.max(),
            L_minus=0.0,
            mu=mu,
            B=max(np.sqrt((1 + slack) * square) / mu, 1.0),
            G=np.sqrt(spread),
            sigma=sigma,
            s=s,
            K=sampled,
            M=len(self.h),
        )


def errors(clients: Quadratics, problem: Problem, method: Method, rate: Rate, last: int, start: float) -> np.ndarray:
    """Squared distances to the optimum [last + 1, RUNS]; the adversary silences those whose replies help most."""
    rng = np.random.default_rng(0)
    count, sampled = len(clients.h), int(problem.K)
    theta = np.full(RUNS, start)
    seen = [(theta - clients.optimum) ** 2]
    for t in range(last):
        eta = rate(t)
        noise = problem.sigma * rng.standard_normal((RUNS, count))
        if method == "fedavg":
            z = np.repeat(theta[:, None], count, axis=1)
            for _ in range(int(problem.s)):
                z = z - eta * (clients.h * (z - clients.m) + noise)
        else:
            z = (theta[:, None] / eta + clients.h * clients.m - noise) / (clients.h + 1 / eta)
        moves = clients.w * (z - theta[:, None])
        answers = rng.random((RUNS, count)).argsort(axis=1) < sampled
        help_ = moves * np.sign(clients.optimum - theta)[:, None]
        left = np.full(RUNS, problem.epsilon * problem.p * (1 + 1e-12))
        for rank in np.argsort(-help_, axis=1).T:
            row = np.arange(RUNS), rank
            silenced = answers[row] & (help_[row] > 0) & (clients.w[rank] <= left)
            left = left - np.where(silenced, clients.w[rank], 0)
            answers[row] &= ~silenced
        theta = theta + problem.beta * (moves * answers).sum(axis=1)
        seen.append((theta - clients.optimum) ** 2)
    return np.array(seen)


HIDDEN = Quadratics(h=np.ones(2), m=np.array([0.0, 10.0]), w=np.array([0.99, 0.01]))
BENT = Quadratics(h=np.array([1.0, 0.9]), m=np.array([0.0, 10.0]), w=np.array([0.995, 0.005]))
TEN = Quadratics(h=np.ones(10), m=np.arange(10.0), w=np.full(10, 0.1))
CASES = [(HIDDEN, 0.01, 0.0, 2), (HIDDEN, 0.01, 2.0, 2), (BENT, 0.005, 1.0, 2), (TEN, 0.2, 1.0, 5)]


@pytest.mark.parametrize(("clients", "epsilon", "sigma", "sampled"), CASES)
@pytest.mark.parametrize(("method", "s"), [("fedavg", 1), ("fedavg", 5), ("fedprox", 1)])
def test_the_error_stays_under_the_bounds(
    clients: Quadratics, epsilon: float, sigma: float, sampled: int, method: Method, s: int
) -> None:
    problem = clients.problem(epsilon, sigma, s, sampled)
    last, start = 600, clients.optimum + 3.0
    rate = theory.inverse_rate(problem, method)
    measured = errors(clients, problem, method, rate, last, start).mean(axis=1)
    assert np.all(measured <= theory.strongly_convex_curve(problem, method, rate, last, distance=3.0) * (1 + 1e-9))

    rate = theory.decaying_rate(problem, method)
    slopes = problem.mu**2 * errors(clients, problem, method, rate, last, start).mean(axis=1)
    eta = np.array([rate(t) for t in range(last + 1)])
    measured = np.cumsum(eta * slopes) / np.cumsum(eta)
    gap = problem.mu * 3.0**2 / 2
    assert np.all(measured <= theory.non_convex_curve(problem, method, rate, last, gap) * (1 + 1e-9))


def test_the_theorems_conditions_hold_in_the_first_three_cases() -> None:
    for clients, epsilon, sigma, sampled in CASES[:3]:
        problem = clients.problem(epsilon, sigma, 5, sampled)
        assert not theory.failures(theory.conditions(problem, "fedavg", "strongly convex"))


def test_a_hidden_client_brings_the_error_near_the_limit() -> None:
    """The bound is not idle: without noise the error settles at epsilon G^2 / (1 - epsilon), 82 % of the limit."""
    problem = HIDDEN.problem(0.01, 0.0, 1, 2)
    rate = theory.inverse_rate(problem, "fedavg")
    settled = errors(HIDDEN, problem, "fedavg", rate, 3000, 0.0)[-1].mean()
    assert settled == pytest.approx(0.01 * problem.G**2 / 0.99, rel=1e-6)
    assert 0.8 < settled / theory.strongly_convex_limit(problem, "fedavg") < 0.85
