from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from noshow.models.lstm import look_up, project, recur


def plain(inputs: jax.Array, recurrent: jax.Array) -> jax.Array:
    """The textbook loop; its gradient is autodiff's."""

    def step(state: tuple, into: jax.Array) -> tuple:
        hidden, cell = state
        i, f, g, o = jnp.split(into + hidden @ recurrent, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    nothing = jnp.zeros((inputs.shape[1], recurrent.shape[0]))
    return lax.scan(step, (nothing, nothing), inputs)[1]


@partial(jax.jit, static_argnums=0)
def pulled(function, inputs: jax.Array, recurrent: jax.Array, upstream: jax.Array) -> tuple:
    states, pull = jax.vjp(function, inputs, recurrent)
    return states, *pull(upstream)


def problem(steps: int, n: int, h: int, seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    shapes = (steps, n, 4 * h), (h, 4 * h), (steps, n, h)
    return tuple(jnp.float32(rng.normal(size=shape)) for shape in shapes)


@settings(max_examples=10)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_states_and_gradients_are_those_of_the_plain_loop(steps: int, n: int, h: int, seed: int) -> None:
    arrays = problem(steps, n, h, seed)
    for ours, theirs in zip(pulled(recur, *arrays), pulled(plain, *arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_clients_with_weights_of_their_own() -> None:
    clients = [problem(5, 3, 4, seed) for seed in range(3)]
    stacked = [jnp.stack(arrays) for arrays in zip(*clients, strict=True)]
    together = jax.vmap(partial(pulled, recur))(*stacked)
    for client, arrays in enumerate(clients):
        for ours, theirs in zip(together, pulled(plain, *arrays), strict=True):
            np.testing.assert_allclose(ours[client], theirs, rtol=1e-4, atol=1e-5)


def test_two_steps_by_hand() -> None:
    """One unit, no recurrence: the cell adds up sigmoid(0) tanh(1) and forgets half of it."""
    inputs = jnp.zeros((2, 1, 4)).at[:, 0, 2].set(1.0)
    cells = [0.5 * np.tanh(1.0), 0.75 * np.tanh(1.0)]
    np.testing.assert_allclose(recur(inputs, jnp.zeros((1, 4)))[:, 0, 0], 0.5 * np.tanh(cells), rtol=1e-6)


def test_loops_hold_one_product_each() -> None:
    """Forwards h W, backwards da W^T: the weights' gradient is one product after the loop."""
    inputs, recurrent, upstream = problem(7, 2, 3, 0)
    program = jax.make_jaxpr(lambda *arrays: jax.vjp(recur, *arrays)[1](upstream))(inputs, recurrent)
    loops = [equation for equation in program.jaxpr.eqns if equation.primitive.name == "scan"]
    products = [str(loop.params["jaxpr"]).count("dot_general") for loop in loops]
    assert products == [1, 1]
    assert sum(equation.primitive.name == "dot_general" for equation in program.jaxpr.eqns) == 1


@settings(max_examples=10)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_look_up_and_its_gradient(steps: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, codes, upstream = rng.normal(size=(5, 3)), rng.integers(0, 5, (steps, n)), rng.normal(size=(steps, n, 3))
    rows, pull = jax.vjp(lambda table: look_up(table, jnp.int32(codes)), jnp.float32(table))
    expected = np.zeros((5, 3))
    np.add.at(expected, codes, upstream)
    np.testing.assert_array_equal(rows, np.float32(table)[codes])
    np.testing.assert_allclose(pull(jnp.float32(upstream))[0], expected, rtol=1e-4, atol=1e-5)


def test_look_up_scatters_nothing() -> None:
    """A scatter on a GPU adds in an order that changes from run to run."""
    program = jax.make_jaxpr(jax.grad(lambda table: look_up(table, jnp.zeros((2, 3), jnp.int32)).sum()))(
        jnp.ones((4, 5))
    )
    assert "scatter" not in str(program)


def test_project_and_its_gradient() -> None:
    rng = np.random.default_rng(0)
    x, weights, bias = (jnp.float32(rng.normal(size=shape)) for shape in ((3, 4, 5), (5, 8), (8,)))
    upstream = jnp.float32(rng.normal(size=(3, 4, 8)))
    terms, pull = jax.vjp(project, x, weights, bias)
    expected, expected_pull = jax.vjp(lambda x, weights, bias: x @ weights + bias, x, weights, bias)
    np.testing.assert_allclose(terms, expected, rtol=1e-6)
    for ours, theirs in zip(pull(upstream), expected_pull(upstream), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
