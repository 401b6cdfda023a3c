from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from noshow.errors import NoshowError
from noshow.models.convolution import banded, convolve


def by_hand(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """The definition, entry by entry, in float64."""
    k_rows, k_columns, _, c_out = kernel.shape
    rows, columns = x.shape[1] - k_rows + 1, x.shape[2] - k_columns + 1
    out = np.zeros((len(x), rows, columns, c_out))
    for r in range(rows):
        for s in range(columns):
            out[:, r, s] = np.einsum("nijc,ijco->no", x[:, r : r + k_rows, s : s + k_columns], kernel)
    return out


def library(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@st.composite
def problems(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, int]]:
    """Shapes of images and kernel, and blocks that tile the output."""
    count, c_in, c_out, k_rows, k_columns = (draw(st.integers(1, 3)) for _ in range(5))
    block = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rows, columns = block[0] * draw(st.integers(1, 3)), block[1] * draw(st.integers(1, 3))
    return (count, rows + k_rows - 1, columns + k_columns - 1, c_in), (k_rows, k_columns, c_in, c_out), block


@partial(jax.jit, static_argnums=3)
def both_ways(x: jax.Array, kernel: jax.Array, upstream: jax.Array, block: tuple[int, int]) -> tuple:
    """Our output, our gradients, and the library's gradients."""
    ours, pull = jax.vjp(lambda x, kernel: convolve(x, kernel, block), x, kernel)
    return ours, pull(upstream), jax.vjp(library, x, kernel)[1](upstream)


@settings(max_examples=12)
@given(problems(), st.integers(0, 2**32 - 1))
def test_is_the_sum_it_says_it_is_and_its_gradients_are_the_librarys(problem: tuple, seed: int) -> None:
    images, kernel, block = problem
    rng = np.random.default_rng(seed)
    x, k = rng.normal(size=images), rng.normal(size=kernel)
    expected = by_hand(x, k)
    ours, gradients, theirs = both_ways(x, k, rng.normal(size=expected.shape), block)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
    for mine, other in zip(gradients, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("block", [(1, 1), (1, 28), (2, 2), (4, 7), (28, 28)])
def test_every_block_gives_the_same_first_layer(block: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x, k = jnp.float32(rng.normal(size=(2, 32, 32, 3))), jnp.float32(rng.normal(size=(5, 5, 3, 6)))
    upstream = jnp.float32(rng.normal(size=(2, 28, 28, 6)))
    ours, gradients, theirs = both_ways(x, k, upstream, block)
    np.testing.assert_allclose(ours, library(x, k), rtol=1e-4, atol=1e-4)
    for mine, other in zip(gradients, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-3)


def test_clients_with_kernels_of_their_own() -> None:
    rng = np.random.default_rng(1)
    x, k = rng.normal(size=(3, 2, 6, 7, 2)), rng.normal(size=(3, 3, 2, 2, 4))
    together = jax.vmap(lambda x, k: convolve(x, k, (2, 3)))(jnp.float32(x), jnp.float32(k))
    for client in range(3):
        np.testing.assert_allclose(together[client], by_hand(x[client], k[client]), rtol=1e-4, atol=1e-5)


def test_bands_by_hand() -> None:
    row = jnp.array([1.0, 2.0]).reshape(1, 2, 1, 1)
    assert banded(row, (1, 3)).T.tolist() == [[1, 2, 0, 0], [0, 1, 2, 0], [0, 0, 1, 2]]


def test_neither_way_scatters() -> None:
    """Scatters are slow on accelerators, and add up in an order that changes from run to run."""
    x, k = jnp.ones((1, 8, 8, 2)), jnp.ones((5, 5, 2, 3))
    program = jax.make_jaxpr(jax.grad(lambda x, k: convolve(x, k, (2, 2)).sum(), argnums=(0, 1)))(x, k)
    assert "scatter" not in str(program)
    assert "gather" not in str(program)


def test_blocks_must_tile_the_output() -> None:
    with pytest.raises(NoshowError, match="blocks of 3 x 2 do not tile an output of 4 x 4"):
        convolve(jnp.ones((1, 5, 5, 1)), jnp.ones((2, 2, 1, 1)), (3, 2))
