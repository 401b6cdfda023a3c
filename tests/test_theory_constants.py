"""The constants of the theorems, and the sentences that nonsense gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noshow.errors import NoshowError
from noshow.theory import Problem


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"epsilon": 1.0}, "epsilon is 1.0: give a share from 0 up to, but not including, 1"),
        ({"epsilon": -0.1}, "epsilon is -0.1: give a finite number, at least 0"),
        ({"epsilon": [0.1, 1.5]}, "epsilon is 1.5"),
        ({"epsilon": float("nan")}, "epsilon is nan"),
        ({"epsilon": "much"}, "epsilon is 'much': give a number"),
        ({"B": 0.9}, "B is 0.9: give a finite number, at least 1"),
        ({"G": -1.0}, "G is -1.0: give a finite number, at least 0"),
        ({"sigma": -1.0}, "sigma is -1.0"),
        ({"L": 0.0}, "L is 0.0: give a number above zero"),
        ({"L": float("inf")}, "L is inf"),
        ({"mu": 3.0}, "mu is 3.0 and L is 2.0"),
        ({"mu": [1.0, 2.5]}, "mu is 2.5 and L is 2.0"),
        ({"L_minus": 3.0}, "L_minus is 3.0 and L is 2.0"),
        ({"L_minus": -1.0}, "L_minus is -1.0"),
        ({"beta": 0.5}, "beta is 0.5: the theorems need 1 or more"),
        ({"s": 0}, "s is 0.0"),
        ({"s": 1.5}, "s is 1.5: give a whole number"),
        ({"K": 0}, "K is 0.0"),
        ({"K": 11}, "K is 11.0 and M is 10.0"),
        ({"M": 9.5}, "M is 9.5: give a whole number"),
        ({"epsilon": [0.1, 0.2], "G": [1.0, 2.0, 3.0]}, "epsilon [2], G [3]"),
        ({"K": [1, 2], "M": [10, 10, 10]}, "K [2], M [3]"),
    ],
)
def test_nonsense_gets_a_sentence(wrong: dict[str, Any], sentence: str) -> None:
    right: dict[str, Any] = {"epsilon": 0.1, "L": 2.0, "K": 5, "M": 10}
    with pytest.raises(NoshowError) as caught:
        Problem(**{**right, **wrong})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_left_out_is_worked_out() -> None:
    problem = Problem(epsilon=0.1, L=[2.0, 3.0], K=5, M=20)
    np.testing.assert_array_equal(problem.L_minus, [2.0, 3.0])
    assert problem.beta == 4
    assert problem.p == 0.25


def test_constants_broadcast() -> None:
    problem = Problem(epsilon=[[0.1], [0.2]], L=1.0, G=[1.0, 2.0, 3.0], sigma=1)
    assert (problem.epsilon * problem.spread).shape == (2, 3)
    assert problem.over_time().spread.shape == (3, 1)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(NoshowError, match=r"'fedavgg'.*did you mean 'fedavg'"):
        Problem(epsilon=0.1, L=1.0).steps("fedavgg")  # type: ignore[arg-type]
