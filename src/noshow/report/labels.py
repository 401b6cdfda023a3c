"""Which labels the clients hold, and so which labels fall silent with them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from noshow.contracts import Array, Batch
from noshow.federation import Federation, Shared
from noshow.report.series import short

MOST_LABELS = 10
"""As many as there are colours that can be told apart; of more the rarest are counted as one."""
ROWS_AT_A_TIME = 65536


class Labels(NamedTuple):
    """Names of the labels [C], how many examples of each a client holds [M, C], and the clients' weights w_i [M]."""

    names: list[str]
    counts: np.ndarray
    weights: np.ndarray

    def heard(self, answered: np.ndarray, silenced: np.ndarray) -> dict[str, list[float]]:
        """Shares of the labels in everybody's data, in what was heard and in what was silenced [C].

        Client i counts w_i each time that it answered, or was silenced.

        Example:
            >>> import numpy as np
            >>> two = Labels(["0", "1"], np.array([[4, 0], [0, 4]]), np.array([0.5, 0.5]))
            >>> two.heard(answered=np.array([3, 1]), silenced=np.array([0, 2]))
            {'everybody': [0.5, 0.5], 'answered': [0.75, 0.25], 'silenced': [0.0, 1.0]}
        """
        held = self.counts / self.counts.sum(1, keepdims=True)

        def shares(times: np.ndarray) -> list[float]:
            mass = (self.weights.astype(np.float64) * times) @ held
            return short(mass / mass.sum()) if mass.sum() > 0 else []

        return {
            "everybody": shares(np.ones_like(answered)),
            "answered": shares(answered),
            "silenced": shares(silenced),
        }


def labels_of(federation: Federation) -> Labels | None:
    """The labels that each client holds; `None` where examples are not pairs of an input and a class.

    Example:
        >>> import numpy as np, noshow as ns
        >>> clients = [(np.zeros((len(y), 2)), np.array(y)) for y in ([0, 0, 1], [2])]
        >>> labels_of(ns.Federation.from_clients(clients, test=clients[0])).counts.tolist()
        [[2, 1, 0], [0, 0, 1]]
    """
    first = jax.tree.map(lambda leaf: leaf[:1], federation.data)
    seen = jax.eval_shape(federation.read, federation.shared, first)
    if not (isinstance(seen, tuple) and len(seen) == 2 and _is_class(seen[1])):
        return None
    classes = _classes(federation)
    if classes.min() < 0:
        return None
    kinds = int(classes.max()) + 1
    client = np.repeat(np.arange(federation.clients), federation.held)
    counts = np.bincount(client * kinds + classes, minlength=federation.clients * kinds)
    return _few(counts.reshape(federation.clients, kinds), federation.weights)


def _is_class(leaf: Array) -> bool:
    return leaf.ndim == 1 and bool(np.issubdtype(leaf.dtype, np.integer))


def _classes(federation: Federation) -> np.ndarray:
    """The class of every example. Inputs are never made: the compiler sees that nobody wants them."""

    @jax.jit
    def read(shared: Shared, rows: Batch) -> Array:
        return federation.read(shared, rows)[1]

    parts = []
    for start in range(0, int(federation.held.sum()), ROWS_AT_A_TIME):
        some = slice(start, start + ROWS_AT_A_TIME)
        rows = jax.tree.map(lambda leaf, some=some: leaf[some], federation.data)
        parts.append(np.asarray(read(federation.shared, rows)))
    return np.concatenate(parts).astype(np.int64)


def _few(counts: np.ndarray, weights: np.ndarray) -> Labels:
    kinds = counts.shape[1]
    if kinds <= MOST_LABELS:
        return Labels([str(kind) for kind in range(kinds)], counts, weights)
    order = np.argsort(-counts.sum(0), kind="stable")
    kept, rest = np.sort(order[: MOST_LABELS - 1]), order[MOST_LABELS - 1 :]
    joined = np.column_stack([counts[:, kept], counts[:, rest].sum(1)])
    return Labels([*(str(kind) for kind in kept), "others"], joined, weights)
