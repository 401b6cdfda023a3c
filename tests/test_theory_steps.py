"""Caps and schedules by hand, and that the schedules obey the theorems they belong to."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noshow as ns
from noshow.theory import (
    Problem,
    constant_rate,
    constant_step,
    decaying_rate,
    inverse_rate,
    smallest_alpha,
    step_cap,
    strongly_convex_step_cap,
)
from noshow.theory.constants import Method

PROBLEM = Problem(epsilon=0.0, L=4.0, mu=2.0, B=1.5, G=3.0, sigma=2.0, s=5, K=25, M=100, beta=3.0)


def test_caps_by_hand() -> None:
    assert step_cap(PROBLEM, "fedavg") == pytest.approx(1 / (10 * 3 * 5 * 4 * 2.25))
    assert step_cap(PROBLEM, "fedprox") == pytest.approx(1 / (10 * 3 * 4 * 2.25))
    assert strongly_convex_step_cap(PROBLEM, "fedavg") == pytest.approx(2 / (20 * 3 * 5 * 16 * 2.25))
    assert strongly_convex_step_cap(PROBLEM, "fedprox") == pytest.approx(2 / (20 * 3 * 16 * 2.25))
    assert smallest_alpha(PROBLEM, "fedavg") == pytest.approx(2 / (3 * 0.25 * 5 * 2))


def test_schedules_by_hand() -> None:
    slowed = 1 / (3 * 5 * math.sqrt(0.25 * 4) * 5)
    assert decaying_rate(PROBLEM, "fedavg")(8) == pytest.approx(min(step_cap(PROBLEM, "fedavg"), slowed) / 3)
    assert constant_rate(PROBLEM, "fedavg", last=10**6)(5) == pytest.approx(slowed / 1000)
    gamma = 40 * 16 * 2.25 / (0.25 * 4)
    assert inverse_rate(PROBLEM, "fedprox")(7) == pytest.approx(2 / (3 * 0.25 * 2) / (7 + gamma))


@given(
    st.floats(0.1, 10),
    st.floats(0, 1),
    st.floats(1, 5),
    st.floats(0, 10),
    st.integers(1, 50),
    st.integers(1, 20),
    st.sampled_from(["fedavg", "fedprox"]),
    st.integers(1, 10**6),
)
def test_every_schedule_stays_under_every_cap_of_its_theorem(
    smooth: float, fall: float, b: float, spread: float, s: int, sampled: int, method: Method, last: int
) -> None:
    problem = Problem(
        epsilon=0.0, L=smooth, L_minus=fall * smooth, mu=0.3 * smooth, B=b, G=spread, s=s, K=sampled, M=20
    )
    steps = s if method == "fedavg" else 1
    for rate in (constant_rate(problem, method, last), decaying_rate(problem, method)):
        assert rate(0) <= 1 / (10 * problem.beta * steps * smooth * b**2) * (1 + 1e-12)
        assert 10 * rate(0) * fall * smooth <= 1 + 1e-12  # the theorem's second cap for FedProx
    first = inverse_rate(problem, method)(0)
    assert first == pytest.approx(0.3 / (20 * problem.beta * steps * smooth * b**2))
    assert 10 * first * fall * smooth <= 1 + 1e-12


def test_without_spread_the_step_is_the_cap() -> None:
    problem = Problem(epsilon=0.0, L=2.0)
    assert constant_step(problem, "fedavg", 10**9) == step_cap(problem, "fedavg")


def test_arrays() -> None:
    problem = Problem(epsilon=0.0, L=[1.0, 2.0], mu=1.0, G=1.0)
    np.testing.assert_allclose(step_cap(problem, "fedavg"), [0.1, 0.05])
    np.testing.assert_allclose(constant_step(problem, "fedavg", np.array([[1], [10**4]]))[1], [0.01, 0.01 / 2**0.5])


def test_a_schedule_is_ready_for_an_algorithm() -> None:
    algorithm = ns.algorithms.fedavg_variant(rate=decaying_rate(PROBLEM, "fedavg"), steps=5)
    assert algorithm.rate(3) == pytest.approx(decaying_rate(PROBLEM, "fedavg")(0) / 2)


def test_nonsense_gets_a_sentence() -> None:
    with pytest.raises(ns.NoshowError, match="mu is 0"):
        inverse_rate(Problem(epsilon=0.0, L=1.0), "fedavg")
    with pytest.raises(ns.NoshowError, match=r"last is 0\.0"):
        constant_rate(PROBLEM, "fedavg", last=0)
    with pytest.raises(ns.NoshowError, match="a run has one rate"):
        decaying_rate(Problem(epsilon=0.0, L=[1.0, 2.0]), "fedavg")


def test_why_the_steps_have_an_s() -> None:
    """F = x^2 / 2, one client, beta = 3, s = 100: the stated steps blow x up, those with the s shrink it."""
    problem = Problem(epsilon=0.0, L=1.0, mu=1.0, beta=3.0, s=100)

    def factor(eta: float) -> float:
        return 1 + 3.0 * ((1 - eta) ** 100 - 1)

    for stated in (1 / (10 * 3.0), 1 / (20 * 3.0)):  # the corollary's step, and the strongly convex theorem's first one
        assert abs(factor(stated)) > 1
    for first in (constant_rate(problem, "fedavg", 10)(0), inverse_rate(problem, "fedavg")(0)):
        assert 0 < factor(first) < 1
