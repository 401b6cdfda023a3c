"""Server rules on cases worked out by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns

THETA = jnp.array([1.0, 1.0])
RATE = jnp.float32(0.5)


def replies(answered: list[bool], sends: str = "displacement") -> ns.Replies:
    """Clients 3, 1 and 0 of four were sampled."""
    return ns.Replies(
        vectors=jnp.array([[1.0, 0.0], [0.0, 2.0], [4.0, 4.0]]),
        ids=jnp.array([3, 1, 0]),
        answered=jnp.array(answered),
        weights=jnp.array([0.4, 0.2, 0.1]),
        all_weights=jnp.array([0.1, 0.2, 0.3, 0.4]),
        key=jax.random.key(0),
        sends=sends,  # type: ignore[arg-type]
    )


def test_average_divides_by_the_weight_that_answered() -> None:
    _, theta = ns.servers.average().step(None, THETA, replies([True, True, False]), RATE)
    np.testing.assert_allclose(theta, [1 + 0.4 / 0.6, 1 + 0.2 / 0.6 * 2], rtol=1e-6)


def test_average_stays_when_nobody_answered() -> None:
    _, theta = ns.servers.average().step(None, THETA, replies([False] * 3), RATE)
    assert theta.tolist() == [1.0, 1.0]


def test_amplify_adds_beta_times_the_weighted_replies() -> None:
    _, theta = ns.servers.amplify(beta=2).step(None, THETA, replies([True, True, False]), RATE)
    np.testing.assert_allclose(theta, [1 + 2 * 0.4, 1 + 2 * 0.4], rtol=1e-6)


def test_amplify_by_default_is_m_over_k() -> None:
    _, theta = ns.servers.amplify().step(None, THETA, replies([True, False, False]), RATE)
    np.testing.assert_allclose(theta, [1 + 4 / 3 * 0.4, 1], rtol=1e-6)


def test_remember_keeps_the_last_direction_and_starts_from_zero() -> None:
    server = ns.servers.remember(ns.aggregators.mean())
    state = server.init(2, 4)
    state, theta = server.step(state, THETA, replies([True, False, False]), RATE)
    np.testing.assert_allclose(state, [[0, 0], [0, 0], [0, 0], [-2, 0]])  # G = -reply / rate
    np.testing.assert_allclose(theta, [1 + 0.4, 1], rtol=1e-6)
    state, theta = server.step(state, theta, replies([False, True, False]), RATE)
    np.testing.assert_allclose(state, [[0, 0], [0, -4], [0, 0], [-2, 0]])
    np.testing.assert_allclose(theta, [1 + 0.8, 1 + 0.4], rtol=1e-6)


def test_gradients_are_subtracted() -> None:
    server = ns.servers.remember(ns.aggregators.mean())
    _, theta = server.step(server.init(2, 4), THETA, replies([True, False, False], "gradient"), RATE)
    np.testing.assert_allclose(theta, [1 - 0.5 * 0.4, 1], rtol=1e-6)
    _, theta = ns.servers.average().step(None, THETA, replies([True, False, False], "gradient"), RATE)
    np.testing.assert_allclose(theta, [1 - 0.5, 1], rtol=1e-6)


def test_rows_that_did_not_arrive_are_never_read() -> None:
    poisoned = replies([True, False, False])
    poisoned = ns.Replies(
        poisoned.vectors.at[1:].set(jnp.nan),
        poisoned.ids,
        poisoned.answered,
        poisoned.weights,
        poisoned.all_weights,
        poisoned.key,
    )
    for server in (ns.servers.average(), ns.servers.amplify(), ns.servers.remember(ns.aggregators.geometric_median())):
        _, theta = server.step(server.init(2, 4), THETA, poisoned, RATE)
        assert np.isfinite(theta).all()


def test_beta_below_one() -> None:
    with pytest.raises(ns.NoshowError, match=r"beta is 0\.5"):
        ns.servers.amplify(0.5)
