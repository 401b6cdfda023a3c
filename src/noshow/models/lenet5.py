"""LeNet-5 for 32 x 32 colour images, made to train many clients' copies at once."""

from __future__ import annotations

from math import prod, sqrt
from typing import Literal, get_args

import jax
import jax.numpy as jnp

from noshow.contracts import Array, Batch, Key, Model, Params
from noshow.devices import on_cpu
from noshow.errors import require
from noshow.models import in_pytorch
from noshow.models.convolution import Block, product, windows
from noshow.models.examples_last import convolve_and_pool
from noshow.models.scores import check_labels, cross_entropy

Start = Literal["pytorch", "he"]

IMAGE = (32, 32, 3)
LAYERS = {
    "conv1": (5, 5, 3, 6),
    "conv2": (5, 5, 6, 16),
    "dense1": (400, 120),
    "dense2": (120, 84),
    "dense3": (84, 10),
}
"""Each layer's weights, outputs last."""

# Measured (benchmarks/lenet_blocks.py): a CPU core is fastest with small blocks, which waste the least arithmetic; an
# accelerator with whole rows, the widest products.
CPU_BLOCKS: tuple[Block, Block] = ((2, 4), (2, 2))
ACCELERATOR_BLOCKS: tuple[Block, Block] = ((1, 28), (1, 10))


def lenet5(start: Start = "pytorch") -> Model:
    """LeNet-5: loss -log softmax(logits)_y on batches `(x [n, 32, 32, 3], y [n])` of channel-normalised images.

    Convolution 3-6 of 5 x 5, ReLU, 2 x 2 maximum pool; convolution 6-16 of 5 x 5, ReLU, pool; dense 400-120-84-10 with
    ReLU between; biases everywhere: d = 62,006. Y. LeCun et al., *Gradient-based learning applied to document
    recognition*, 1998.

    Args:
        start: how weights and biases start. `"pytorch"`: uniform on ± 1/sqrt(inputs of a unit), PyTorch's default, as
            the paper's authors used PyTorch. `"he"`: weights N(0, 2 / inputs of a unit), biases 0, which keeps the
            signal's size through ReLUs, where the other loses most of it (K. He et al., *Delving deep into rectifiers*,
            2015). The paper does not say which, and with few or small steps it matters.

    Example:
        >>> import jax, noshow as ns
        >>> params = ns.models.lenet5().init(jax.random.key(0))
        >>> sum(leaf.size for leaf in jax.tree.leaves(params))
        62006
    """

    def prepare(batch: Batch) -> Batch:
        x, y = batch
        # A CPU core makes the windows in its cache faster than it would read them back from memory.
        return (x, y) if on_cpu() else (_seen(x), y)

    def measure(params: Params, batch: Batch) -> tuple[Array, Array]:
        x, y = batch
        return cross_entropy(logits_last(params, x) if on_cpu() else logits(params, _seen(x), ACCELERATOR_BLOCKS), y)

    require(start in get_args(Start), f"start is {start!r}: give 'pytorch' or 'he'")
    return Model(
        init if start == "pytorch" else init_he,
        measure,
        "lenet5",
        lambda federation: check_labels(federation, LAYERS["dense3"][-1]),
        prepare,
        layout=in_pytorch.LENET5,
    )


def _seen(x: Array) -> Array:
    """The first windows of images; windows stay as they are."""
    high, wide = ACCELERATOR_BLOCKS[0]
    if x.shape[1:] == (28 // high, 28 // wide, (high + 4) * (wide + 4) * 3):
        return x
    return first_windows(_images(x), ACCELERATOR_BLOCKS)


def _images(x: Array) -> Array:
    require(
        x.shape[1:] == IMAGE,
        f"lenet5 reads images [n, 32, 32, 3], and got {list(x.shape)}: rows, columns, then colours",
    )
    return x


def init(key: Key) -> Params:
    """Weights and biases uniform on ± 1/sqrt(inputs of a unit)."""

    def layer(key: Key, shape: tuple[int, ...]) -> Params:
        bound = 1.0 / sqrt(prod(shape[:-1]))
        for_weights, for_bias = jax.random.split(key)
        return {
            "weights": jax.random.uniform(for_weights, shape, minval=-bound, maxval=bound),
            "bias": jax.random.uniform(for_bias, shape[-1:], minval=-bound, maxval=bound),
        }

    keys = jax.random.split(key, len(LAYERS))
    return {name: layer(key, shape) for key, (name, shape) in zip(keys, LAYERS.items(), strict=True)}


def init_he(key: Key) -> Params:
    """Weights N(0, 2 / inputs of a unit), biases 0."""
    keys = jax.random.split(key, len(LAYERS))
    return {
        name: {"weights": sqrt(2 / prod(shape[:-1])) * jax.random.normal(key, shape), "bias": jnp.zeros(shape[-1:])}
        for key, (name, shape) in zip(keys, LAYERS.items(), strict=True)
    }


def first_windows(x: Array, blocks: tuple[Block, Block]) -> Array:
    """What the first convolution reads of the images: worth doing once for all local steps on a batch."""
    return windows(x, LAYERS["conv1"][:2], blocks[0])


def logits(params: Params, x: Array, blocks: tuple[Block, Block]) -> Array:
    """The ten logits of each image [n, 10], from the images' `first_windows`."""
    for name, block in zip(("conv1", "conv2"), blocks, strict=True):
        kernel = params[name]["weights"]
        seen = x if name == "conv1" else windows(x, kernel.shape[:2], block)
        # Bias and ReLU keep the order of numbers, so they can come after the pool, on a quarter of the entries.
        x = jax.nn.relu(biased(pool(product(seen, kernel, block)), params[name]["bias"]))
    x = x.reshape(x.shape[0], -1)
    for name in ("dense1", "dense2"):
        x = jax.nn.relu(x @ params[name]["weights"] + params[name]["bias"])
    return x @ params["dense3"]["weights"] + params["dense3"]["bias"]


def logits_last(params: Params, x: Array) -> Array:
    """The ten logits of each image [n, 10], from the images themselves, with examples last on the way."""
    x = _images(x).transpose(3, 1, 2, 0)
    for name, block in zip(("conv1", "conv2"), CPU_BLOCKS, strict=True):
        x = convolve_and_pool(x, params[name]["weights"], params[name]["bias"], block)
    x = x.transpose(1, 2, 0, 3).reshape(-1, x.shape[-1])
    for name in ("dense1", "dense2"):
        x = jax.nn.relu(params[name]["weights"].T @ x + params[name]["bias"][:, None])
    return x.T @ params["dense3"]["weights"] + params["dense3"]["bias"]


def biased(x: Array, bias: Array) -> Array:
    """x [n, rows, columns, channels] + bias, as whole rows of columns and channels.

    Its gradient then sums over rows of that length first: over `channels` alone, six numbers wide, that sum would take
    a fifth of a GPU's round.

    Example:
        >>> import jax.numpy as jnp
        >>> biased(jnp.zeros((1, 1, 2, 2)), jnp.array([1.0, 2.0])).ravel().tolist()
        [1.0, 2.0, 1.0, 2.0]
    """
    n, rows, columns, channels = x.shape
    return (x.reshape(n * rows, columns * channels) + jnp.tile(bias, columns)).reshape(x.shape)


@jax.custom_vjp
def pool(x: Array) -> Array:
    """The largest of each 2 x 2 square of x [n, rows, columns, channels]; its gradient goes to the first largest.

    PyTorch chooses among equals in the same way. Autodiff of a maximum would share the gradient between them, and that
    of a window would search the squares again; here each square remembers where its largest was.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> jax.grad(lambda x: pool(x).sum())(jnp.ones((1, 2, 2, 1))).ravel().tolist()
        [1.0, 0.0, 0.0, 0.0]
    """
    return _pool_forward(x)[0]


def _pool_forward(x: Array) -> tuple[Array, Array]:
    n, rows, columns, channels = x.shape
    squares = x.reshape(n, rows // 2, 2, columns // 2, 2, channels)
    largest = squares[:, :, 0, :, 0]
    place = jnp.zeros(largest.shape, jnp.int8)
    for number, (row, column) in enumerate(((0, 1), (1, 0), (1, 1)), start=1):
        other = squares[:, :, row, :, column]
        place = jnp.where(largest >= other, place, jnp.int8(number))
        largest = jnp.where(largest >= other, largest, other)
    return largest, place


def _pool_backward(place: Array, d_largest: Array) -> tuple[Array]:
    n, rows, columns, channels = place.shape
    places = jnp.arange(4, dtype=jnp.int8).reshape(2, 1, 2, 1)
    d_squares = jnp.where(place[:, :, None, :, None] == places, d_largest[:, :, None, :, None], 0.0)
    return (d_squares.reshape(n, 2 * rows, 2 * columns, channels),)


pool.defvjp(_pool_forward, _pool_backward)
