"""The next-character model of LEAF's Shakespeare task."""

from __future__ import annotations

from math import sqrt

import jax
import jax.numpy as jnp

from noshow.contracts import Array, Batch, Key, Model, Params
from noshow.errors import require
from noshow.models import in_pytorch, lstm
from noshow.models.scores import cross_entropy


def char_lstm(vocabulary: int = 80, embedding: int = 8, hidden: int = 256) -> Model:
    """Two LSTM layers that read characters and predict the next: batches `(x [n, characters] of codes, y [n])`.

    Codes 0, 1, …, vocabulary - 1 are embedded, go through two LSTM layers, and the last state through a dense layer;
    the loss is -log softmax(logits)_y. d = 817,872 with the defaults. Parameters start as in PyTorch, which the paper's
    authors used: embeddings N(0, 1), all else uniform on ± 1/sqrt(hidden). PyTorch adds two bias vectors in each
    layer; here they are one, which starts as the sum of two such draws. S. Caldas et al., *LEAF: a benchmark for
    federated settings*, 2018.

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> model = ns.models.char_lstm(vocabulary=5, hidden=4)
        >>> batch = jnp.array([[0, 1, 2], [4, 3, 0]]), jnp.array([3, 1])
        >>> losses, correct = model.measure(model.init(jax.random.key(0)), batch)
        >>> losses.shape, correct.shape
        ((2,), (2,))
    """
    require(vocabulary >= 2, f"vocabulary is {vocabulary}: give 2 symbols or more")
    require(embedding >= 1, f"embedding is {embedding}: give 1 or more")
    require(hidden >= 1, f"hidden is {hidden}: give 1 or more")

    def init(key: Key) -> Params:
        bound = 1.0 / sqrt(hidden)

        def uniform(key: Key, *shape: int) -> Array:
            return jax.random.uniform(key, shape, minval=-bound, maxval=bound)

        def layer(key: Key, inputs: int) -> Params:
            keys = jax.random.split(key, 3)
            return {
                "input": uniform(keys[0], inputs, 4 * hidden),
                "recurrent": uniform(keys[1], hidden, 4 * hidden),
                "bias": uniform(keys[2], 2, 4 * hidden).sum(0),
            }

        for_embedding, for_first, for_second, for_weights, for_bias = jax.random.split(key, 5)
        return {
            "embedding": jax.random.normal(for_embedding, (vocabulary, embedding)),
            "lstm1": layer(for_first, embedding),
            "lstm2": layer(for_second, hidden),
            "dense": {"weights": uniform(for_weights, hidden, vocabulary), "bias": uniform(for_bias, vocabulary)},
        }

    def measure(params: Params, batch: Batch) -> tuple[Array, Array]:
        x, y = batch
        require(
            x.ndim == 2 and jnp.issubdtype(x.dtype, jnp.integer),
            f"char_lstm reads codes [n, characters], and got {x.dtype} {list(x.shape)}: give whole numbers",
        )
        return cross_entropy(logits(params, x), y)

    return Model(init, measure, name="char_lstm", layout=in_pytorch.CHAR_LSTM)


def logits(params: Params, x: Array) -> Array:
    """The next character's logits [n, vocabulary] after each row of codes x [n, characters]."""
    first, second, dense = params["lstm1"], params["lstm2"], params["dense"]
    n, recur, dtype = x.shape[0], lstm.recur, jnp.float32
    if lstm.wants_kernel(dense["weights"].shape[0]):
        from noshow.models import lstm_fused  # Pallas takes its time to import

        recur, dtype = lstm_fused.recur, lstm_fused.NARROW
        # Whole blocks of rows; what those beyond n predict is cut off.
        x = jnp.pad(x, ((0, lstm_fused.rows_for(n) - n), (0, 0)))
    # There are fewer symbols than positions: each symbol's input term is worked out once, then looked up.
    table = lstm.project(params["embedding"], first["input"], first["bias"])
    states = recur(lstm.look_up(table, x.T.astype(jnp.int32), dtype), first["recurrent"])
    states = recur(lstm.project(states, second["input"], second["bias"]), second["recurrent"])
    return states[-1, :n].astype(jnp.float32) @ dense["weights"] + dense["bias"]
