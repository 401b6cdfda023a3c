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
        >>> federation, model = ns.datasets.synthetic(clients=4, sizes=5), ns.models.logistic()
        >>> short = {"pairs": [(0, 1)], "candidates": (2, 1)}
        >>> shadow = ns.adversaries.shadow(ns.algorithms.fedavg(0.1), ns.algorithms.cclip(0.1), **short)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     adversary = keeping(shadow, Path(folder) / "adversary.npz")
        ...     played = adversary.init(jax.random.key(0), federation, model)
        ...     kept = adversary.init(jax.random.key(0), federation, model)
        >>> type(played).__name__, type(kept).__name__, kept.tolist() == played.tolist()
        ('ArrayImpl', 'ndarray', True)
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
