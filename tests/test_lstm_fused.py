from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noshow.models import lstm, lstm_fused
from noshow.models.char_lstm import char_lstm
from noshow.precision import products_in

ROUNDING = 2.0**-8
"""What one number loses in bfloat16, relative to itself."""


def pulled(recur: Any, arrays: tuple[Any, ...], dtype: Any) -> list[np.ndarray]:
    inputs, recurrent, upstream = arrays

    def one(inputs: Any, recurrent: Any, upstream: Any) -> Any:
        states, pull = jax.vjp(recur, inputs.astype(dtype), recurrent)
        return states, *pull(upstream.astype(states.dtype))

    return [np.asarray(array, np.float32) for array in jax.jit(jax.vmap(one))(inputs, recurrent, upstream)]


@pytest.mark.parametrize(("steps", "n", "h"), [(1, 16, 16), (6, 32, 16), (3, 256, 128)])
def test_kernels_agree_with_the_plain_loop(steps: int, n: int, h: int) -> None:
    """Several clients, several blocks of rows and of units; states, and gradients of inputs and weights."""
    rng = np.random.default_rng(steps)
    shapes = (2, steps, n, 4 * h), (2, h, 4 * h), (2, steps, n, h)
    inputs, recurrent, upstream = (jnp.float32(rng.normal(size=shape)) for shape in shapes)
    arrays = inputs, recurrent / np.sqrt(h), upstream
    for narrow, wide in zip(
        pulled(lstm_fused.recur, arrays, jnp.bfloat16), pulled(lstm.recur, arrays, jnp.float32), strict=True
    ):
        assert np.linalg.norm(narrow - wide) <= 2 * ROUNDING * np.linalg.norm(wide)


@pytest.mark.long
def test_a_whole_model_takes_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five rows in a block of sixteen: losses and gradients come out as without kernels, to bfloat16's rounding."""
    model = char_lstm(vocabulary=11, embedding=3, hidden=16)
    params = model.init(jax.random.key(0))
    x = jax.random.randint(jax.random.key(1), (5, 7), 0, 11)
    y = jnp.arange(5)

    def measured() -> tuple[Any, Any]:
        return jax.value_and_grad(lambda params: model.measure(params, (x, y))[0].mean())(params)

    loss, gradient = measured()
    monkeypatch.setattr(lstm, "wants_kernel", lambda hidden: True)
    narrow_loss, narrow_gradient = measured()
    assert narrow_loss == pytest.approx(loss, rel=ROUNDING)
    assert narrow_loss != loss
    for narrow, wide in zip(jax.tree.leaves(narrow_gradient), jax.tree.leaves(gradient), strict=True):
        assert narrow.dtype == jnp.float32
        assert np.linalg.norm(narrow - wide) <= 3 * ROUNDING * np.linalg.norm(wide)


def test_a_cpu_does_without_kernels() -> None:
    with products_in("bfloat16"):
        assert not lstm.wants_kernel(256)


@pytest.mark.parametrize(("n", "rows"), [(1, 16), (16, 16), (17, 32), (64, 64), (65, 128), (129, 256), (500, 512)])
def test_rows_are_whole_blocks(n: int, rows: int) -> None:
    assert lstm_fused.rows_for(n) == rows
