"""Names and shapes that PyTorch gives to the parameters of noshow's own models, and the way back.

PyTorch keeps outputs first: linear weights [outputs, inputs], kernels [outputs, inputs, rows, columns]; it flattens
images by channel, row, column where noshow does by row, column, channel. Gates of an LSTM are in one order in both,
i, f, g, o; PyTorch adds two biases where noshow has one.
"""

from __future__ import annotations

import numpy as np

from noshow.contracts import Layout, Leaves

_LENET5 = {"conv1": "conv1", "conv2": "conv2", "dense1": "fc1", "dense2": "fc2", "dense3": "fc3"}
_SEEN = (5, 5, 16)
"""Rows, columns and channels that LeNet-5's first dense layer reads."""
_LSTM = {"lstm1": "l0", "lstm2": "l1"}


def _lenet5_out(leaves: Leaves) -> Leaves:
    tensors: Leaves = {}
    for ours, theirs in _LENET5.items():
        weights = leaves[f"{ours}/weights"]
        if ours == "dense1":
            weights = weights.reshape(*_SEEN, -1).transpose(3, 2, 0, 1).reshape(weights.shape[::-1])
        else:
            weights = weights.transpose(3, 2, 0, 1) if weights.ndim == 4 else weights.T
        tensors |= {f"{theirs}.weight": weights, f"{theirs}.bias": leaves[f"{ours}/bias"]}
    return tensors


def _lenet5_in(tensors: Leaves) -> Leaves:
    rows, columns, channels = _SEEN
    leaves: Leaves = {}
    for ours, theirs in _LENET5.items():
        weights = tensors[f"{theirs}.weight"]
        if ours == "dense1":
            weights = weights.reshape(-1, channels, rows, columns).transpose(2, 3, 1, 0).reshape(weights.shape[::-1])
        else:
            weights = weights.transpose(2, 3, 1, 0) if weights.ndim == 4 else weights.T
        leaves |= {f"{ours}/weights": weights, f"{ours}/bias": tensors[f"{theirs}.bias"]}
    return leaves


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


LENET5 = Layout(_lenet5_out, _lenet5_in)
"""Modules `conv1`, `conv2`, `fc1`, `fc2`, `fc3`."""
CHAR_LSTM = Layout(_char_lstm_out, _char_lstm_in)
"""Modules `embedding`, `lstm` (two layers) and `fc`."""
LOGISTIC = Layout(
    lambda leaves: {"weight": leaves["weights"], "bias": leaves["bias"]},
    lambda tensors: {"weights": tensors["weight"], "bias": tensors["bias"]},
)
"""One `torch.nn.Linear`."""
