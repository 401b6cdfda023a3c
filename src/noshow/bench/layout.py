"""noshow's parameters in PyTorch's order and layout."""

from __future__ import annotations

import numpy as np

from noshow.contracts import Model, Params
from noshow.weights import in_files


def to_torch(model: Model, params: Params) -> list[np.ndarray]:
    """The parameters, in the order in which PyTorch's modules list theirs.

    PyTorch's LSTM adds two biases, whose gradients are the same: half of a step each would be another model, so that
    contestants have but the first.

    Example:
        >>> import jax, noshow as ns
        >>> model = ns.models.logistic(features=60, classes=10)
        >>> [array.shape for array in to_torch(model, model.init(jax.random.key(0)))]
        [(10, 60), (10,)]
    """
    tensors = in_files(model, params).items()
    return [np.array(tensor, np.float32, order="C") for name, tensor in tensors if "bias_hh" not in name]
