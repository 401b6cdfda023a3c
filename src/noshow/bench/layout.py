"""noshow's parameters in PyTorch's order and layout: weights [outputs, inputs, …], gates i, f, g, o."""

from __future__ import annotations

from typing import Any

import numpy as np

from noshow.bench.task import Network

LENET_LAYERS = ("conv1", "conv2", "dense1", "dense2", "dense3")
CNN_LAYERS = ("conv1", "conv2", "dense1", "dense2")


def to_torch(network: Network, params: Any) -> list[np.ndarray]:
    """The parameters, in the order in which PyTorch's modules list theirs.

    Example:
        >>> import numpy as np
        >>> shapes = [p.shape for p in to_torch("logistic", {"weights": np.zeros((10, 60)), "bias": np.zeros(10)})]
        >>> shapes
        [(10, 60), (10,)]
    """
    if network == "logistic":
        arrays = [params["weights"], params["bias"]]
    elif network == "char_lstm":
        arrays = _lstm(params)
    else:
        arrays = _convolutional(params, LENET_LAYERS if network == "lenet5" else CNN_LAYERS)
    return [np.array(array, np.float32, order="C") for array in arrays]


def _convolutional(params: Any, layers: tuple[str, ...]) -> list[Any]:
    arrays: list[Any] = []
    channels = 0
    for name in layers:
        weights = np.asarray(params[name]["weights"])
        if weights.ndim == 4:
            channels = weights.shape[-1]
            weights = weights.transpose(3, 2, 0, 1)
        elif name == "dense1":  # it reads images: channels last here, channels first there
            side = round((len(weights) / channels) ** 0.5)
            weights = weights.reshape(side, side, channels, -1).transpose(2, 0, 1, 3).reshape(len(weights), -1).T
        else:
            weights = weights.T
        arrays += [weights, params[name]["bias"]]
    return arrays


def _lstm(params: Any) -> list[Any]:
    layers: list[Any] = []
    for name in ("lstm1", "lstm2"):
        own = {part: np.asarray(array) for part, array in params[name].items()}
        # PyTorch adds two biases, whose gradients are the same: half of a step each would be another model.
        layers += [own["input"].T, own["recurrent"].T, own["bias"]]
    dense = params["dense"]
    return [params["embedding"], *layers, np.asarray(dense["weights"]).T, dense["bias"]]
