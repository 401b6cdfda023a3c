"""The upper bounds: recursions by hand, closed forms above them, floors below them, and their rates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noshow import rates, theory
from noshow.errors import NoshowError
from noshow.theory import Problem
from noshow.theory.constants import Method

METHODS = st.sampled_from(["fedavg", "fedprox"])


@st.composite
def admissible(draw: st.DrawFn, strongly: bool = False) -> Problem:
    """Constants under which the theorems hold; a first step of 0 to 1 times the cap is up to the test."""
    smooth = draw(st.floats(0.1, 10))
    mu = smooth * draw(st.floats(0.2, 1)) if strongly else 0.0
    b = draw(st.floats(1, 4))
    allowed = (0.1 * (mu / smooth if strongly else 1) / b) ** 2
    clients = draw(st.integers(1, 20))
    sampled = draw(st.integers(1, clients))
    return Problem(
        epsilon=allowed * draw(st.floats(0, 1)),
        L=smooth,
        L_minus=smooth * draw(st.floats(0, 1)),
        mu=mu,
        B=b,
        G=draw(st.floats(0, 5)),
        sigma=draw(st.floats(0, 5)),
        s=draw(st.integers(1, 30)),
        beta=draw(st.floats(1, 2)) * clients / sampled,
        K=sampled,
        M=clients,
    )


HAND = Problem(epsilon=0.01, L=2.0, L_minus=1.0, mu=1.5, B=1.2, G=0.7, sigma=0.4, s=3, beta=2.5, K=2, M=4)


def by_hand(method: Method, eta: float, strongly: bool) -> tuple[float, float, float]:
    """The proofs' displayed a_t, b_t, c_t, term by term, for HAND."""
    e, smooth, b, g, sigma, beta, p = 0.1, 2.0, 1.2, 0.7, 0.4, 2.5, 0.5
    s = 3 if method == "fedavg" else 1
    kappa = 1 + eta * smooth / 3  # (3 x^2 + x^3) / (3 x^2)
    stray = kappa * (s - 1) * eta * smooth / 2 if method == "fedavg" else eta * smooth / (1 - eta * 1.0)
    if strongly:
        a = 1.5 - e * b * smooth - stray * b * smooth - 0.5 * beta * s * eta * (1 + stray) ** 2 * b**2 * smooth**2
        return (
            2 * beta * p * s * eta * a,
            2 * beta * p * s * eta * (e * (g + sigma) + stray * (g + sigma)),
            beta**2 * p * s**2 * eta**2 * (1 + stray) ** 2 * (g**2 + sigma**2),
        )
    a = 1 - e * b - stray * b - beta * s * eta * smooth / 2 * (1 + stray) ** 2 * b**2
    return (
        beta * p * s * eta * a,
        beta * p * s * eta * (e * (g + sigma) + stray * (g + sigma)),
        beta**2 * p * s * eta * s * eta * smooth / 2 * (1 + stray) ** 2 * (g**2 + sigma**2),
    )


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_the_curves_iterated_by_hand(method: Method) -> None:
    steps = [0.02, 0.01, 0.015, 0.005]
    rows = [by_hand(method, eta, strongly=True) for eta in steps]
    bounds = [4.0]
    for a, b, c in rows:
        bounds.append((1 - a / 2) * bounds[-1] + b**2 / (2 * a) + c)
    curve = theory.strongly_convex_curve(HAND, method, lambda t: [*steps, 1e-9][t], last=4, distance=2.0)
    np.testing.assert_allclose(curve, bounds, rtol=1e-12)

    rows = [by_hand(method, eta, strongly=False) for eta in steps]
    smallest = min(a / eta for (a, _, _), eta in zip(rows, steps, strict=True))
    a_t = [smallest * eta for eta in steps]
    summed = sum(b**2 / a + 2 * c for a, (_, b, c) in zip(a_t, rows, strict=True))
    curve = theory.non_convex_curve(HAND, method, steps.__getitem__, last=3, gap=3.0)
    assert curve[3] == pytest.approx((2 * 3.0 + summed) / sum(a_t), rel=1e-12)
    a, b, c = rows[0]
    assert curve[0] == pytest.approx((6 + b**2 / a + 2 * c) / a, rel=1e-12)


@given(admissible(), METHODS, st.floats(0, 100), st.floats(0.01, 1), st.integers(0, 300), st.booleans())
def test_the_non_convex_theorem_is_above_the_curve(
    problem: Problem, method: Method, gap: float, share: float, last: int, decay: bool
) -> None:
    first = share * float(theory.step_cap(problem, method))
    rate = rates.inverse_sqrt(first) if decay else rates.constant(first)
    curve = theory.non_convex_curve(problem, method, rate, last, gap)
    closed = theory.non_convex_theorem(problem, method, rate, last, gap)
    assert np.all(curve <= closed * (1 + 1e-9))
    assert theory.non_convex_limit(problem, method, first) <= 4 * problem.epsilon * problem.spread**2 + 1e-15
    assert theory.non_convex_contraction(problem, method, first) >= theory.universal(method).contraction - 1e-12


@given(admissible(), METHODS, st.floats(0, 100), st.integers(1, 300))
def test_the_corollary_is_above_the_theorem(problem: Problem, method: Method, gap: float, last: int) -> None:
    fixed = theory.non_convex_theorem(problem, method, theory.constant_rate(problem, method, last), last, gap)[-1]
    assert fixed <= theory.constant_rate_corollary(problem, method, last, gap) * (1 + 1e-9)
    decaying = theory.non_convex_theorem(problem, method, theory.decaying_rate(problem, method), last, gap)[-1]
    assert decaying <= theory.decaying_rate_corollary(problem, method, last, gap) * (1 + 1e-9)


@given(admissible(strongly=True), METHODS, st.floats(0, 100), st.floats(1, 5), st.floats(1, 5), st.integers(0, 300))
def test_the_strongly_convex_theorem_is_above_the_curve(
    problem: Problem, method: Method, distance: float, more: float, slower: float, last: int
) -> None:
    alpha = more * float(theory.smallest_alpha(problem, method))
    gamma = slower * alpha / float(theory.strongly_convex_step_cap(problem, method))
    curve = theory.strongly_convex_curve(problem, method, rates.inverse(alpha, gamma), last, distance)
    closed = theory.strongly_convex_theorem(problem, method, alpha, gamma, last, distance)
    assert np.all(curve <= closed * (1 + 1e-9))
    contraction = theory.strongly_convex_contraction(problem, method, alpha / gamma)
    assert contraction >= theory.universal(method).contraction * problem.mu * (1 - 1e-12)


def test_the_strongly_convex_constant_grows_with_alpha() -> None:
    """Why c is not universal: for t far above gamma the bound, theorem's or recursion's, is linear in alpha."""
    problem = Problem(epsilon=0.0, L=1.0, mu=1.0, G=1.0)
    ends = [
        theory.strongly_convex_curve(problem, "fedavg", rates.inverse(alpha, 20 * alpha), 40_000, 0.0)[-1]
        for alpha in (2.0, 20.0)
    ]
    assert ends[1] / ends[0] > 5


@given(admissible(strongly=True), METHODS)
def test_no_limit_is_below_the_floor(problem: Problem, method: Method) -> None:
    for everyone in (problem, replace(problem, K=problem.M, beta=1.0)):
        cap = theory.step_cap(everyone, method)
        for largest in (0.0, cap):
            limit = theory.non_convex_limit(everyone, method, largest)
            assert theory.gradient_floor(everyone) <= limit * (1 + 1e-12)
        assert theory.distance_floor(everyone) <= theory.strongly_convex_limit(everyone, method) * (1 + 1e-12)


@given(admissible(strongly=True), METHODS, st.sampled_from(["epsilon", "G", "sigma"]), st.floats(0, 0.9), st.booleans())
def test_more_absence_or_spread_never_costs_less(
    problem: Problem, method: Method, name: str, less: float, strongly: bool
) -> None:
    easier = replace(problem, **{name: less * getattr(problem, name)})
    rate = theory.inverse_rate(problem, method)
    curve = theory.strongly_convex_curve if strongly else theory.non_convex_curve
    worse, better = (curve(each, method, rate, 50, 1.0) for each in (problem, easier))
    assert np.all(better <= worse * (1 + 1e-12))
    step = theory.strongly_convex_step_cap(problem, method)
    assert theory.strongly_convex_limit(easier, method, step) <= theory.strongly_convex_limit(problem, method, step) * (
        1 + 1e-12
    )
    assert theory.selection_bias(easier, 1.0) <= theory.selection_bias(problem, 1.0)
    assert theory.gradient_floor(easier) <= theory.gradient_floor(problem)


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_without_absence_there_is_no_floor(method: Method) -> None:
    problem = Problem(epsilon=0.0, L=2.0, mu=1.0, B=2.0, G=1.0, sigma=1.0, s=5, K=4, M=4)
    assert theory.gradient_floor(problem) == theory.distance_floor(problem) == 0
    assert theory.non_convex_limit(problem, method, theory.step_cap(problem, method)) == 0
    assert theory.strongly_convex_limit(problem, method) == 0
    assert theory.selection_bias(problem, 3.0) == 0


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_the_limits_are_where_the_curves_go(method: Method) -> None:
    problem = Problem(epsilon=0.04, L=1.0, mu=1.0, G=1.0, sigma=0.5, s=3)
    curve = theory.strongly_convex_curve(problem, method, rates.constant(0.01), 5000, 3.0)
    assert curve[-1] == pytest.approx(theory.strongly_convex_limit(problem, method, 0.01), rel=1e-9)
    curve = theory.strongly_convex_curve(problem, method, rates.inverse(2.0, 100.0), 100_000, 3.0)
    assert curve[-1] == pytest.approx(theory.strongly_convex_limit(problem, method), rel=1e-2)
    curve = theory.non_convex_curve(problem, method, rates.constant(0.01), 100_000, gap=0.01)
    assert curve[-1] == pytest.approx(theory.non_convex_limit(problem, method, 0.01, final=0.01), rel=1e-3)
    curve = theory.non_convex_curve(problem, method, lambda t: 0.01 / (t + 1) ** 0.6, 100_000, gap=0.0)
    assert curve[-1] == pytest.approx(theory.non_convex_limit(problem, method, 0.01), rel=1e-2)


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_the_strongly_convex_rate_is_one_over_t_before_the_floor(method: Method) -> None:
    problem = Problem(epsilon=1e-9, L=1.0, mu=1.0, G=1.0, sigma=1.0, s=2, K=5, M=10)
    curve = theory.strongly_convex_curve(problem, method, theory.inverse_rate(problem, method), 30_000, 1.0)
    slope = math.log(curve[30_000] / curve[3000]) / math.log(30_000 / 3000)
    assert slope == pytest.approx(-1, abs=0.05)


def test_the_non_convex_rates() -> None:
    """T^-1/2 for the constant step of each T, and the same up to a logarithm for the decaying one."""
    problem = Problem(epsilon=0.0, L=1.0, G=1.0, s=2)
    ends = [
        theory.non_convex_curve(problem, "fedavg", theory.constant_rate(problem, "fedavg", last), last, 1.0)[-1]
        for last in (10**3, 10**5)
    ]
    assert math.log(ends[1] / ends[0]) / math.log(100) == pytest.approx(-0.5, abs=0.02)
    curve = theory.non_convex_curve(problem, "fedavg", theory.decaying_rate(problem, "fedavg"), 10**5, 1.0)
    assert -0.5 < math.log(curve[10**5] / curve[10**3]) / math.log(100) < -0.4


def test_the_floor_of_the_bound_is_linear_in_epsilon() -> None:
    problem = Problem(epsilon=[1e-6, 1e-5], L=1.0, mu=1.0, G=1.0)
    low, high = theory.strongly_convex_limit(problem, "fedavg")
    assert high / low == pytest.approx(10, rel=0.01)


def test_time_runs_along_the_last_axis() -> None:
    problem = Problem(epsilon=[[0.0], [0.001]], L=1.0, mu=1.0, G=[1.0, 2.0, 3.0])
    rate = theory.inverse_rate(Problem(epsilon=0.0, L=1.0, mu=1.0), "fedavg")
    for curve in (theory.non_convex_curve, theory.strongly_convex_curve, theory.non_convex_theorem):
        values = curve(problem, "fedavg", rate, 10, np.array([1.0, 2.0, 3.0]))
        single = curve(Problem(epsilon=0.001, L=1.0, mu=1.0, G=3.0), "fedavg", rate, 10, 3.0)
        assert values.shape == (2, 3, 11)
        np.testing.assert_allclose(values[1, 2], single)
    closed = theory.strongly_convex_theorem(problem, "fedavg", 2.0, np.array([40.0, 50.0, 60.0]), 10, 1.0)
    single = theory.strongly_convex_theorem(Problem(epsilon=0.001, L=1.0, mu=1.0, G=3.0), "fedavg", 2.0, 60.0, 10, 1.0)
    np.testing.assert_allclose(closed[1, 2], single)


def test_nonsense_gets_a_sentence() -> None:
    rate = rates.constant(0.01)
    hopeless = Problem(epsilon=0.5, L=1.0, mu=0.5, B=2.0)
    with pytest.raises(NoshowError, match=r"sqrt\(epsilon\) B is 1\.41421: the upper bounds need it below 1"):
        theory.non_convex_curve(hopeless, "fedavg", rate, 10, 1.0)
    with pytest.raises(NoshowError, match=r"sqrt\(epsilon\) B L / mu is 2\.82843"):
        theory.strongly_convex_limit(hopeless, "fedavg")
    fine = Problem(epsilon=0.0001, L=1.0, mu=0.5)
    with pytest.raises(NoshowError, match="the step 3 is too large"):
        theory.non_convex_curve(fine, "fedavg", lambda t: 3.0 if t == 4 else 0.1, 10, 1.0)
    with pytest.raises(NoshowError, match="the step 2 is too large"):
        theory.non_convex_limit(fine, "fedavg", 2.0)
    with pytest.raises(NoshowError, match=r"final is 0\.2 and largest is 0\.1"):
        theory.non_convex_limit(fine, "fedavg", 0.1, final=0.2)
    with pytest.raises(NoshowError, match=r"gap is -1\.0"):
        theory.non_convex_curve(fine, "fedavg", rate, 10, -1.0)
    with pytest.raises(NoshowError, match=r"distance is nan"):
        theory.strongly_convex_curve(fine, "fedavg", rate, 10, float("nan"))
    with pytest.raises(NoshowError, match=r"last is -1"):
        theory.strongly_convex_curve(fine, "fedavg", rate, -1, 1.0)
    with pytest.raises(NoshowError, match=r"the rate is -1\.0 in round 2"):
        theory.non_convex_curve(fine, "fedavg", lambda t: 0.1 if t < 2 else -1.0, 5, 1.0)
    with pytest.raises(NoshowError, match=r"mu is 0"):
        theory.strongly_convex_curve(Problem(epsilon=0.0, L=1.0), "fedavg", rate, 5, 1.0)


def test_the_theorems_name_the_condition_that_fails() -> None:
    rate = rates.constant(0.01)
    with pytest.raises(NoshowError, match=r"sqrt\(epsilon\) B is 0\.2, but the non-convex theorem needs <= 0\.1"):
        theory.non_convex_theorem(Problem(epsilon=0.04, L=1.0), "fedavg", rate, 10, 1.0)
    with pytest.raises(NoshowError, match=r"largest step is 0\.01, but the non-convex theorem needs <= 0\.005"):
        theory.non_convex_theorem(Problem(epsilon=0.0, L=1.0, s=20), "fedavg", rate, 10, 1.0)
    with pytest.raises(NoshowError, match=r"alpha is 1, but the strongly convex theorem needs >= 2"):
        theory.strongly_convex_theorem(Problem(epsilon=0.0, L=1.0, mu=1.0), "fedavg", 1.0, 100.0, 10, 1.0)
    with pytest.raises(NoshowError, match=r"gamma is 0\.0"):
        theory.strongly_convex_theorem(Problem(epsilon=0.0, L=1.0, mu=1.0), "fedavg", 2.0, 0.0, 10, 1.0)
    with pytest.raises(NoshowError, match=r"last is 0\.0"):
        theory.decaying_rate_corollary(Problem(epsilon=0.0, L=1.0), "fedavg", 0, 1.0)
