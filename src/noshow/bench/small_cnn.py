"""The small network of pfl-research's published CIFAR-10 comparison, as a noshow model; its dropout is left out.

Convolution 3-32 of 3 x 3, ReLU; convolution 32-64 of 3 x 3, ReLU; 2 x 2 maximum pool; dense 12,544-128, ReLU;
dense 128-10; weights Glorot-uniform, biases as PyTorch starts them. F. Granqvist et al., *pfl-research: simulation
framework for accelerating research in private federated learning*, 2024.
"""

from __future__ import annotations

from math import prod, sqrt

import jax

from noshow.contracts import Array, Batch, Key, Model, Params
from noshow.devices import on_cpu
from noshow.models.convolution import Block, convolve
from noshow.models.in_pytorch import convolutional
from noshow.models.lenet5 import biased, pool
from noshow.models.scores import cross_entropy

LAYERS = {"conv1": (3, 3, 3, 32), "conv2": (3, 3, 32, 64), "dense1": (12544, 128), "dense2": (128, 10)}
CPU_BLOCKS: tuple[Block, Block] = ((1, 2), (1, 1))
ACCELERATOR_BLOCKS: tuple[Block, Block] = ((1, 6), (1, 2))


def small_cnn() -> Model:
    """The network as a model of batches `(x [n, 32, 32, 3], y [n])`.

    Example:
        >>> import jax
        >>> sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(small_cnn().init, jax.random.key(0))))
        1626442
    """

    def measure(params: Params, batch: Batch) -> tuple[Array, Array]:
        x, y = batch
        return cross_entropy(logits(params, x, CPU_BLOCKS if on_cpu() else ACCELERATOR_BLOCKS), y)

    layout = convolutional({name: name for name in LAYERS}, seen=(14, 14, 64))
    return Model(init, measure, name="small_cnn", layout=layout)


def init(key: Key) -> Params:
    """Weights Glorot-uniform, biases uniform on ± 1/sqrt(inputs of a unit)."""

    def layer(key: Key, shape: tuple[int, ...]) -> Params:
        inputs, outputs = prod(shape[:-1]), prod(shape[:-2]) * shape[-1]
        bound = sqrt(6 / (inputs + outputs))
        for_weights, for_bias = jax.random.split(key)
        return {
            "weights": jax.random.uniform(for_weights, shape, minval=-bound, maxval=bound),
            "bias": jax.random.uniform(for_bias, shape[-1:], minval=-1 / sqrt(inputs), maxval=1 / sqrt(inputs)),
        }

    keys = jax.random.split(key, len(LAYERS))
    return {name: layer(key, shape) for key, (name, shape) in zip(keys, LAYERS.items(), strict=True)}


def logits(params: Params, x: Array, blocks: tuple[Block, Block]) -> Array:
    """The ten logits of each image [n, 10]."""
    first, second = params["conv1"], params["conv2"]
    x = jax.nn.relu(biased(convolve(x, first["weights"], blocks[0]), first["bias"]))
    # Bias and ReLU keep the order of numbers, so they can come after the pool, on a quarter of the entries.
    x = jax.nn.relu(biased(pool(convolve(x, second["weights"], blocks[1])), second["bias"]))
    x = x.reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ params["dense1"]["weights"] + params["dense1"]["bias"])
    return x @ params["dense2"]["weights"] + params["dense2"]["bias"]
