"""Extreme eigenvalues from products with vectors alone, against a dense eigensolver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noshow.theory.estimates import lanczos
from noshow.theory.estimates.lanczos import RESOLUTION, Ends, extremes

LARGE = 150
SPECTRA = {
    "even": np.linspace(-1.0, 3.0, LARGE),
    "geometric": np.geomspace(1e-6, 50.0, LARGE),
    "one apart": np.concatenate([np.linspace(0.0, 1.0, LARGE - 1), [20.0]]),
    "two alike at the top": np.concatenate([np.linspace(0.0, 1.0, LARGE - 2), [7.0, 7.0]]),
    "deepest below": np.concatenate([[-9.0], np.linspace(0.0, 1.0, LARGE - 1)]),
    "huge": 1e12 * np.linspace(1.0, 2.0, LARGE),
    "minute": 1e-12 * np.linspace(1.0, 2.0, LARGE),
}


def turned(spectrum: np.ndarray, seed: int = 0) -> np.ndarray:
    """A dense symmetric matrix with these eigenvalues."""
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(spectrum), len(spectrum))))
    return rotation @ np.diag(spectrum) @ rotation.T


def in_float32(matrix: np.ndarray, settled_at: float) -> Ends:
    """The ends by products in float32, up to residuals of `settled_at` times the largest eigenvalue."""
    small = matrix.astype(np.float32)
    return extremes(
        lambda v: small @ v,
        len(matrix),
        lambda ends: max(ends.lowest_doubt, ends.highest_doubt) <= settled_at * ends.size,
    )


@pytest.mark.parametrize("name", SPECTRA)
def test_both_ends_of_large_matrices(name: str) -> None:
    matrix = turned(SPECTRA[name])
    exact = np.linalg.eigvalsh(matrix)
    ends = in_float32(matrix, 1e-3)
    size = np.abs(exact).max()
    assert ends.highest == pytest.approx(exact[-1], abs=1e-3 * size)
    assert ends.lowest == pytest.approx(exact[0], abs=1e-3 * size)
    assert max(ends.lowest_doubt, ends.highest_doubt) <= 1e-3 * size


@pytest.mark.parametrize("name", SPECTRA)
def test_an_eigenvalue_lies_within_the_doubt_after_any_number_of_steps(name: str) -> None:
    exact = SPECTRA[name]
    matrix = turned(exact).astype(np.float32)
    looks: list[Ends] = []

    def eighth(ends: Ends) -> bool:
        looks.append(ends)
        return len(looks) == 8

    extremes(lambda v: matrix @ v, LARGE, eighth)
    assert len(looks) == 8
    rounding = 2 * RESOLUTION * np.abs(exact).max()
    for ends in looks:
        assert np.abs(exact - ends.lowest).min() <= ends.lowest_doubt + rounding
        assert np.abs(exact - ends.highest).min() <= ends.highest_doubt + rounding


def test_doubts_are_the_residuals_of_the_vectors() -> None:
    """The eigenvectors of the matrix as the basis sees it, put back into all d dimensions and multiplied."""
    matrix, rows = turned(SPECTRA["even"]), []

    def multiply(v: np.ndarray) -> np.ndarray:
        rows.append(v.astype(np.float64))
        return matrix @ v

    ends = extremes(multiply, LARGE, lambda ends: True)
    basis = np.array(rows)
    values, vectors = np.linalg.eigh(basis @ matrix @ basis.T)
    residuals = np.linalg.norm(matrix @ basis.T @ vectors - basis.T @ vectors * values, axis=0)
    assert (ends.lowest, ends.highest) == pytest.approx((values[0], values[-1]), rel=1e-5)
    assert (ends.lowest_doubt, ends.highest_doubt) == pytest.approx((residuals[0], residuals[-1]), rel=1e-4)


@given(
    st.lists(st.floats(-4.0, 4.0).map(lambda x: round(x, 2)), min_size=1, max_size=14),
    st.floats(1e-6, 1e6),
    st.integers(0, 5),
)
def test_small_matrices_are_solved_to_the_end(spectrum: list[float], scale: float, seed: int) -> None:
    """Eigenvalues may repeat, and be all zero: the basis is then exhausted before it has d vectors."""
    exact = scale * np.array(spectrum)
    ends = in_float32(turned(exact, seed), 0.0)
    slack = 2 * RESOLUTION * np.abs(exact).max()
    assert ends.lowest == pytest.approx(exact.min(), abs=slack)
    assert ends.highest == pytest.approx(exact.max(), abs=slack)
    assert ends.size == max(abs(ends.lowest), abs(ends.highest))


def test_rounding_counts_as_zero() -> None:
    exact = np.concatenate([[-1e-7], np.linspace(0.5, 1.0, 20)])
    assert extremes(lambda v: exact * v, 21, lambda ends: False).lowest == 0.0


def test_a_look_every_eight_steps_until_settled() -> None:
    products, looks = [], []

    def multiply(v: np.ndarray) -> np.ndarray:
        assert v.dtype == np.float32
        products.append(v)
        return SPECTRA["even"] * v

    def third(ends: Ends) -> bool:
        looks.append(ends)
        return len(looks) == 3

    extremes(multiply, LARGE, third)
    assert len(products) == 24
    np.testing.assert_allclose(np.array(products) @ np.array(products).T, np.eye(24), atol=1e-5)
    assert looks[0].highest < looks[1].highest < looks[2].highest <= 3.0 + 1e-6


def test_it_stops_with_its_doubts_after_the_most_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanczos, "MOST_STEPS", 20)
    products = []

    def multiply(v: np.ndarray) -> np.ndarray:
        products.append(v)
        return SPECTRA["even"] * v

    ends = extremes(multiply, LARGE, lambda ends: False)
    assert len(products) == 20
    assert 0.01 < ends.highest_doubt < 0.5
    assert 2.5 < ends.highest < 3.0


def test_what_is_not_finite_is_not_a_number() -> None:
    assert all(np.isnan(extremes(lambda v: v * np.inf, 3, lambda ends: True)))
