"""Names and shapes that PyTorch gives to the parameters of noshow's own models, and the way back.

PyTorch keeps outputs first: linear weights [outputs, inputs], kernels [outputs, inputs, rows, columns]; it flattens
images by channel, row, column where noshow does by row, column, channel. Gates of an LSTM are in one order in both,
i, f, g, o; PyTorch adds two biases where noshow has one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from noshow.contracts import Layout, Leaves

_LSTM = {"lstm1": "l0", "lstm2": "l1"}


def convolutional(names: Mapping[str, str], seen: tuple[int, int, int]) -> Layout:
    """Convolutions and then dense layers, ours by theirs; `dense1` reads so many rows, columns and channels.

    Example:
        >>> import numpy as np
        >>> layout = convolutional({"dense1": "fc1"}, seen=(1, 2, 2))
        >>> leaves = {"dense1/weights": np.arange(4.0)[:, None], "dense1/bias": np.zeros(1)}
        >>> layout.outward(leaves)["fc1.weight"].tolist()
        [[0.0, 2.0, 1.0, 3.0]]
    """
    rows, columns, channels = seen

    def outward(leaves: Leaves) -> Leaves:
        tensors: Leaves = {}
        for ours, theirs in names.items():
            weights = leaves[f"{ours}/weights"]
            if ours == "dense1":
                weights = weights.reshape(*seen, -1).transpose(3, 2, 0, 1).reshape(weights.shape[::-1])
            else:
                weights = weights.transpose(3, 2, 0, 1) if weights.ndim == 4 else weights.T
            tensors |= {f"{theirs}.weight": weights, f"{theirs}.bias": leaves[f"{ours}/bias"]}
        return tensors

    def inward(tensors: Leaves) -> Leaves:
        leaves: Leaves = {}
        for ours, theirs in names.items():
            weights = tensors[f"{theirs}.weight"]
            if ours == "dense1":
                weights = weights.reshape(-1, channels, rows, columns).transpose(2, 3, 1, 0)
                weights = weights.reshape(rows * columns * channels, -1)
            else:
                weights = weights.transpose(2, 3, 1, 0) if weights.ndim == 4 else weights.T
            leaves |= {f"{ours}/weights": weights, f"{ours}/bias": tensors[f"{theirs}.bias"]}
        return leaves

    return Layout(outward, inward)


def _char_lstm_out(leaves: Leaves) -> Leaves:
    tensors = {"embedding.weight": leaves["embedding"]}
    for ours, theirs in _LSTM.items():
        tensors |= {
            f"lstm.weight_ih_{theirs}": leaves[f"{ours}/input"].T,
            f"lstm.weight_hh_{theirs}": leaves[f"{ours}/recurrent"].T,
            f"lstm.bias_ih_{theirs}": leaves[f"{ours}/bias"],
            f"lstm.bias_hh_{theirs}": np.zeros_like(leaves[f"{ours}/bias"]),
        }
    return tensors | {"fc.weight": leaves["dense/weights"].T, "fc.bias": leaves["dense/bias"]}


def _char_lstm_in(tensors: Leaves) -> Leaves:
    leaves = {"embedding": tensors["embedding.weight"]}
    for ours, theirs in _LSTM.items():
        leaves |= {
            f"{ours}/input": tensors[f"lstm.weight_ih_{theirs}"].T,
            f"{ours}/recurrent": tensors[f"lstm.weight_hh_{theirs}"].T,
            f"{ours}/bias": tensors[f"lstm.bias_ih_{theirs}"] + tensors[f"lstm.bias_hh_{theirs}"],
        }
    return leaves | {"dense/weights": tensors["fc.weight"].T, "dense/bias": tensors["fc.bias"]}


LENET5 = convolutional(
    {"conv1": "conv1", "conv2": "conv2", "dense1": "fc1", "dense2": "fc2", "dense3": "fc3"}, seen=(5, 5, 16)
)
"""Modules `conv1`, `conv2`, `fc1`, `fc2`, `fc3`."""
CHAR_LSTM = Layout(_char_lstm_out, _char_lstm_in)
"""Modules `embedding`, `lstm` (two layers) and `fc`."""
LOGISTIC = Layout(
    lambda leaves: {"weight": leaves["weights"], "bias": leaves["bias"]},
    lambda tensors: {"weights": tensors["weight"], "bias": tensors["bias"]},
)
"""One `torch.nn.Linear`."""
