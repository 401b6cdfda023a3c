"""Estimators on models whose curvature changes from place to place, against dense Hessians in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noshow as ns
from noshow.errors import NoshowError
from noshow.theory import estimates
from noshow.theory.estimates.visited import Visited, flat_models, visit

D = 15  # of the fixture `model`: 3 classes, 4 features and a bias


@pytest.fixture(scope="module")
def thetas(model: ns.Model) -> list[Any]:
    rng = np.random.default_rng(0)
    zero = model.init(jax.random.key(0))
    return [jax.tree.map(lambda p: jnp.asarray(rng.normal(size=p.shape)), zero), zero]


class Dense:
    """Multinomial logistic regression in float64; parameters in the order of the flat vector: biases, then weights."""

    def __init__(self, params: Any, batch: Any) -> None:
        x, labels = (np.asarray(part) for part in batch)
        self.inputs = np.concatenate([np.ones((len(x), 1)), x.astype(np.float64)], axis=1)
        weights = np.concatenate([np.asarray(params["bias"])[:, None], np.asarray(params["weights"])], axis=1)
        scores = np.exp(self.inputs @ weights.astype(np.float64).T)
        self.chances = scores / scores.sum(1, keepdims=True)
        self.errors = self.chances - np.eye(len(weights))[labels]

    def gradients(self) -> np.ndarray:
        """[n, d]; any fixed order of the parameters leaves norms and eigenvalues as they are."""
        return np.einsum("nc,nj->ncj", self.errors, self.inputs).reshape(len(self.inputs), -1)

    def hessian(self) -> np.ndarray:
        """(1/n) sum (diag(p) - p p') x (inputs inputs')."""
        middle = np.einsum("nc,ce->nce", self.chances, np.eye(self.chances.shape[1]))
        middle -= np.einsum("nc,ne->nce", self.chances, self.chances)
        blocks = np.einsum("nce,nj,nk->cjek", middle, self.inputs, self.inputs) / len(self.inputs)
        return blocks.reshape(self.chances.shape[1] * self.inputs.shape[1], -1)


def test_logistic_regression(federation: ns.Federation, model: ns.Model, thetas: list[Any]) -> None:
    drawn = federation.drawing("round", 20)
    found = estimates.estimate(drawn, model, thetas)
    weights = np.minimum(federation.held, 20) / np.minimum(federation.held, 20).sum()
    dense = [[Dense(theta, federation.of_client(i)) for i in range(federation.clients)] for theta in thetas]
    hessians = np.array([[client.hessian() for client in row] for row in dense])
    np.testing.assert_allclose(found.curvature.highest, np.linalg.eigvalsh(hessians)[..., -1], rtol=1e-3)
    assert np.abs(found.curvature.lowest).max() <= 1e-3 * found.L
    np.testing.assert_allclose(found.L, np.linalg.eigvalsh(hessians).max(), rtol=1e-3)
    # The softmax does not feel one number added to all scores: convex, but never strongly.
    assert np.linalg.eigvalsh(np.tensordot(weights, hessians, (0, 1))).min() < 1e-12
    assert (found.L_minus, found.mu) == (0.0, 0.0)

    variances = np.zeros((len(thetas), federation.clients))
    means = np.zeros((len(thetas), federation.clients, D))
    for t, row in enumerate(dense):
        for i, client in enumerate(row):
            each = client.gradients()
            means[t, i] = each.mean(0)
            if (held := len(each)) > 20:
                # Sampling theory's form: S^2 / n (1 - n / N), S^2 with N - 1 in the denominator.
                variances[t, i] = each.var(0, ddof=1).sum() / 20 * (1 - 20 / held)
    np.testing.assert_allclose(found.noise.variances, variances, rtol=1e-4)
    assert found.sigma == pytest.approx(np.sqrt(weights @ variances.max(0)), rel=1e-4)

    square_mean = np.sum(np.tensordot(weights, means, (0, 1)) ** 2, -1)
    mean_square = np.sum(means**2, -1) @ weights
    wanted = np.array([1.0, 1.5, 3.0])
    exact = np.sqrt(np.maximum(mean_square - wanted[:, None] ** 2 * square_mean, 0).max(1))
    np.testing.assert_allclose(found.frontier(wanted), exact, rtol=1e-4, atol=1e-6)


def cosine(d: int) -> ns.Model:
    """Example x has the loss cos(x theta), with the Hessian -cos(x theta) x x'."""
    return ns.Model(lambda key: jnp.zeros(d), lambda theta, x: (jnp.cos(x @ theta), jnp.zeros(len(x))), "cosine")


def test_curvature_that_changes_its_sign() -> None:
    rng = np.random.default_rng(1)
    clients = [rng.normal(size=(n, 6)).astype(np.float32) for n in (4, 150, 30)]
    thetas = rng.normal(size=(4, 6)).astype(np.float32)
    exact = np.linalg.eigvalsh(
        [
            [-(x.T * np.cos(x.astype(np.float64) @ theta)) @ x.astype(np.float64) / len(x) for x in clients]
            for theta in thetas
        ]
    )
    found = estimates.curvature(ns.Federation.from_clients(clients, test=clients[0]), cosine(6), thetas)
    np.testing.assert_allclose(found.lowest, exact[..., 0], atol=1e-3 * np.abs(exact).max())
    np.testing.assert_allclose(found.highest, exact[..., -1], atol=1e-3 * np.abs(exact).max())
    np.testing.assert_allclose(found.L, np.abs(exact).max(), rtol=1e-3)
    assert found.L_minus == pytest.approx(-exact.min(), rel=1e-3)


def test_strong_convexity_looks_at_every_model() -> None:
    """-cos(theta - x) with x near 0 bends by about 1, cos(1) and cos(1.5) at theta = 0, 1 and 1.5."""
    x = np.array([[0.0], [0.1], [-0.1]], np.float32)
    model = ns.Model(lambda key: jnp.zeros(1), lambda theta, x: (-jnp.cos(x[:, 0] - theta[0]), jnp.zeros(len(x))))
    federation = ns.Federation.from_clients([x[:1], x[1:]], test=x)
    for places, lowest in (([0.0], 0.0), ([0.0, 1.5, 1.0], 1.5), ([1.0, 0.0], 1.0)):
        exact = np.cos(lowest - x.astype(np.float64)).mean()
        found = estimates.strong_convexity(federation, model, [np.array([place]) for place in places])
        assert found == pytest.approx(exact, rel=2e-3)
    assert estimates.strong_convexity(federation, model, np.array([[0.0], [2.0]])) == 0.0


def test_all_ways_of_giving_the_models_are_one(model: ns.Model, thetas: list[Any]) -> None:
    flat = np.stack([np.concatenate([t["bias"], t["weights"].ravel()]) for t in thetas]).astype(np.float32)
    for given_as in (thetas, tuple(thetas), flat, jnp.asarray(flat), list(flat), [thetas[0], flat[1]]):
        np.testing.assert_array_equal(flat_models(model, given_as), flat)


def test_the_same_question_has_the_same_answer(federation: ns.Federation, model: ns.Model, thetas: list[Any]) -> None:
    drawn = federation.drawing("step", 4)
    first, second = (estimates.curvature(drawn, model, thetas[:1], draws=1) for _ in range(2))
    np.testing.assert_array_equal(first.highest, second.highest)


def programs(visited: Visited) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Every program that the estimators compile, and arguments for it."""
    curvature, noise, dissimilarity = (
        import_module(f"noshow.theory.estimates.{name}") for name in ("curvature", "noise", "dissimilarity")
    )
    arrays, theta = visited.arrays, visited.thetas[0]
    return [
        (curvature._client_product(visited), (arrays, theta, 0, theta)),
        (curvature._batch_product(visited, 0), (arrays, theta, 0, 0, theta)),
        (curvature._global_product(visited), (arrays, theta, theta)),
        (noise._spreads(visited), (arrays, np.arange(3), theta)),
        (dissimilarity._comparison(visited), (arrays, theta)),
    ]


def test_no_program_holds_the_data(federation: ns.Federation, model: ns.Model, thetas: list[Any]) -> None:
    """They are arguments: a program with data in it would be compiled anew for every federation, and hold a copy."""
    for program, arguments in programs(visit(federation.drawing("round", 4), model, thetas)):
        constants = jax.make_jaxpr(program)(*arguments).consts
        assert sum(np.size(constant) for constant in constants) < 32


@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 100),
    st.lists(st.floats(1, 20), min_size=1, max_size=4).map(sorted),
)
def test_the_frontier_is_where_the_assumption_begins_to_hold(t: int, m: int, seed: int, wanted: list[float]) -> None:
    rng = np.random.default_rng(seed)
    gradients, weights = rng.normal(size=(t, m, 3)), rng.dirichlet(np.ones(m))
    mean = np.einsum("m,tmd->td", weights, gradients)
    distances = np.sum((gradients - mean[:, None]) ** 2, -1)
    frontier = estimates.Dissimilarity(distances, np.sum(mean**2, -1), weights).frontier(wanted)
    assert np.all(np.diff(frontier) <= 0)
    for b, g in zip(wanted, frontier, strict=True):
        excess = np.sum(gradients**2, -1) @ weights - b**2 * np.sum(mean**2, -1) - g**2
        assert excess.max() <= 1e-9 * (1 + b**2)
        assert g == 0 or excess.max() >= -1e-9 * (1 + b**2)


def test_nonsense_gets_a_sentence(federation: ns.Federation, model: ns.Model) -> None:
    one = np.zeros((1, D))
    with pytest.raises(NoshowError, match="draws is -1: give 0"):
        estimates.curvature(federation, model, one, draws=-1)
    with pytest.raises(NoshowError, match="draws is 2, but the clients of 'small' draw no batches"):
        estimates.curvature(federation, model, one, draws=2)
    for nothing in ([], np.zeros((0, D)), np.zeros(D), model.init(jax.random.key(0)), 3.0):
        with pytest.raises(NoshowError, match=r"thetas holds no list of models: give an array \[models, parameters\]"):
            estimates.dissimilarity(federation, model, nothing)
    transposed = {"bias": np.zeros(3), "weights": np.zeros((4, 3))}
    for odd in (np.zeros(14), transposed, 1.0):
        with pytest.raises(NoshowError, match="theta number 1 does not fit the model 'logistic': give a flat array of"):
            estimates.gradient_noise(federation, model, [np.zeros(D), odd])
    with pytest.raises(NoshowError, match="theta number 1 is not finite: leave out models that have diverged"):
        estimates.strong_convexity(federation, model, [np.zeros(D), np.full(D, np.nan)])
    with pytest.raises(NoshowError, match=r"B is 0\.5: give a finite number, at least 1"):
        estimates.Dissimilarity(np.ones((1, 1)), np.ones(1), np.ones(1)).frontier([2.0, 0.5])
    with pytest.raises(NoshowError, match=r"the model 'logistic' cannot read the data of 'small'"):
        estimates.dissimilarity(federation, ns.models.logistic(features=5, classes=3), np.zeros((1, 18)))


def test_losses_that_overflow_get_a_sentence() -> None:
    """x^4 of 1e12 is beyond float32."""
    model = ns.Model(lambda key: jnp.zeros(1), lambda theta, x: ((x[:, 0] * theta[0]) ** 4, jnp.zeros(len(x))))
    tame, wild = np.ones((2, 1), np.float32), np.array([[1.0], [1e12]], np.float32)
    federation = ns.Federation.from_clients([tame, wild], test=tame).drawing("round", 1)
    places = np.array([[0.5], [2.0]])
    for estimator, what in (
        (estimates.curvature, "client 1 has no finite Hessian at theta number 0"),
        (estimates.strong_convexity, "F has no finite Hessian at theta number 0"),
        (estimates.gradient_noise, "client 1 has no finite gradient noise at theta number 0"),
        (estimates.dissimilarity, "client 0 has no finite gradient at theta number 0"),
    ):
        with pytest.raises(NoshowError, match=what + ": leave out models that have diverged"):
            estimator(federation, model, places)  # type: ignore[operator]
