"""What an adversary has prepared, on disk: rehearsals take long, and need not be played twice."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np

from noshow.arrays import load_arrays, save_arrays
from noshow.contracts import Adversary, Key, Memory, Model
from noshow.federation import Federation
from noshow.files import write_whole


def keeping(adversary: Adversary, file: Path) -> Adversary:
    """The same adversary, with what it prepares, one array a seed, kept in this file for runs of one spec.

    Example:
        >>> import tempfile
        >>> import noshow as ns
        >>> federation, model = ns.datasets.synthetic(clients=10, sizes=5), ns.models.logistic()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     adversary = keeping(ns.adversaries.round_robin(groups=5), Path(folder) / "adversary.npz")
        ...     groups = adversary.init(jax.random.key(0), federation, model)
        ...     bool((adversary.init(jax.random.key(0), federation, model) == groups).all())
        True
    """

    def init(key: Key, federation: Federation, model: Model) -> Memory:
        name = "key-" + "-".join(str(word) for word in np.asarray(jax.random.key_data(key)).ravel())
        kept = load_arrays(file) if file.is_file() else {}
        if name in kept:
            return kept[name]
        state = adversary.init(key, federation, model)
        if isinstance(state, jax.Array):
            write_whole(file, lambda part: save_arrays(part, kept | {name: np.asarray(state)}))
        return state

    return adversary._replace(init=init)
