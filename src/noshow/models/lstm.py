"""An LSTM layer with everything that does not depend on the step before taken out of the loop.

For inputs x_t and gates in PyTorch's order, i, f, g, o:

    a_t = x_t W_in + b + h_{t-1} W,   i, f, o = sigmoid(a^i), sigmoid(a^f), sigmoid(a^o),   g = tanh(a^g)
    c_t = f c_{t-1} + i g,            h_t = o tanh(c_t)

Forwards, x W_in + b is one product over all steps (`project`, `look_up`), and the loop multiplies by W alone.
Backwards, autodiff would add h_{t-1}^T da_t to the gradient of W in every step; here the loop only collects the da_t,
and one product at its end gives the whole gradient. S. Hochreiter, J. Schmidhuber, *Long short-term memory*, 1997.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from noshow.contracts import Array
from noshow.devices import on_cpu
from noshow.precision import bfloat16_allowed

KERNEL_WIDTHS = (16, 32, 64, 128, 256)
"""Powers of two, as the kernel's blocks are, up to the row of states that a block can hold."""


class Trace(NamedTuple):
    """What the backward loop needs of the forward one, steps first."""

    gates: Array
    cells: Array
    hidden: Array
    recurrent: Array


@jax.custom_vjp
def recur(inputs: Array, recurrent: Array) -> Array:
    """The states h_t [steps, n, h] from input terms x_t W_in + b [steps, n, 4h] and weights W [h, 4h]; h_0 = c_0 = 0.

    Example:
        >>> import jax.numpy as jnp
        >>> recur(jnp.zeros((3, 1, 8)), jnp.ones((2, 8))).tolist()  # tanh(0) = 0: nothing ever enters the cells
        [[[0.0, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]]
    """
    return _forward(inputs, recurrent)[0]


def _forward(inputs: Array, recurrent: Array) -> tuple[Array, Trace]:
    def step(state: tuple[Array, Array], into: Array) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        hidden, cell = state
        i, f, g, o = jnp.split(into + hidden @ recurrent, 4, axis=-1)
        i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
        cell = f * cell + i * g
        hidden = o * jnp.tanh(cell)
        return (hidden, cell), (jnp.concatenate([i, f, g, o], axis=-1), cell, hidden)

    nothing = jnp.zeros((inputs.shape[1], recurrent.shape[0]), inputs.dtype)
    _, (gates, cells, hidden) = lax.scan(step, (nothing, nothing), inputs)
    return hidden, Trace(gates, cells, hidden, recurrent)


def _backward(trace: Trace, d_hidden: Array) -> tuple[Array, Array]:
    """The gradients of the input terms and of the recurrent weights, from that of the states."""

    def step(carry: tuple[Array, Array], now: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
        dh, dc = carry
        gates, cell, cell_before, dh_outside = now
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        squashed = jnp.tanh(cell)
        dh = dh + dh_outside
        dc = dc + dh * o * (1 - squashed * squashed)
        da = jnp.concatenate(
            [dc * g * i * (1 - i), dc * cell_before * f * (1 - f), dc * i * (1 - g * g), dh * squashed * o * (1 - o)],
            axis=-1,
        )
        return (da @ back, dc * f), da

    back = trace.recurrent.T  # turned once: a CPU multiplies by rows that lie in a row a fifth faster
    nothing = jnp.zeros_like(d_hidden[0])
    steps = (trace.gates, trace.cells, _one_earlier(trace.cells), d_hidden)
    _, d_inputs = lax.scan(step, (nothing, nothing), steps, reverse=True)
    return d_inputs, jnp.einsum("tnh,tna->ha", _one_earlier(trace.hidden), d_inputs)


def _one_earlier(states: Array) -> Array:
    """The states that each step started from: zeros, then all but the last."""
    return jnp.concatenate([jnp.zeros_like(states[:1]), states[:-1]])


recur.defvjp(_forward, _backward)


def wants_kernel(hidden: int) -> bool:
    """Whether `noshow.models.lstm_fused` is to run the loop: on a GPU told to multiply in bfloat16, if widths fit."""
    return not on_cpu() and bfloat16_allowed() and hidden in KERNEL_WIDTHS


@jax.custom_vjp
def project(x: Array, weights: Array, bias: Array) -> Array:
    """The input terms x_t W_in + b of all steps [steps, n, 4h], in one product, in x's own type.

    Example:
        >>> import jax.numpy as jnp
        >>> project(jnp.ones((3, 5, 2)), jnp.ones((2, 8)), jnp.ones(8)).shape
        (3, 5, 8)
    """
    return (jnp.matmul(x, weights.astype(x.dtype), preferred_element_type=bias.dtype) + bias).astype(x.dtype)


def _project_forward(x: Array, weights: Array, bias: Array) -> tuple[Array, tuple[Array, Array]]:
    return project(x, weights, bias), (x, weights)


ONES = 8


def _project_backward(trace: tuple[Array, Array], d_terms: Array) -> tuple[Array, Array, Array]:
    x, weights = trace
    # The bias is the weight of an input that is always 1: its gradient, a long sum down every column, which GPUs are
    # slow at, is then a part of the product that must read the same numbers anyway. (Several ones: aligned rows.)
    with_ones = jnp.concatenate([x, jnp.ones_like(x[..., :1], shape=(*x.shape[:-1], ONES))], axis=-1)
    d_all = jnp.einsum("...k,...a->ka", with_ones, d_terms, preferred_element_type=weights.dtype)
    return d_terms @ weights.T.astype(x.dtype), d_all[:-ONES], d_all[-1]


project.defvjp(_project_forward, _project_backward)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def look_up(table: Array, codes: Array, dtype: DTypeLike = jnp.float32) -> Array:
    """The rows of a table [vocabulary, a] that codes [steps, n] name: input terms of symbols, with no product at all.

    Example:
        >>> import jax.numpy as jnp
        >>> look_up(jnp.array([[1.0], [2.0]]), jnp.array([[0, 1, 1]])).tolist()
        [[[1.0], [2.0], [2.0]]]
    """
    return table.astype(dtype)[codes]


def _look_up_forward(table: Array, codes: Array, dtype: DTypeLike) -> tuple[Array, tuple[Array, Array]]:
    # The trace may hold arrays alone: the symbols stand for the table's length.
    return look_up(table, codes, dtype), (codes, jnp.arange(table.shape[0], dtype=codes.dtype))


def _look_up_backward(dtype: DTypeLike, trace: tuple[Array, Array], d_rows: Array) -> tuple[Array, None]:
    codes, symbols = trace
    # A product, not a scatter: on a GPU a scatter adds in an order that changes from run to run.
    named = (codes[..., None] == symbols).astype(d_rows.dtype)
    return jnp.einsum("tnv,tna->va", named, d_rows, preferred_element_type=jnp.float32), None


look_up.defvjp(_look_up_forward, _look_up_backward)
