"""All estimators on quadratics, whose constants are known: example k has the loss theta' A_k theta / 2 - c_k theta."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns
from noshow.local import draw_batch, step_key
from noshow.randomness import Purpose, round_key
from noshow.theory import Problem, conditions, estimates

D = 5
HELD = (1, 3, 200, 6)  # 200 is more than one tile


def quadratic(d: int = D) -> ns.Model:
    def measure(theta: Any, batch: Any) -> Any:
        hessians, slopes = batch
        losses = 0.5 * jnp.einsum("nij,i,j->n", hessians, theta, theta) - slopes @ theta
        return losses, jnp.zeros(len(slopes))

    return ns.Model(lambda key: jnp.zeros(d), measure, "quadratic")


def examples(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    half = rng.normal(size=(n, D, D)) / D
    hessians = half + half.swapaxes(1, 2) + np.diag(rng.uniform(-0.5, 2, D))
    return hessians.astype(np.float32), rng.normal(size=(n, D)).astype(np.float32)


@pytest.fixture(scope="module")
def clients() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [examples(rng, n) for n in HELD]


@pytest.fixture(scope="module")
def federation(clients: list[tuple[np.ndarray, np.ndarray]]) -> ns.Federation:
    return ns.Federation.from_clients(clients, test=clients[0], name="quadratics")


@pytest.fixture(scope="module")
def thetas() -> np.ndarray:
    """The one farthest out stands in the middle."""
    return np.random.default_rng(2).normal(size=(3, D)).astype(np.float32)[[1, 0, 2]]


def gradients(client: tuple[np.ndarray, np.ndarray], theta: np.ndarray) -> np.ndarray:
    """Of each example, in float64 [n, d]."""
    hessians, slopes = (part.astype(np.float64) for part in client)
    return hessians @ theta.astype(np.float64) - slopes


def diagonal_federation(*curvatures: list[float]) -> ns.Federation:
    """Clients of one example each, with diagonal Hessians."""
    data = [(np.diag(row)[None].astype(np.float32), np.ones((1, len(row)), np.float32)) for row in curvatures]
    return ns.Federation.from_clients(data, test=data[0])


def test_curvature_of_each_client(
    clients: list[tuple[np.ndarray, np.ndarray]], federation: ns.Federation, thetas: np.ndarray
) -> None:
    exact = np.array([np.linalg.eigvalsh(hessians.astype(np.float64).mean(0)) for hessians, _ in clients])
    found = estimates.curvature(federation, quadratic(), thetas)
    np.testing.assert_allclose(found.highest, np.tile(exact[:, -1], (3, 1)), rtol=1e-4)
    np.testing.assert_allclose(found.lowest, np.tile(exact[:, 0], (3, 1)), rtol=1e-4)
    assert exact[:, 0].min() < -0.1
    np.testing.assert_allclose(found.L, np.abs(exact).max(), rtol=1e-4)
    assert found.L_minus == pytest.approx(-exact.min(), rel=1e-4)


def test_the_downward_curvature_can_be_the_largest() -> None:
    found = estimates.curvature(diagonal_federation([-3.0, 1.0], [0.5, 2.0]), quadratic(2), np.zeros((1, 2)))
    np.testing.assert_allclose(found.L, 3, rtol=1e-5)
    assert found.L_minus == pytest.approx(3, rel=1e-5)


def test_curvatures_that_take_many_steps() -> None:
    """Evenly spread from -2 to 3: after the first look, at 8 steps, both ends are still off by several per cent."""
    rows = [np.linspace(low, 3.0, 100).tolist() for low in (-2.0, 1.0)]
    found = estimates.curvature(diagonal_federation(*rows), quadratic(100), np.zeros((1, 100)))
    np.testing.assert_allclose(found.lowest, [[-2.0, 1.0]], atol=3e-3)
    np.testing.assert_allclose(found.highest, [[3.0, 3.0]], atol=3e-3)


def test_rounding_is_no_downward_curvature() -> None:
    """The flat client's -1e-6 is large beside its own curvature, but not beside the other client's."""
    found = estimates.curvature(diagonal_federation([-1e-6, 1e-3], [1.0, 2.0]), quadratic(2), np.zeros((1, 2)))
    assert found.L_minus == 0.0


@pytest.mark.parametrize("batches", ["round", "step"])
def test_curvature_of_the_batches_that_a_run_draws(
    clients: list[tuple[np.ndarray, np.ndarray]], federation: ns.Federation, batches: Any
) -> None:
    size, draws, seed = 2, 3, 7
    found = estimates.curvature(
        federation.drawing(batches, size), quadratic(), np.zeros((1, D)), draws=draws, seed=seed
    )
    for client, (hessians, _) in enumerate(clients):
        seen = [hessians.mean(0)]
        for t in range(draws):
            key = jax.random.fold_in(round_key(seed, t, Purpose.BATCHES), client)
            rows, weights = draw_batch(jnp.asarray(HELD[client]), size, step_key(key, batches, 0))
            seen.append(np.tensordot(np.asarray(weights), hessians[np.asarray(rows)], 1))
        exact = np.linalg.eigvalsh(np.array(seen, np.float64))
        assert found.highest[0, client] == pytest.approx(exact.max(), rel=1e-4)
        assert found.lowest[0, client] == pytest.approx(exact.min(), rel=1e-4)
    assert found.L > 1.1 * estimates.curvature(federation, quadratic(), np.zeros((1, D))).L


def test_strong_convexity_is_that_of_the_weighted_sum() -> None:
    """A drawn batch size weighs the clients alike, so F's Hessian is not the mean over all examples."""
    rng = np.random.default_rng(3)
    parts = [examples(rng, n) for n in (2, 9)]
    shifted = [(hessians + np.diag([1, 1, 1, 1, 3]).astype(np.float32), slopes) for hessians, slopes in parts]
    federation = ns.Federation.from_clients(shifted, test=shifted[0])
    means = np.array([hessians.astype(np.float64).mean(0) for hessians, _ in shifted])
    for drawn, weights in ((federation, [2 / 11, 9 / 11]), (federation.drawing("round", 2), [0.5, 0.5])):
        exact = np.linalg.eigvalsh(np.tensordot(weights, means, 1))[0]
        assert exact > 0.1
        assert estimates.strong_convexity(drawn, quadratic(), np.zeros((1, D))) == pytest.approx(exact, rel=2e-3)


def test_strong_convexity_of_an_ill_conditioned_sum() -> None:
    """One example in the whole federation, and as many steps as parameters."""
    spectrum = np.geomspace(1e-3, 1.0, 60)
    rotation, _ = np.linalg.qr(np.random.default_rng(4).normal(size=(60, 60)))
    hessian = (rotation * spectrum @ rotation.T).astype(np.float32)[None]
    data = [(hessian, np.ones((1, 60), np.float32))]
    federation = ns.Federation.from_clients(data, test=data[0])
    assert estimates.strong_convexity(federation, quadratic(60), np.zeros((1, 60))) == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize("spectrum", [[0.0, 1.0], [-0.5, 1.0], [1e-7, 1.0]])
def test_what_is_not_strongly_convex_has_mu_zero(spectrum: list[float]) -> None:
    assert estimates.strong_convexity(diagonal_federation(spectrum), quadratic(2), np.zeros((1, 2))) == 0.0


def test_noise_against_every_batch(clients: list[tuple[np.ndarray, np.ndarray]], thetas: np.ndarray) -> None:
    size, small = 3, [clients[0], clients[1], clients[3]]
    federation = ns.Federation.from_clients(small, test=small[0]).drawing("round", size)
    found = estimates.gradient_noise(federation, quadratic(), thetas)
    exact = np.zeros((len(thetas), len(small)))
    for row, theta in zip(exact, thetas, strict=True):
        for i, client in enumerate(small):
            each = gradients(client, theta)
            batches = combinations(range(len(each)), min(size, len(each)))
            strays = [np.sum((each[list(batch)].mean(0) - each.mean(0)) ** 2) for batch in batches]
            row[i] = np.mean(strays)
    np.testing.assert_allclose(found.variances, exact, rtol=1e-5)
    assert exact[0, :2].tolist() == [0.0, 0.0]
    assert exact[:, 2].argmax() == 1
    np.testing.assert_allclose(found.sigmas, np.sqrt(exact.max(0)), rtol=1e-5)
    assert found.sigma == pytest.approx(np.sqrt(3 / 7 * exact[:, 2].max()), rel=1e-5)


@pytest.mark.parametrize("batches", ["round", "step"])
def test_noise_of_a_client_with_more_than_a_tile(
    clients: list[tuple[np.ndarray, np.ndarray]], federation: ns.Federation, thetas: np.ndarray, batches: Any
) -> None:
    """From the chances that one example, and that two, are in the batch: 70/200 and (70 * 69)/(200 * 199)."""
    n, total = 70, HELD[2]
    each = gradients(clients[2], thetas[0])
    one, two = n / total, n * (n - 1) / (total * (total - 1))
    covariance = np.full((total, total), two - one**2)
    np.fill_diagonal(covariance, one - one**2)
    exact = np.sum(covariance * (each @ each.T)) / n**2
    found = estimates.gradient_noise(federation.drawing(batches, n), quadratic(), thetas[:1])
    assert found.variances[0, 2] == pytest.approx(exact, rel=1e-4)


def test_noise_far_smaller_than_the_gradient() -> None:
    """Squared gradients of 1e8 differ by less than float32 can tell; their deviations do not."""
    slopes = (1e4 + np.array([0.0, 0.25, 0.5, 1.0]))[:, None].astype(np.float32)
    data = [(np.zeros((4, 1, 1), np.float32), slopes)]
    federation = ns.Federation.from_clients(data, test=data[0]).drawing("round", 1)
    found = estimates.gradient_noise(federation, quadratic(1), np.zeros((1, 1)))
    assert found.variances[0, 0] == pytest.approx(np.var([0.0, 0.25, 0.5, 1.0]), rel=1e-5)


def test_full_batches_have_no_noise(federation: ns.Federation, thetas: np.ndarray) -> None:
    for drawn in (federation, federation.drawing("round", 200)):
        found = estimates.gradient_noise(drawn, quadratic(), thetas)
        assert found.sigma == 0.0
        assert not found.variances.any()


@pytest.mark.parametrize("batch_size", [None, 2])
def test_frontier(
    clients: list[tuple[np.ndarray, np.ndarray]],
    federation: ns.Federation,
    thetas: np.ndarray,
    batch_size: int | None,
) -> None:
    drawn = federation if batch_size is None else federation.drawing("round", batch_size)
    sizes = np.minimum(HELD, batch_size or max(HELD))
    weights = sizes / sizes.sum()
    each = np.array([[gradients(client, theta).mean(0) for client in clients] for theta in thetas])
    square_mean = np.sum(np.tensordot(weights, each, (0, 1)) ** 2, -1)
    mean_square = np.sum(each**2, -1) @ weights
    wanted = [1.0, 1.01, 1.02, 4.0, 100.0]
    exact = [np.sqrt(max(0, *(mean_square - b**2 * square_mean))) for b in wanted]
    assert exact[0] > exact[2] > 0 == exact[-1]
    found = estimates.dissimilarity(drawn, quadratic(), thetas)
    np.testing.assert_allclose(found.frontier(wanted), exact, rtol=1e-4)
    assert float(found.frontier(1.01)) == pytest.approx(exact[1], rel=1e-4)


def test_clients_that_agree_have_no_dissimilarity() -> None:
    one = examples(np.random.default_rng(5), 4)
    federation = ns.Federation.from_clients([one, one, one], test=one)
    found = estimates.dissimilarity(federation, quadratic(), np.full((1, D), 10.0))
    assert float(found.frontier(1.0)) <= 1e-6 * np.sqrt(found.square_norms[0])
    assert found.square_norms[0] > 1


def test_rows_that_refer_to_shared_arrays(
    clients: list[tuple[np.ndarray, np.ndarray]], federation: ns.Federation, thetas: np.ndarray
) -> None:
    """The same examples, stored as places in a table that is read from its end."""
    table = jax.tree.map(lambda leaf: leaf[::-1].copy(), federation.data)
    places = np.arange(sum(HELD), dtype=np.int32)[::-1].copy()
    told = ns.Federation(
        places, np.array(HELD), places[:1], shared=table, read=lambda shared, at: jax.tree.map(lambda a: a[at], shared)
    )
    for estimator in (estimates.curvature, estimates.gradient_noise, estimates.dissimilarity):
        near, far = (estimator(f.drawing("round", 2), quadratic(), thetas[:1]) for f in (federation, told))
        for ours, theirs in zip(near, far, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_everything_together(federation: ns.Federation, thetas: np.ndarray) -> None:
    drawn = federation.drawing("round", 2)
    found = estimates.estimate(drawn, quadratic(), thetas, draws=2, seed=3)
    bent = estimates.curvature(drawn, quadratic(), thetas, draws=2, seed=3)
    noise = estimates.gradient_noise(drawn, quadratic(), thetas)
    spread = estimates.dissimilarity(drawn, quadratic(), thetas)
    assert (found.L, found.L_minus, found.sigma) == (bent.L, bent.L_minus, noise.sigma)
    assert found.mu == estimates.strong_convexity(drawn, quadratic(), thetas)
    np.testing.assert_array_equal(found.sigmas, noise.sigmas)
    np.testing.assert_array_equal(found.frontier([1.0, 2.0]), spread.frontier([1.0, 2.0]))
    problem = found.problem(B=[1.0, 2.0], epsilon=0.01, K=2, s=3)
    assert isinstance(problem, Problem)
    assert (float(problem.L), float(problem.L_minus), float(problem.sigma)) == (found.L, found.L_minus, found.sigma)
    assert [float(problem.M), float(problem.K), float(problem.s), float(problem.beta)] == [4, 2, 3, 2]
    np.testing.assert_array_equal(problem.G, spread.frontier([1.0, 2.0]))
    np.testing.assert_array_equal(problem.B, [1.0, 2.0])
    amplified = found.problem(B=1.5, epsilon=0.0, K=4, beta=1.25)
    assert float(amplified.beta) == 1.25
    assert len(conditions(amplified, "fedprox", "non-convex")) == 2


@pytest.mark.parametrize("clients", [2, 7, 13])
def test_one_curvature_everywhere_still_makes_a_problem(clients: int) -> None:
    """L = mu, and rounded weights, whose sum over 7 and 13 clients is a little above 1, must not put mu above L."""
    found = estimates.estimate(diagonal_federation(*[[0.7]] * clients), quadratic(1), np.zeros((1, 1)))
    problem = found.problem(B=1.0, epsilon=0.0, K=1)
    assert float(problem.L) == pytest.approx(0.7, rel=1e-6)
    assert float(problem.mu) == pytest.approx(0.7, rel=1e-6)
    assert float(problem.L_minus) == 0.0
