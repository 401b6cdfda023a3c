"""The loop of an LSTM layer inside one GPU kernel each way, in bfloat16.

A loop of GPU programs spends more time between its steps than in them. Here a block of rows goes through all steps
within one kernel (Triton, through Pallas): rows do not depend on each other. Products multiply bfloat16 numbers and
add in float32; the running cell, its gradient and that of the state stay float32; what the way back needs is kept in
bfloat16. The formulas are those of `noshow.models.lstm`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from noshow.contracts import Array
from noshow.devices import on_cpu

NARROW, WIDE = jnp.bfloat16, jnp.float32
ROWS = 128
"""Rows are worked on in blocks of up to so many; see `rows_for`."""


class Blocks(NamedTuple):
    """How a kernel cuts its work: rows, hidden units and inner products at a time; Triton's warps and stages."""

    rows: int
    units: int
    inner: int
    warps: int
    stages: int


# Measured on an H200 with 20 clients x 512 rows x 80 steps, 256 units.
FORWARD, BACKWARD = Blocks(64, 64, 64, 4, 2), Blocks(128, 32, 256, 8, 2)


class Trace(NamedTuple):
    """What the way back needs, steps first: the states that steps start from, the gates and the cells."""

    before: Array
    gates: Array
    cells: Array
    recurrent: Array


def rows_for(n: int) -> int:
    """So many rows that n fit in: whole blocks, or one smaller block.

    Example:
        >>> rows_for(500), rows_for(3)
        (512, 16)
    """
    return -(-n // ROWS) * ROWS if n > ROWS // 2 else max(16, 1 << (n - 1).bit_length())


@jax.custom_vjp
def recur(inputs: Array, recurrent: Array) -> Array:
    """The states h_t [steps, n, h] from input terms [steps, n, 4h] and weights [h, 4h], as `noshow.models.lstm.recur`.

    States and the gradient of the input terms are bfloat16, that of the weights float32.
    """
    return _forward(inputs, recurrent)[0]


def _forward(inputs: Array, recurrent: Array) -> tuple[Array, Trace]:
    steps, n, width = inputs.shape
    h = width // 4
    blocks = _cut(FORWARD, n, h)
    shapes = [(steps, n, h), (steps, n, h), (steps, n, width), (steps, n, h), (n, h)]
    types = [NARROW, NARROW, NARROW, NARROW, WIDE]
    # Transposed: Triton multiplies fastest when both factors are read along the inner index.
    states, before, gates, cells, _ = _on_blocks_of_rows(_forward_kernel, blocks, n, shapes, types)(
        inputs.astype(NARROW), recurrent.T.astype(NARROW)
    )
    return states, Trace(before, gates, cells, recurrent)


def _backward(trace: Trace, d_states: Array) -> tuple[Array, Array]:
    steps, n, h = d_states.shape
    blocks = _cut(BACKWARD, n, h)
    shapes = [(steps, n, 4 * h), (n, h), (n, h)]
    d_inputs, _, _ = _on_blocks_of_rows(_backward_kernel, blocks, n, shapes, [NARROW, WIDE, WIDE])(
        trace.gates, trace.cells, d_states.astype(NARROW), trace.recurrent.astype(NARROW)
    )
    return d_inputs, jnp.einsum("tnh,tna->ha", trace.before, d_inputs, preferred_element_type=WIDE)


recur.defvjp(_forward, _backward)


def _forward_kernel(
    inputs: Any, weights: Any, states: Any, before: Any, gates: Any, cells: Any, cell_now: Any, *, blocks: Blocks
) -> None:
    steps, _, h = states.shape
    rows = pl.ds(pl.program_id(0) * blocks.rows, blocks.rows)

    def clear(block: Array, _: None) -> None:
        units = pl.ds(block * blocks.units, blocks.units)
        before[0, rows, units] = jnp.zeros((blocks.rows, blocks.units), NARROW)
        cell_now[rows, units] = jnp.zeros((blocks.rows, blocks.units), WIDE)

    def step(t: Array, _: None) -> None:
        def work_out(block: Array, _: None) -> None:
            def add_product(part: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
                inner = pl.ds(part * blocks.inner, blocks.inner)
                state = before[t, rows, inner]
                return tuple(
                    total + _times(state, weights[_gate(gate, block, blocks, h), inner])
                    for gate, total in enumerate(sums)
                )

            nothing = tuple(jnp.zeros((blocks.rows, blocks.units), WIDE) for _ in range(4))
            sums = lax.fori_loop(0, h // blocks.inner, add_product, nothing)
            a_i, a_f, a_g, a_o = (
                inputs[t, rows, _gate(gate, block, blocks, h)].astype(WIDE) + total for gate, total in enumerate(sums)
            )
            i, f, g, o = jax.nn.sigmoid(a_i), jax.nn.sigmoid(a_f), jnp.tanh(a_g), jax.nn.sigmoid(a_o)
            units = pl.ds(block * blocks.units, blocks.units)
            cell = f * cell_now[rows, units] + i * g
            state = (o * jnp.tanh(cell)).astype(NARROW)
            for gate, value in enumerate((i, f, g, o)):
                gates[t, rows, _gate(gate, block, blocks, h)] = value.astype(NARROW)
            cell_now[rows, units] = cell
            cells[t, rows, units] = cell.astype(NARROW)
            states[t, rows, units] = state

            @pl.when(t + 1 < steps)
            def hand_on() -> None:
                before[t + 1, rows, units] = state

        _each_block(work_out, h, blocks)
        _wait_for_all()

    _each_block(clear, h, blocks)
    _wait_for_all()
    lax.fori_loop(0, steps, step, None)


def _backward_kernel(
    gates: Any, cells: Any, d_states: Any, weights: Any, d_inputs: Any, d_state: Any, d_cell: Any, *, blocks: Blocks
) -> None:
    steps, _, h = cells.shape
    rows = pl.ds(pl.program_id(0) * blocks.rows, blocks.rows)

    def clear(block: Array, _: None) -> None:
        units = pl.ds(block * blocks.units, blocks.units)
        d_state[rows, units] = jnp.zeros((blocks.rows, blocks.units), WIDE)
        d_cell[rows, units] = jnp.zeros((blocks.rows, blocks.units), WIDE)

    def step(back: Array, _: None) -> None:
        t = steps - 1 - back

        def add_product(block: Array, total: Array) -> Array:
            units = pl.ds(block * blocks.units, blocks.units)
            i, f, g, o = (gates[t, rows, _gate(gate, block, blocks, h)].astype(WIDE) for gate in range(4))
            cell_before = cells[jnp.maximum(t - 1, 0), rows, units].astype(WIDE)
            cell_before = jnp.where(t > 0, cell_before, jnp.zeros_like(cell_before))
            squashed = jnp.tanh(cells[t, rows, units].astype(WIDE))
            dh = d_state[rows, units] + d_states[t, rows, units].astype(WIDE)
            dc = d_cell[rows, units] + dh * o * (1 - squashed * squashed)
            d_cell[rows, units] = dc * f
            da = (
                dc * g * i * (1 - i),
                dc * cell_before * f * (1 - f),
                dc * i * (1 - g * g),
                dh * squashed * o * (1 - o),
            )
            for gate, value in enumerate(da):
                narrow = value.astype(NARROW)
                d_inputs[t, rows, _gate(gate, block, blocks, h)] = narrow
                total = total + _times(narrow, weights[:, _gate(gate, block, blocks, h)])
            return total

        total = lax.fori_loop(0, h // blocks.units, add_product, jnp.zeros((blocks.rows, h), WIDE))
        _wait_for_all()
        d_state[rows, :] = total
        _wait_for_all()

    _each_block(clear, h, blocks)
    _wait_for_all()
    lax.fori_loop(0, steps, step, None)


def _times(rows: Array, transposed: Array) -> Array:
    """A product of bfloat16 numbers, summed in float32; the ambient precision is for products of longer numbers."""
    return triton.dot(rows, transposed, trans_b=True, precision=lax.Precision.DEFAULT)


def _gate(gate: int, block: Array, blocks: Blocks, h: int) -> Any:
    """The columns of one gate that belong to a block of units."""
    return pl.ds(gate * h + block * blocks.units, blocks.units)


def _each_block(function: Any, h: int, blocks: Blocks) -> None:
    lax.fori_loop(0, h // blocks.units, function, None)


def _wait_for_all() -> None:
    """Threads of a block read what others of it wrote in the step before; the interpreter has one thread."""
    if not on_cpu():
        triton.debug_barrier()


def _cut(blocks: Blocks, n: int, h: int) -> Blocks:
    return blocks._replace(rows=min(blocks.rows, n), units=min(blocks.units, h), inner=min(blocks.inner, h))


def _on_blocks_of_rows(kernel: Any, blocks: Blocks, n: int, shapes: list[tuple[int, ...]], types: list[Any]) -> Any:
    """The kernel for every block of rows. On a CPU, Pallas interprets it: slow, and good enough to test it."""
    return pl.pallas_call(
        partial(kernel, blocks=blocks),
        out_shape=[jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in zip(shapes, types, strict=True)],
        grid=(n // blocks.rows,),
        interpret=on_cpu(),
        compiler_params=triton.CompilerParams(num_warps=blocks.warps, num_stages=blocks.stages),
    )
