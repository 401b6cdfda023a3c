"""The lemmas' bounds against the losses that reach them, and against every silence the law allows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noshow.errors import NoshowError
from noshow.theory import Problem, local_drift, objective_inconsistency, selection_bias


@given(st.floats(0.001, 0.5), st.integers(1, 12), st.floats(0.1, 10.0))
def test_local_steps_down_a_parabola_drift_just_so(eta_l: float, s: int, smooth: float) -> None:
    """l(x) = -L x^2 / 2 from x = 1: s steps end at (1 + eta L)^s."""
    eta = eta_l / smooth
    strayed = (1 + eta_l) ** s - 1 - s * eta_l
    allowed = local_drift(Problem(epsilon=0.0, L=smooth, s=s), "fedavg", eta) * s * eta * smooth
    assert strayed == pytest.approx(allowed, rel=1e-9, abs=1e-12)


@given(st.floats(0.001, 0.5), st.floats(0.1, 10.0))
def test_the_proximal_minimiser_on_a_parabola_drifts_just_so(eta_l: float, smooth: float) -> None:
    """l(x) = -L x^2 / 2 from x = 1: the minimiser is 1 / (1 - eta L)."""
    eta = eta_l / smooth
    strayed = abs(1 - 1 / (1 - eta_l) + eta_l)
    allowed = local_drift(Problem(epsilon=0.0, L=smooth, s=9), "fedprox", eta) * eta * smooth
    assert strayed == pytest.approx(allowed, rel=1e-9, abs=1e-12)


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 9)), min_size=2, max_size=5), st.floats(0, 0.9), st.data())
def test_no_lawful_silence_exceeds_the_selection_bias(
    clients: list[tuple[float, int]], epsilon: float, data: st.DataObject
) -> None:
    """Every sample of K, and in each the worst of all silences within the law; G and B = 1 fitted to the gradients."""
    gradients, held = (np.array(column, float) for column in zip(*clients, strict=True))
    count, weights = len(held), held / held.sum()
    sampled = data.draw(st.integers(1, count))
    mean = weights @ gradients
    spread = np.sqrt(max(weights @ gradients**2 - mean**2, 0))
    problem = Problem(epsilon=epsilon, L=1.0, G=spread, K=sampled, M=count)
    biases = []
    for sample in combinations(range(count), sampled):
        silences = [list(c) for size in range(sampled + 1) for c in combinations(sample, size)]
        lawful = [c for c in silences if weights[c].sum() <= epsilon * sampled / count]
        biases.append(max(abs(weights[c] @ gradients[c]) for c in lawful))
    assert np.mean(biases) <= selection_bias(problem, abs(mean)) * (1 + 1e-9) + 1e-9


def test_formulas_by_hand() -> None:
    problem = Problem(epsilon=0.09, L=2.0, L_minus=1.0, B=2.0, G=1.0, sigma=0.5, s=3, K=1, M=4)
    inside = 2 * 3 + 1.5
    assert selection_bias(problem, 3.0) == pytest.approx(0.25 * 0.3 * inside)
    assert objective_inconsistency(problem, "fedavg", 0.1, 3.0) == pytest.approx(
        0.25 * (1.2**3 - 1 - 0.6) / 0.2**2 * 0.1**2 * 2 * inside
    )
    assert objective_inconsistency(problem, "fedprox", 0.1, 3.0) == pytest.approx(0.25 * 0.01 * 2 / 0.9 * inside)


def test_arrays() -> None:
    problem = Problem(epsilon=[[0.0], [0.01], [0.04]], L=1.0, G=1.0, s=2)
    np.testing.assert_allclose(selection_bias(problem, [0.0, 1.0]), [[0, 0], [0.1, 0.2], [0.2, 0.4]])
    assert objective_inconsistency(problem, "fedavg", np.array([0.1, 0.2]), 1.0).shape == (2,)


def test_nonsense_gets_a_sentence() -> None:
    problem = Problem(epsilon=0.1, L=2.0)
    with pytest.raises(NoshowError, match=r"gradient is -1\.0"):
        selection_bias(problem, -1.0)
    with pytest.raises(NoshowError, match=r"the step is 0\.5 and L_minus 2\.0.*take a smaller step"):
        local_drift(problem, "fedprox", 0.5)
    with pytest.raises(NoshowError, match="the step is nan"):
        local_drift(problem, "fedavg", float("nan"))
