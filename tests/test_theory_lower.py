"""The lower bounds against the pair of problems that prove them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noshow.errors import NoshowError
from noshow.theory import Problem, distance_floor, gradient_floor, hidden_share


@given(st.integers(2, 50), st.data(), st.floats(0.1, 3.0), st.floats(0.1, 5.0), st.floats(-3, 3))
def test_nobody_beats_it_on_both_problems(
    clients: int, data: st.DataObject, spread: float, mu: float, answer: float
) -> None:
    """f = mu x^2 / 2 for all, or g = mu (x - b)^2 / 2 for the hidden: whatever the answer, one of them is far."""
    hidden = data.draw(st.integers(1, clients - 1))
    epsilon = hidden / clients
    shift = spread / (mu * np.sqrt(epsilon * (1 - epsilon)))
    slopes = mu * (answer - np.array([0.0] * (clients - hidden) + [shift] * hidden))
    assert np.mean(slopes**2) == pytest.approx(np.mean(slopes) ** 2 + spread**2, rel=1e-6)  # B = 1 and this G
    problem = Problem(epsilon=epsilon, L=mu, mu=mu, G=spread, K=clients, M=clients)
    worse = max(answer**2, (answer - epsilon * shift) ** 2)
    assert worse >= distance_floor(problem) * (1 - 1e-9)
    assert mu**2 * worse >= gradient_floor(problem) * (1 - 1e-9)


def test_the_theorems_formula_where_it_applies() -> None:
    problem = Problem(epsilon=[0.0, 0.2, 0.5], L=2.0, mu=2.0, G=3.0, sigma=4.0, K=10, M=10)
    expected = np.array([0, 0.2 / (8 * 0.8), 0.5 / (8 * 0.5)]) * 25
    np.testing.assert_allclose(gradient_floor(problem), expected)
    np.testing.assert_allclose(distance_floor(problem), expected / 4)


def test_only_whole_clients_that_can_be_silenced_whoever_is_sampled() -> None:
    for clients in (7, 10, 100):
        for count in range(clients):
            assert hidden_share(Problem(epsilon=count / clients, L=1.0, K=clients, M=clients)) == count / clients
    assert gradient_floor(Problem(epsilon=0.9, L=1.0, G=1.0, K=1, M=100)) == 0
    assert hidden_share(Problem(epsilon=0.8, L=1.0, K=10, M=100)) == 0.08


def test_a_distance_needs_strong_convexity() -> None:
    with pytest.raises(NoshowError, match="mu is 0"):
        distance_floor(Problem(epsilon=0.5, L=1.0, K=2, M=2))
