"""A client's objective: ragged full batches and drawn batches against plain means."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns
from noshow.local import ClientData, RowRange, draw_batch, drawing, holdings, step_key, sum_over_tiles
from noshow.parameters import flat_losses, unraveller


def objective(
    federation: ns.Federation, model: ns.Model, client: int, tile: int = 16, length: int | None = None
) -> ClientData:
    arrays = jax.tree.map(jnp.asarray, holdings(federation))
    losses = flat_losses(model, unraveller(model))
    drawn = drawing(federation, model, tile)
    return ClientData(losses, drawn, arrays, jnp.asarray(client), jax.random.key(0), length=length)


@pytest.mark.parametrize(
    ("tile", "length", "cache"),
    # 20 bytes an example: laid out in one part, and in parts of 64.
    [
        pytest.param(1, None, 2**20, marks=pytest.mark.long),
        (7, None, 2**20),
        (10**6, None, 2**20),
        (1, 10**4, 2**20),
        (1, 200, 20 * 64),
    ],
)
def test_full_batches_are_the_mean_over_the_clients_own_data(
    federation: ns.Federation,
    model: ns.Model,
    tile: int,
    length: int | None,
    cache: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("noshow.local.CACHE_BYTES", cache)
    theta = jnp.linspace(-1, 1, 15)
    losses = flat_losses(model, unraveller(model))
    for client in (0, 5, 11):
        batch = jax.tree.map(jnp.asarray, federation.of_client(client))
        local = objective(federation, model, client, tile, length)
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


@pytest.mark.parametrize("length", [None, 5, 64])
def test_a_neighbours_nan_stays_with_the_neighbour(model: ns.Model, length: int | None) -> None:
    """A tile of 16 rows that starts in a client of 5 reaches into the next one's data."""
    sound = (np.ones((5, 4), np.float32), np.zeros(5, np.int32))
    broken = (np.full((40, 4), np.nan, np.float32), np.zeros(40, np.int32))
    theta = jnp.linspace(-1, 1, 15)
    alone = objective(ns.Federation.from_clients([sound], test=sound), model, 0, length=length)
    for clients, place in (([sound, broken], 0), ([broken, sound], 1)):
        beside = objective(ns.Federation.from_clients(clients, test=sound), model, place, length=length)
        np.testing.assert_allclose(beside.loss(theta), alone.loss(theta), rtol=1e-6)
        np.testing.assert_allclose(beside.gradient(theta), alone.gradient(theta), rtol=1e-5)


def test_no_batch_is_longer_than_the_largest_client(federation: ns.Federation, model: ns.Model) -> None:
    assert drawing(federation.drawing("step", 10**6), model, 16).batch_size == federation.held.max()


@pytest.mark.parametrize("batches", ["full", "round", "step"])
def test_the_model_measures_what_it_prepared(federation: ns.Federation, model: ns.Model, batches: str) -> None:
    def doubled(batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return 2 * batch[0], batch[1]

    drawn = federation.drawing(batches, 9)  # type: ignore[arg-type]
    twice = ns.Federation((2 * drawn.data[0], drawn.data[1]), drawn.held, drawn.test, drawn.batches, drawn.batch_size)
    theta = jnp.linspace(-1, 1, 15)
    prepared = objective(drawn, model._replace(prepare=doubled, brief=False), 5)
    np.testing.assert_allclose(prepared.loss(theta), objective(twice, model, 5).loss(theta), rtol=1e-6)


@pytest.mark.parametrize(("batches", "length", "times"), [("full", None, 0), ("full", 200, 1), ("round", None, 1)])
def test_a_brief_model_prepares_what_is_used_often(
    federation: ns.Federation, model: ns.Model, batches: str, length: int | None, times: int
) -> None:
    seen = []

    def prepare(batch: ns.Batch) -> ns.Batch:
        seen.append(batch)
        return batch

    local = objective(federation.drawing(batches, 9), model._replace(prepare=prepare), 5, length=length)  # type: ignore[arg-type]
    local.gradient(jnp.zeros(15)), local.gradient(jnp.ones(15))
    assert len(seen) == times


@pytest.mark.parametrize("batches", ["full", "round"])
def test_rows_are_read_before_the_model_sees_them(federation: ns.Federation, model: ns.Model, batches: str) -> None:
    """The same data as row numbers into shared arrays: same losses."""
    plain = federation.drawing(batches, 9)  # type: ignore[arg-type]
    rows = np.arange(len(plain.data[1]), dtype=np.int32)
    stored = ns.Federation(
        rows,
        plain.held,
        rows[:3],
        plain.batches,
        plain.batch_size,
        shared=plain.data,
        read=lambda shared, rows: jax.tree.map(lambda leaf: leaf[rows], shared),
    )
    theta = jnp.linspace(-1, 1, 15)
    for client in (0, 5):
        one, other = objective(plain, model, client), objective(stored, model, client)
        np.testing.assert_allclose(one.gradient(theta), other.gradient(theta), rtol=1e-6)
        assert all(map(np.array_equal, plain.of_client(client), stored.of_client(client)))


@pytest.mark.parametrize("examples", [1, 2, 5])
@pytest.mark.parametrize("tile", [1, 2, 128])
def test_sums_over_few_rows_are_not_lost_when_compiled(examples: int, tile: int) -> None:
    data = np.arange(1.0, examples + 1.0)

    @jax.jit
    def total(data: jax.Array) -> jax.Array:
        rows = RowRange(0, examples)
        return sum_over_tiles(lambda values, inside: jnp.dot(values, inside), data, rows, tile)

    assert float(total(data)) == data.sum()
