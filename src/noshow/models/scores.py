"""What a classifier's logits are worth: the loss of each example, and whether its prediction is right.

A label that is no class would be right for none of the logits, and its loss fall below zero for ever: labels are
checked before a run.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from noshow.contracts import Array
from noshow.errors import require
from noshow.federation import Federation, as_stored


def cross_entropy(logits: Array, y: Array) -> tuple[Array, Array]:
    """Losses -log softmax(logits)_y and hits argmax(logits) = y of logits [n, classes] and labels y [n], one a row.

    Example:
        >>> import jax.numpy as jnp
        >>> losses, correct = cross_entropy(jnp.log(jnp.array([[0.75, 0.25], [0.5, 0.5]])), jnp.array([0, 1]))
        >>> [f"{share:.2f}" for share in jnp.exp(-losses)], correct.tolist()
        (['0.75', '0.50'], [1.0, 0.0])
    """
    # A sum under a mask, not an indexed read: its gradient is a mask again, where a read's would be a scatter.
    right = jnp.arange(logits.shape[-1]) == y[:, None]
    losses = jax.nn.logsumexp(logits, axis=-1) - jnp.where(right, logits, 0.0).sum(-1)
    return losses, (jnp.argmax(logits, axis=-1) == y).astype(jnp.float32)


def check_labels(federation: Federation, classes: int) -> None:
    """Raise unless the labels of batches `(x, y)`, where these are read as they are stored, are 0, 1, …, classes - 1.

    Example:
        >>> import numpy as np, noshow as ns
        >>> clients = [(np.zeros((2, 3)), np.array([0, 7]))]
        >>> check_labels(ns.Federation.from_clients(clients, test=clients[0]), classes=8)
    """
    for which, batch in (("labels", federation.data), ("test labels", federation.test)):
        if federation.read is not as_stored or not isinstance(batch, tuple | list) or len(batch) != 2:
            continue
        labels = np.asarray(batch[1])
        require(
            bool((labels == np.floor(labels)).all()),
            f"{federation.name!r} has {which} that are no whole numbers: give each class its number, from 0 on",
        )
        require(
            labels.min() >= 0 and labels.max() < classes,
            f"there are {classes} classes, but {federation.name!r} has {which} from {labels.min():g} to "
            f"{labels.max():g}: give labels from 0 to {classes - 1}, or as many classes as the largest label plus 1",
        )
