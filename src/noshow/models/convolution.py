"""Convolution as one wide matrix product, also when every client has a kernel of its own.

Under `vmap` over clients a library convolution turns into many small grouped ones, and an im2col product has only
c_out columns: six, for LeNet-5's first layer. Here the output is cut into blocks instead, and the product makes a
whole block at once. Its matrix holds the kernel once for every position in the block, in bands, zeros between them:
a few times the arithmetic of the direct sum, all of it in a product of useful width.
"""

from __future__ import annotations

import jax.numpy as jnp

from noshow.contracts import Array
from noshow.errors import require

Block = tuple[int, int]
"""Rows and columns of the output that one product makes together."""


def convolve(x: Array, kernel: Array, block: Block) -> Array:
    """The valid convolution of images x [n, rows, columns, c_in] with a kernel [k_rows, k_columns, c_in, c_out].

        out[n, r, s, o] = sum over i, j, c of x[n, r + i, s + j, c] kernel[i, j, c, o]

    The blocks must tile the output, [n, rows - k_rows + 1, columns - k_columns + 1, c_out].

    Example:
        >>> import jax.numpy as jnp
        >>> sums_of_four = convolve(jnp.ones((1, 5, 5, 1)), jnp.ones((2, 2, 1, 1)), block=(2, 4))
        >>> sums_of_four.shape, float(sums_of_four.max())
        ((1, 4, 4, 1), 4.0)
    """
    return product(windows(x, kernel.shape[:2], block), kernel, block)


def product(read: Array, kernel: Array, block: Block) -> Array:
    """The convolution from what its blocks read, `windows(x, kernel.shape[:2], block)`."""
    n, down, across, _ = read.shape
    (high, wide), c_out = block, kernel.shape[-1]
    made = read.reshape(n * down * across, -1) @ banded(kernel, block)
    return made.reshape(n, down, across, high, wide, c_out).swapaxes(2, 3).reshape(n, down * high, across * wide, c_out)


def windows(x: Array, taps: tuple[int, ...], block: Block) -> Array:
    """What each block reads of the images under a kernel of k_rows x k_columns, [n, down, across, size of a window].

    Columns first: their slices are contiguous runs, and rows are then joined as whole runs.
    """
    n, rows, columns, channels = x.shape
    (high, wide), (k_rows, k_columns) = block, taps
    out_rows, out_columns = rows - k_rows + 1, columns - k_columns + 1
    require(
        out_rows % high == 0 and out_columns % wide == 0,
        f"blocks of {high} x {wide} do not tile an output of {out_rows} x {out_columns}: give divisors of its sides",
    )
    down, across = out_rows // high, out_columns // wide
    runs = x.reshape(n, rows, columns * channels)
    step, length = wide * channels, (wide + k_columns - 1) * channels
    strips = jnp.stack([runs[:, :, j * step : j * step + length] for j in range(across)], axis=2)
    tall = high + k_rows - 1
    return jnp.concatenate([strips[:, i : i + high * (down - 1) + 1 : high] for i in range(tall)], axis=-1)


def banded(kernel: Array, block: Block) -> Array:
    """The kernel as the matrix [window rows * window columns * c_in, block rows * block columns * c_out]."""
    high, wide = block
    shifted = _shifts(_shifts(kernel, high, axis=0), wide, axis=1)
    matrix = shifted.transpose(0, 1, 2, 4, 5, 3)  # from [i, j, c, o, row, column]
    return matrix.reshape(-1, high * wide * kernel.shape[-1])


def _shifts(kernel: Array, count: int, axis: int) -> Array:
    """The kernel shifted by 0, 1, …, count - 1 along an axis, the shifts as a new last axis.

    `count` copies, each padded to one entry more than a window, and cut where windows end: every copy then starts
    one entry later. Pads and reshapes only, whose gradients are slices and sums; indexing would end in a scatter.
    """
    taps = jnp.moveaxis(kernel, axis, -1)
    others, window = taps.shape[:-1], taps.shape[-1] + count - 1
    padded = jnp.pad(taps, [(0, 0)] * len(others) + [(0, count)])
    copies = jnp.broadcast_to(padded[..., None, :], (*others, count, window + 1)).reshape(*others, -1)
    shifts = copies[..., : count * window].reshape(*others, count, window)
    return jnp.moveaxis(shifts, -1, axis)
