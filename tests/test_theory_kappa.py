"""kappa against its definition in exact fractions, and its limits."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noshow.errors import NoshowError
from noshow.theory import kappa, kappa_ceiling


def by_definition(eta_l: float, s: int) -> float:
    x = Fraction(eta_l)
    return float(((1 + x) ** s - 1 - s * x) / (comb(s, 2) * x**2))


@given(st.floats(1e-12, 3.0), st.integers(2, 60))
def test_the_definition_in_fractions(eta_l: float, s: int) -> None:
    assert kappa(eta_l, s) == pytest.approx(by_definition(eta_l, s), rel=1e-12)


@given(st.floats(0, 100.0))
def test_one_step_has_none(eta_l: float) -> None:
    assert kappa(eta_l, 1) == 0


@given(st.integers(2, 500))
def test_it_tends_to_one_for_small_steps(s: int) -> None:
    assert kappa(0.0, s) == 1
    assert kappa(1e-15, s) == pytest.approx(1, abs=1e-12)


@given(st.floats(1e-9, 5.0), st.integers(2, 200))
def test_it_is_at_least_one_and_under_its_ceiling(c: float, s: int) -> None:
    assert 1 - 1e-12 <= kappa(c / s, s) <= kappa_ceiling(c) * (1 + 1e-12)


def test_the_ceiling_is_reached_by_many_small_steps() -> None:
    for c in (0.1, 0.9, 1.1, 3.0):
        assert kappa(c / 10**7, 10**7) == pytest.approx(kappa_ceiling(c), rel=1e-5)
    assert kappa_ceiling(0.0) == 1
    assert kappa_ceiling(0.1) == pytest.approx(1.0341836151, rel=1e-9)


def test_arrays() -> None:
    values = kappa(np.array([[0.01], [0.5]]), np.array([1, 2, 7]))
    np.testing.assert_allclose(values, [[0, 1, by_definition(0.01, 7)], [0, 1, by_definition(0.5, 7)]], rtol=1e-12)
    assert np.all(np.diff(kappa(np.linspace(0, 2, 50), 9)) > 0)


def test_nonsense_gets_a_sentence() -> None:
    with pytest.raises(NoshowError, match=r"eta L is -0\.1"):
        kappa(-0.1, 2)
    with pytest.raises(NoshowError, match="s is not whole"):
        kappa(0.1, 2.5)
    with pytest.raises(NoshowError, match="take smaller or fewer steps"):
        kappa(100.0, 1000)
    with pytest.raises(NoshowError, match=r"c is 1000\.0"):
        kappa_ceiling(1000.0)
