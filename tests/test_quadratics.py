"""The quadratic family: its constants against slow sums over its data, its noise against every batch there is."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noshow as ns
from noshow.local import draw_batch
from noshow.models.quadratic import quadratic
from noshow.theory.quadratics import Quadratics, quadratics


@st.composite
def families(draw: st.DrawFn) -> Quadratics:
    mu, b = draw(st.floats(0.1, 5)), draw(st.sampled_from([1.0, 1.1, 1.4, 2.0]))
    d = draw(st.integers(1, 5))
    steeper = 1.0 if d == 1 else draw(st.floats(1, 10))
    examples = draw(st.integers(2, 6))
    return quadratics(
        clients=2 * draw(st.integers(2, 6)),
        d=d,
        L=steeper * (1 + np.sqrt(b**2 - 1)) * mu,
        mu=mu,
        B=b,
        G=draw(st.sampled_from([0.0, 0.3, 4.0])),
        sigma=draw(st.sampled_from([0.0, 0.2, 5.0])),
        examples=examples,
        batch_size=draw(st.integers(1, examples - 1)),
        distance=draw(st.floats(0, 3)),
        seed=draw(st.integers(0, 5)),
    )


def clients_of(family: Quadratics) -> tuple[np.ndarray, np.ndarray]:
    """Curvatures and slopes of every example [M, m, d], in 64 bits."""
    shape = (family.federation.clients, -1, len(family.start))
    h, b = (np.asarray(leaf, np.float64).reshape(shape) for leaf in family.federation.data)
    return h, b


@given(families(), st.integers(0, 100))
@settings(max_examples=60)
def test_the_constants_are_what_was_asked_for(family: Quadratics, seed: int) -> None:
    h, b = clients_of(family)
    asked = family.constants
    assert np.abs(h).max() == pytest.approx(asked["L"], rel=1e-5)
    assert max(0.0, -h.min()) == pytest.approx(asked["L_minus"], rel=1e-5, abs=1e-5 * asked["L"])
    of_all = h.mean((0, 1))
    assert of_all.min() == pytest.approx(asked["mu"], rel=1e-5)
    np.testing.assert_allclose(of_all, family.curvatures, rtol=1e-5)

    theta = np.random.default_rng(seed).normal(size=len(family.start))
    gradients = (h * theta - b).mean(1)
    scale = asked["B"] * asked["L"] + asked["G"] + asked["sigma"]
    np.testing.assert_allclose(gradients.mean(0), family.gradient(theta), atol=1e-5 * scale)
    equality = asked["B"] ** 2 * np.sum(family.gradient(theta) ** 2) + asked["G"] ** 2
    assert np.square(gradients).sum(1).mean() == pytest.approx(equality, rel=1e-4, abs=1e-9 * scale**2)


@given(families())
@settings(max_examples=30)
def test_the_noise_over_all_batches_is_sigma(family: Quadratics) -> None:
    _, b = clients_of(family)
    n = int(family.federation.batch_size or 0)
    for own in b[:2]:
        means = np.array([own[list(batch)].mean(0) for batch in combinations(range(len(own)), n)])
        variance = np.square(means - own.mean(0)).sum(1).mean()
        assert variance == pytest.approx(family.constants["sigma"] ** 2, rel=1e-4, abs=1e-9)


@given(families(), st.lists(st.floats(-3, 3), min_size=5, max_size=5))
@settings(max_examples=30)
def test_the_loss_of_everybody_is_the_excess_over_the_optimum(family: Quadratics, numbers: list[float]) -> None:
    h, b = clients_of(family)
    theta = np.array(numbers[: len(family.start)])
    losses = (h * theta**2 / 2 - b * theta).sum(-1).mean()
    size = np.abs(h * theta**2).sum(-1).max() + np.abs(b * theta).sum(-1).max()
    assert losses == pytest.approx(family.excess(theta), abs=1e-6 * size + 1e-12)
    assert np.linalg.norm(family.start) <= 3 * (1 + 1e-9)


def test_the_batches_that_clients_draw_have_this_noise() -> None:
    family = quadratics(clients=2, d=8, L=1.0, mu=1.0, sigma=0.9, examples=5, batch_size=2, distance=2.0)
    assert np.linalg.norm(family.start) == pytest.approx(2.0)
    keys = jax.random.split(jax.random.key(0), 10_000)
    rows, shares = jax.jit(jax.vmap(lambda key: draw_batch(jax.numpy.asarray(5), 2, key)))(keys)
    _, b = clients_of(family)
    noise = (np.asarray(shares)[..., None] * b[0][np.asarray(rows)]).sum(1)
    np.testing.assert_allclose(noise.mean(0), 0, atol=0.02)
    assert np.square(noise).sum(1).mean() == pytest.approx(0.9**2, rel=0.03)


def test_seeds_turn_the_slopes_and_leave_the_curvatures() -> None:
    first, again, other = (quadratics(4, 3, L=2.0, mu=1.0, G=1.0, sigma=1.0, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.federation.data[1], again.federation.data[1])
    assert not np.array_equal(first.federation.data[1], other.federation.data[1])
    assert np.array_equal(first.federation.data[0], other.federation.data[0])


def test_the_problem_holds_the_constants() -> None:
    family = quadratics(10, 2, L=6.0, mu=1.0, B=2.0, G=0.5, sigma=0.25)
    problem = family.problem(epsilon=0.2, sampled=5, steps=3)
    assert (problem.L, problem.mu, problem.B, problem.G, problem.sigma) == (6.0, 1.0, 2.0, 0.5, 0.25)
    assert (problem.K, problem.M, problem.s, problem.beta, problem.epsilon) == (5, 10, 3, 2, 0.2)
    assert problem.L_minus == pytest.approx(6 * (np.sqrt(3) - 1) / (np.sqrt(3) + 1))
    assert family.problem(epsilon=0.2, sampled=5, beta=1.5).beta == 1.5


def test_the_model_by_hand() -> None:
    model = quadratic([2.0, -1.0])
    theta = model.init(jax.random.key(0))
    batch = np.array([[1.0, 4.0], [0.0, -2.0]], np.float32), np.array([[0.5, 0.0], [1.0, 3.0]], np.float32)
    losses, correct = model.measure(theta, batch)
    assert losses.tolist() == [2 + 2 - 1, -1 - 2 + 3]
    assert correct.tolist() == [0.0, 0.0]
    gradient = jax.jit(jax.jacobian(lambda point: model.measure(point, batch)[0]))(theta)
    assert gradient.tolist() == [[1.5, -4.0], [-1.0, -1.0]]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"clients": 0}, "clients is 0: give 1 or more"),
        ({"examples": 0}, "examples is 0"),
        ({"batch_size": 9}, "batch_size is 9 of 8 examples: give no more"),
        ({"batch_size": 8}, "batch_size is 8 of 8 examples, so there is no noise"),
        ({"mu": 0.0}, "mu is 0.0: give a number above zero"),
        ({"B": 0.5}, "B is 0.5: give 1 or more"),
        ({"sigma": -1.0}, "sigma is -1.0: give zero or more"),
        ({"distance": float("nan")}, "distance is nan"),
        ({"L": 0.5}, "some client's curvature is 1, so give that or more"),
        ({"L": 1.5, "B": 1.25}, "some client's curvature is 1.75"),
        ({"d": 1}, "with d = 1 the largest curvature is 1: give L = 1, or d = 2 or more"),
        ({"clients": 5, "B": 1.25}, "clients is 5: B above 1 takes two halves"),
        ({"clients": 2, "B": 1.25}, "clients is 2: for this B and a G above zero give 4 or more"),
        ({"clients": 1}, "clients is 1: for this B and a G above zero give 2 or more"),
    ],
)
def test_bad_settings(changes: dict[str, Any], sentence: str) -> None:
    asked: dict[str, Any] = {"clients": 6, "d": 2, "L": 3.0, "mu": 1.0, "G": 1.0, "sigma": 1.0}
    with pytest.raises(ns.NoshowError, match=sentence):
        quadratics(**(asked | changes))


def test_a_model_for_other_data() -> None:
    family = quadratics(4, 3, L=2.0, mu=1.0)
    with pytest.raises(ns.NoshowError, match="starts from 2 parameters, and the examples of 'quadratics' are no pairs"):
        ns.simulate(family.federation, quadratic([1.0, 1.0]), ns.algorithms.fedavg(0.1), sampled=2, rounds=1)
    labelled = ns.datasets.synthetic(clients=3, sizes=10)
    with pytest.raises(ns.NoshowError, match="no pairs of as many curvatures and slopes"):
        ns.simulate(labelled, quadratic([1.0]), ns.algorithms.fedavg(0.1), sampled=2, rounds=1)
    with pytest.raises(ns.NoshowError, match=r"start has shape \[\]"):
        quadratic(1.0)
    with pytest.raises(ns.NoshowError, match="give finite numbers"):
        quadratic([float("inf")])
