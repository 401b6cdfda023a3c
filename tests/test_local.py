"""A client's objective: ragged full batches and drawn batches against plain means."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns
from noshow.local import ClientData, Drawing, draw_batch, holdings, step_key
from noshow.parameters import flat_losses, unraveller


def objective(federation: ns.Federation, model: ns.Model, client: int, tile: int = 16, seed: int = 0) -> ClientData:
    drawing = Drawing(federation.batches, federation.batch_size or 0, tile)
    arrays = jax.tree.map(jnp.asarray, holdings(federation))
    return ClientData(flat_losses(model, unraveller(model)), drawing, arrays, jnp.asarray(client), jax.random.key(seed))


@pytest.mark.parametrize("tile", [1, 7, 16, 128, 10**6])
def test_full_batches_are_the_mean_over_the_clients_own_data(
    federation: ns.Federation, model: ns.Model, tile: int
) -> None:
    theta = jnp.linspace(-1, 1, 15)
    losses = flat_losses(model, unraveller(model))
    for client in (0, 5, 11):
        batch = jax.tree.map(jnp.asarray, federation.of_client(client))
        local = objective(federation, model, client, tile)
        np.testing.assert_allclose(local.loss(theta), losses(theta, batch).mean(), rtol=1e-5)
        expected = jax.grad(lambda theta, batch=batch: losses(theta, batch).mean())(theta)
        np.testing.assert_allclose(local.gradient(theta), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batches", ["round", "step"])
def test_drawn_batches_are_the_mean_over_the_draw(federation: ns.Federation, model: ns.Model, batches: str) -> None:
    drawn = federation.drawing(batches, 9)  # type: ignore[arg-type]
    theta = jnp.linspace(-1, 1, 15)
    losses = flat_losses(model, unraveller(model))
    smallest = int(np.argmin(federation.held))  # holds fewer than 9: draws all it has
    for client in (smallest, 5):
        local = objective(drawn, model, client)
        for step in (0, 1, 2):
            chosen, weights = draw_batch(drawn.held[client], 9, step_key(jax.random.key(0), batches, step))  # type: ignore[arg-type]
            rows = np.asarray(chosen)[np.asarray(weights) > 0]
            assert len(set(rows.tolist())) == min(9, drawn.held[client]) == drawn.sizes[client]
            batch = jax.tree.map(lambda leaf, rows=rows: jnp.asarray(leaf[rows]), drawn.of_client(client))
            np.testing.assert_allclose(local.loss(theta, step), losses(theta, batch).mean(), rtol=1e-5)


def test_round_keeps_its_batch_and_step_does_not(federation: ns.Federation, model: ns.Model) -> None:
    theta = jnp.linspace(-1, 1, 15)
    client = int(np.argmax(federation.held))
    kept = objective(federation.drawing("round", 9), model, client)
    fresh = objective(federation.drawing("step", 9), model, client)
    assert float(kept.loss(theta, 0)) == float(kept.loss(theta, 1))
    assert float(fresh.loss(theta, 0)) != float(fresh.loss(theta, 1))
