"""FedProx's exact minimiser: closed forms, SciPy's minimiser, and the paper's lemma on how far it is from one step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize
from scipy.special import expit

import noshow as ns
from noshow.newton import stationary_point
from noshow.spec import realise, validate


class Quadratic:
    """l(z) = z^T A z / 2 - b^T z; only the first step's batch may be asked for."""

    def __init__(self, curvature: np.ndarray | jax.Array, slope: np.ndarray | jax.Array) -> None:
        self.curvature, self.slope = jnp.asarray(curvature, jnp.float32), jnp.asarray(slope, jnp.float32)

    def loss(self, theta: jax.Array, step: int | jax.Array = 0) -> jax.Array:
        return 0.5 * theta @ self.curvature @ theta - self.slope @ theta

    def gradient(self, theta: jax.Array, step: int | jax.Array = 0) -> jax.Array:
        assert step == 0, "the minimiser is that of one batch"
        return self.curvature @ theta - self.slope


@jax.jit
def on_a_quadratic(curvature: np.ndarray, slope: np.ndarray, theta: np.ndarray, rate: float) -> ns.Work:
    """The client's work in round t with eta_t = rate."""
    local = Quadratic(curvature, slope)
    return ns.clients.exact_prox(1e-6).reply(local, jnp.asarray(theta, jnp.float32), None, jnp.float32(rate))


def random_quadratic(
    seed: int, lowest: float, highest: float, d: int = 12
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix with eigenvalues from lowest to highest, both met; a slope; a theta."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    values = np.concatenate([[lowest, highest], rng.uniform(lowest, highest, d - 2)])
    return (basis * values) @ basis.T, rng.normal(size=d), rng.normal(size=d)


@pytest.mark.parametrize("rate", [1e-4, 0.01, 1.0, 30.0])
@pytest.mark.parametrize(("lowest", "highest"), [(0.5, 50.0), (0.0, 1.0), (-0.02, 2.0)])
def test_the_closed_form_on_quadratics(lowest: float, highest: float, rate: float) -> None:
    """(A + 1/eta) (z - theta) = b - A theta, also where l itself is not convex, as long as eta < 1/L_-."""
    curvature, slope, theta = random_quadratic(1, lowest, highest)
    expected = np.linalg.solve(curvature + np.eye(12) / rate, slope - curvature @ theta)
    work = on_a_quadratic(curvature, slope, theta, rate)
    np.testing.assert_allclose(work.reply, expected, atol=3e-5 * np.linalg.norm(expected))
    # At the minimiser the proximal pull is the gradient there: (theta - z) / eta = grad l(z).
    at_end = curvature @ (theta + expected) - slope
    np.testing.assert_allclose(work.gradients, at_end, atol=3e-5 * np.linalg.norm(expected) / rate)
    assert work.memory is None


@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0.001, 0.9), st.floats(0.1, 10))
@settings(max_examples=80)
def test_the_papers_lemma_on_the_distance_from_one_gradient_step(
    seed: int, concavity: float, reach: float, smoothness: float
) -> None:
    """||theta - z - eta grad l(theta)|| <= eta^2 L / (1 - eta L_-) ||grad l(theta)|| for eta < 1 / L_-."""
    below = concavity * smoothness
    curvature, slope, theta = random_quadratic(seed, -below, smoothness, d=5)
    rate = reach / max(below, smoothness)
    reply = np.asarray(on_a_quadratic(curvature, slope, theta, rate).reply, np.float64)
    gradient = curvature @ theta - slope
    bound = rate**2 * smoothness / (1 - rate * below) * np.linalg.norm(gradient)
    rounding = 3e-5 * rate / (1 - rate * below) * np.linalg.norm(gradient)
    assert np.linalg.norm(-reply - rate * gradient) <= bound + rounding


def test_a_small_rate_is_one_gradient_step() -> None:
    curvature, slope, theta = random_quadratic(2, 0.1, 3.0)
    for rate in (1e-3, 1e-6, 1e-9):  # far below what a difference of parameters could tell apart
        work = on_a_quadratic(curvature, slope, theta, rate)
        np.testing.assert_allclose(
            work.reply / rate, slope - curvature @ theta, rtol=max(10 * rate, 1e-5) * 4, atol=1e-5
        )


class Logistic:
    """Mean of log(1 + exp(-y x^T z)) over a client's own examples."""

    def __init__(self, x: np.ndarray | jax.Array, y: np.ndarray | jax.Array) -> None:
        self.x, self.y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)

    def loss(self, theta: jax.Array, step: int | jax.Array = 0) -> jax.Array:
        return jnp.logaddexp(0.0, -self.y * (self.x @ theta)).mean()

    def gradient(self, theta: jax.Array, step: int | jax.Array = 0) -> jax.Array:
        return -(self.y * jax.nn.sigmoid(-self.y * (self.x @ theta))) @ self.x / len(self.y)


@jax.jit
def on_logistic(x: np.ndarray, y: np.ndarray, theta: np.ndarray, rate: float) -> jax.Array:
    work = ns.clients.exact_prox(1e-6).reply(Logistic(x, y), jnp.asarray(theta, jnp.float32), None, jnp.float32(rate))
    return work.reply


@pytest.mark.parametrize("rate", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("far", [0.0, 8.0])
def test_logistic_regression_against_scipy(rate: float, far: float) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(60, 5)) * [1, 2, 3, 0.5, 1], rng.choice([-1.0, 1.0], 60)
    theta = far * rng.normal(size=5)

    def proximal(z: np.ndarray) -> tuple[float, np.ndarray]:
        margins = y * (x @ z)
        value = np.logaddexp(0, -margins).mean() + np.sum((z - theta) ** 2) / (2 * rate)
        return value, -(y * expit(-margins)) @ x / 60 + (z - theta) / rate

    best = minimize(proximal, theta, jac=True, method="BFGS", options={"gtol": 1e-10}).x
    reply = np.asarray(on_logistic(x, y, theta, rate), np.float64)
    np.testing.assert_allclose(reply, best - theta, rtol=1e-3, atol=1e-4 * np.linalg.norm(best - theta))
    assert np.linalg.norm(proximal(theta + reply)[1]) <= 1e-4 * np.linalg.norm(proximal(theta)[1])


def regression(clients: list[int]) -> ns.Federation:
    rng = np.random.default_rng(0)

    def client(size: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.normal(size=(size, 4)).astype(np.float32), rng.normal(size=size).astype(np.float32)

    return ns.Federation.from_clients([client(size) for size in clients], test=client(5))


LEAST_SQUARES = ns.Model(
    lambda key: jnp.ones(4), lambda w, batch: (0.5 * jnp.square(batch[0] @ w - batch[1]), jnp.zeros(len(batch[1])))
)


def test_a_round_of_a_federation_by_the_normal_equations() -> None:
    """Full batches in tiles; one client outweighs the others, so that several devices share its work."""
    federation = regression([30, 5000, 40, 300])
    algorithm = ns.algorithms.exact_fedprox_variant(rate=0.5, beta=3.0)
    history = ns.simulate(federation, LEAST_SQUARES, algorithm, sampled=4, rounds=1)
    expected = np.ones(4)
    for client, weight in enumerate(federation.weights):
        x, y = (np.asarray(part, np.float64) for part in federation.of_client(client))
        expected += 3 * weight * np.linalg.solve(x.T @ x / len(y) + 2 * np.eye(4), x.T @ (y - x @ np.ones(4)) / len(y))
    np.testing.assert_allclose(ravel_pytree(history.models[0])[0], expected, rtol=1e-4, atol=1e-5)


def test_the_servers_of_the_two_algorithms() -> None:
    """One of two clients, of weights 0.1 and 0.3, answers 4: the average is 4, the amplified sum 2 * 0.3 * 4."""
    answers = (jnp.full((2, 1), 4.0), jnp.arange(2), jnp.array([False, True]), jnp.array([0.1, 0.3]))
    replies = ns.Replies(*answers, jnp.full(4, 0.25), jax.random.key(0))
    for algorithm, step in ((ns.algorithms.exact_fedprox(0.1), 4.0), (ns.algorithms.exact_fedprox_variant(0.1), 2.4)):
        assert algorithm.server.step(None, jnp.zeros(1), replies, jnp.float32(0.1))[1].item() == pytest.approx(step)


def test_the_tolerance_is_kept_and_bought() -> None:
    """A rough tolerance ends early, a sharp one is met."""
    curvature, slope, theta = random_quadratic(7, 0.01, 100.0, d=40)

    def error(tolerance: float) -> float:
        reply = ns.clients.exact_prox(tolerance).reply
        work = reply(Quadratic(curvature, slope), jnp.asarray(theta, jnp.float32), None, jnp.float32(1.0))
        u = np.asarray(work.reply, np.float64)
        return float(np.linalg.norm(curvature @ (theta + u) - slope + u) / np.linalg.norm(curvature @ theta - slope))

    assert error(1e-5) <= 1.5e-5
    assert 1e-5 < error(0.3) <= 0.3


class TestNewton:
    def test_steps_are_shortened_where_whole_ones_would_diverge(self) -> None:
        """Newton's method on arctan from 3 goes 3, -9.5, 124, … unless its steps are cut."""
        assert abs(float(stationary_point(jnp.arctan, jnp.array([3.0]), 1e-6, steps=50)[0])) < 1e-5
        assert abs(3 - np.arctan(3) * (1 + 3**2)) > 3

    def test_no_more_steps_than_allowed(self) -> None:
        def cube(z: jax.Array) -> jax.Array:
            return z**3

        # Whole Newton steps on z^3 go from z to 2z/3; conjugate gradients are exact in one dimension.
        np.testing.assert_allclose(stationary_point(cube, jnp.array([1.0]), 1e-6, steps=1), [2 / 3], rtol=1e-5)
        np.testing.assert_allclose(stationary_point(cube, jnp.array([1.0]), 1e-6, steps=3), [8 / 27], rtol=1e-5)

    def test_a_stationary_start_stays(self) -> None:
        assert stationary_point(lambda z: 2 * z, jnp.zeros(3), 1e-6, steps=5).tolist() == [0.0] * 3

    def test_where_the_function_curves_down_the_norm_never_grows(self) -> None:
        """On cos, curved down at 0.5: no direction that conjugate gradients trust, so it stays."""
        assert stationary_point(lambda z: -jnp.sin(z), jnp.array([0.5]), 1e-6, steps=5).tolist() == [0.5]

        # Curved up in one direction and down in the other: what conjugate gradients found before they met the latter.
        def saddle(z: jax.Array) -> jax.Array:
            return jnp.array([4.0, -1.0]) * z

        end = stationary_point(saddle, jnp.array([1.0, 0.1]), 1e-6, steps=20)
        assert np.linalg.norm(saddle(end)) < 0.2 * np.linalg.norm(saddle(jnp.array([1.0, 0.1])))

    def test_what_is_not_a_number_is_not_hidden(self) -> None:
        assert np.isnan(stationary_point(lambda z: z * jnp.nan, jnp.ones(2), 1e-6, steps=5)).all()


def test_named_in_a_file() -> None:
    tables = [
        {"name": "exact_fedprox", "rate": 0.1},
        {"name": "exact_fedprox_variant", "rate": {"name": "inverse", "alpha": 1.0, "gamma": 10.0}, "beta": 2.0},
    ]
    spec = validate(
        {
            "name": "exact",
            "rounds": 2,
            "sampled": 4,
            "data": {"name": "synthetic", "clients": 8, "sizes": 20},
            "model": {"name": "logistic"},
            "algorithms": tables,
        }
    )
    assert spec.algorithms[0] == {"name": "exact_fedprox", "rate": 0.1, "tolerance": 1e-5, "newton_steps": 50}
    assert [algorithm.name for algorithm in realise(spec).algorithms] == ["exact_fedprox", "exact_fedprox_variant"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"tolerance": 0.0}, r"tolerance is 0\.0: give a number between 0 and 1"),
        ({"tolerance": 1.0}, r"tolerance is 1\.0"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"newton_steps": 0}, "newton_steps is 0: give 1 or more"),
    ],
)
def test_bad_settings(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        ns.clients.exact_prox(**settings)  # type: ignore[arg-type]
