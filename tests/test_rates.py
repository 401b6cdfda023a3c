"""Rates."""

from __future__ import annotations

import numpy as np
import pytest

import noshow as ns
from noshow.rates import curve


def test_curves() -> None:
    np.testing.assert_allclose(curve(ns.rates.constant(0.1), 3), [0.1] * 3)
    np.testing.assert_allclose(curve(ns.rates.inverse_sqrt(0.1), 3), 0.1 / np.sqrt([1, 2, 3]), rtol=1e-6)
    np.testing.assert_allclose(curve(ns.rates.inverse(2, 5), 3), [2 / 5, 2 / 6, 2 / 7], rtol=1e-6)
    np.testing.assert_allclose(curve(lambda t: 0.5 if t < 2 else 0.1, 3), [0.5, 0.5, 0.1])


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_numbers_that_are_no_rates(value: float) -> None:
    for make in (
        ns.rates.constant,
        ns.rates.inverse_sqrt,
        lambda a: ns.rates.inverse(a, 1),
        lambda g: ns.rates.inverse(1, g),
    ):
        with pytest.raises(ns.NoshowError, match="above zero"):
            make(value)


def test_a_function_that_dips_below_zero_is_caught_with_its_round() -> None:
    with pytest.raises(ns.NoshowError, match=r"the rate is -1\.0 in round 2"):
        curve(lambda t: 1.0 if t < 2 else -1.0, 5)
