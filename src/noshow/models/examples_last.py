"""Convolution and 2 x 2 maximum pool with examples last in memory: how a CPU core likes them.

Images lie as [channels, rows, columns, n]. Windows, maxima and their gradients are then copies and comparisons of long
runs of examples, which a core does many at a time, and the convolution is one product as in `convolution`. Its rows
come sorted by their place in a pool's square, so that the maximum of four is one of four contiguous blocks.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from noshow.contracts import Array
from noshow.errors import require
from noshow.models.convolution import Block, banded


def convolve_and_pool(x: Array, kernel: Array, bias: Array, block: Block) -> Array:
    """ReLU of the pooled valid convolution of x [c_in, rows, columns, n], [c_out, rows', columns', n].

    The kernel is [k_rows, k_columns, c_in, c_out]; blocks of even sides must tile the convolution's output.

    Example:
        >>> import jax.numpy as jnp
        >>> sums_of_four = convolve_and_pool(jnp.ones((1, 5, 9, 3)), jnp.ones((2, 2, 1, 1)), jnp.zeros(1), (2, 4))
        >>> sums_of_four.shape, float(sums_of_four.max())
        ((1, 2, 4, 3), 4.0)
    """
    (high, wide), n, c_out = block, x.shape[-1], kernel.shape[-1]
    down, across = ((x.shape[1 + k] - kernel.shape[k] + 1) // block[k] for k in (0, 1))
    seen = windows(x, kernel.shape[:2], block)
    made = _rows_by_place(banded(kernel, block), block) @ seen
    largest = largest_of_four(made.reshape(4, high // 2 * wide // 2 * c_out, -1))
    # Bias and ReLU keep the order of numbers, so they can come after the pool, on a quarter of the entries.
    out = jax.nn.relu(largest.reshape(high // 2, wide // 2, c_out, -1) + bias[:, None])
    squares = out.reshape(high // 2, wide // 2, c_out, down, across, n).transpose(2, 3, 0, 4, 1, 5)
    return squares.reshape(c_out, down * high // 2, across * wide // 2, n)


def windows(x: Array, taps: tuple[int, ...], block: Block) -> Array:
    """What each block reads of x [channels, rows, columns, n], [size of a window, blocks * n]."""
    _, rows, columns, n = x.shape
    (high, wide), (k_rows, k_columns) = block, taps
    out_rows, out_columns = rows - k_rows + 1, columns - k_columns + 1
    require(
        out_rows % high == 0 and out_columns % wide == 0 and high % 2 == 0 and wide % 2 == 0,
        f"blocks of {high} x {wide} do not tile an output of {out_rows} x {out_columns} in squares of 2 x 2: "
        "give even divisors of its sides",
    )
    down, across = out_rows // high, out_columns // wide
    strips = jnp.stack([x[:, :, j : j + wide * (across - 1) + 1 : wide] for j in range(wide + k_columns - 1)])
    whole = jnp.stack([strips[:, :, i : i + high * (down - 1) + 1 : high] for i in range(high + k_rows - 1)])
    return whole.reshape(-1, down * across * n)


def _rows_by_place(matrix: Array, block: Block) -> Array:
    """A banded matrix [window, block rows * block columns * c_out] turned, rows by place in a square, square, c_out."""
    high, wide = block
    window = matrix.shape[0]
    places = matrix.reshape(window, high // 2, 2, wide // 2, 2, -1).transpose(2, 4, 1, 3, 5, 0)
    return places.reshape(-1, window)


@jax.custom_vjp
def largest_of_four(x: Array) -> Array:
    """The largest of x [4, …] along its first axis; its gradient goes to the first largest, as in PyTorch.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> jax.grad(lambda x: largest_of_four(x).sum())(jnp.ones((4, 1))).ravel().tolist()
        [1.0, 0.0, 0.0, 0.0]
    """
    return _forward(x)[0]


def _forward(x: Array) -> tuple[Array, Array]:
    largest, place = x[0], jnp.zeros(x.shape[1:], jnp.int8)
    for number in (1, 2, 3):
        place = jnp.where(largest >= x[number], place, jnp.int8(number))
        largest = jnp.where(largest >= x[number], largest, x[number])
    return largest, place


def _backward(place: Array, d_largest: Array) -> tuple[Array]:
    places = jnp.arange(4, dtype=jnp.int8).reshape(4, *[1] * place.ndim)
    return (jnp.where(place == places, d_largest, 0.0),)


largest_of_four.defvjp(_forward, _backward)
