"""What a classifier's logits are worth: the loss of each example, and whether its prediction is right."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from noshow.contracts import Array


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
