"""The extreme eigenvalues of a symmetric matrix that is known by its products with vectors alone.

C. Lanczos, 1950. From a random first vector, k products give an orthonormal basis in which the matrix is tridiagonal;
its eigenvalues tend to the matrix's own, the extreme ones first. The products come in float32; all else is float64,
and every new vector is made orthogonal to all before it, so that rounding brings no eigenvalue in twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Multiply = Callable[[np.ndarray], Any]
"""v [d], in float32 -> the matrix times v."""

STEPS_BETWEEN_LOOKS = 8
MOST_STEPS = 256
"""Few spectra take as many; the basis of a model of a million parameters then takes two gigabytes."""
RESOLUTION = 1e-5
"""Eigenvalues below this part of the largest are rounding of float32's products: they count as zero."""


class Ends(NamedTuple):
    """The smallest and the largest eigenvalue, and the residuals ||H v - lambda v|| of their unit vectors.

    Within its residual of each number lies an eigenvalue of the matrix.
    """

    lowest: float
    highest: float
    lowest_doubt: float
    highest_doubt: float

    @property
    def size(self) -> float:
        """The largest absolute eigenvalue."""
        return max(abs(self.lowest), abs(self.highest))


def extremes(multiply: Multiply, d: int, settled: Callable[[Ends], bool]) -> Ends:
    """The extreme eigenvalues of a d x d matrix, after as many steps as they take to be `settled`.

    If they never are, after `MOST_STEPS`, with the doubts that are left; not a number if the matrix is not finite.

    Example:
        >>> matrix = np.diag([-1.0, 2.0, 5.0])
        >>> [round(number, 4) for number in extremes(lambda v: matrix @ v, 3, settled=lambda ends: True)]
        [-1.0, 5.0, 0.0, 0.0]
    """
    most = min(d, MOST_STEPS)
    basis = np.zeros((most, d))
    diagonal, beside = np.zeros(most), np.zeros(most)
    following = np.random.default_rng(0).standard_normal(d)
    for k in range(most):
        basis[k] = following / np.linalg.norm(following)
        image = np.asarray(multiply(basis[k].astype(np.float32)), np.float64)
        if not np.isfinite(image).all():
            return Ends(np.nan, np.nan, np.nan, np.nan)
        diagonal[k] = basis[k] @ image
        following = _across(basis[: k + 1], image)
        beside[k] = np.linalg.norm(following)
        exhausted = k + 1 == most or beside[k] <= RESOLUTION * (np.abs(diagonal) + beside).max()
        if exhausted or (k + 1) % STEPS_BETWEEN_LOOKS == 0:
            ends = tridiagonal_ends(diagonal[: k + 1], beside[: k + 1])
            if exhausted or settled(ends):
                break
    return ends


def tridiagonal_ends(diagonal: np.ndarray, beside: np.ndarray) -> Ends:
    """The ends of the spectrum of a tridiagonal matrix.

    The last number beside the diagonal is the length of what is left of the last product outside the basis: times the
    last entry of a unit eigenvector it is the residual.

    Example:
        >>> [round(number, 6) for number in tridiagonal_ends(np.array([2.0, 2.0]), np.array([1.0, 0.5]))]
        [1.0, 3.0, 0.353553, 0.353553]
    """
    links = beside[:-1]
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(links, 1) + np.diag(links, -1))
    values = np.where(np.abs(values) <= RESOLUTION * np.abs(values).max(), 0.0, values)
    doubts = beside[-1] * np.abs(vectors[-1])
    return Ends(float(values[0]), float(values[-1]), float(doubts[0]), float(doubts[-1]))


def _across(basis: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """The part of the vector at right angles to the basis; the second time takes out what rounding has left in."""
    for _ in range(2):
        vector = vector - (basis @ vector) @ basis
    return vector
