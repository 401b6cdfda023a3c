"""Synthetic(alpha, beta): clients that disagree on the labels and on the inputs, and hold very different amounts.

O. Shamir, N. Srebro, T. Zhang, 2014, in the form of T. Li et al., *Federated optimization in heterogeneous
networks*, 2020.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import jax
import numpy as np

from noshow.contracts import Key
from noshow.errors import require
from noshow.federation import Federation, aligned_empty

FEATURES = 60
CLASSES = 10
TRAIN_SHARE = 0.9
CLIENTS_AT_ONCE = 256


def synthetic(
    alpha: float = 1.0,
    beta: float = 1.0,
    clients: int = 100,
    sizes: Literal["power-law"] | int = "power-law",
    seed: int = 0,
) -> Federation:
    """Synthetic(alpha, beta) as a federation of full batches.

    Client i has u_i ~ N(0, alpha) and B_i ~ N(0, beta); the entries of its W_i (10 x 60) and b_i are N(u_i, 1), those
    of its v_i N(B_i, 1). Inputs x ~ N(v_i, diag(j^-1.2)), labels y = argmax(W_i x + b_i). 90 % of a client's examples
    train, the others test. Variances alpha and beta; the paper's Synthetic(1,1) has both at 1. As u_i shifts all ten
    logits of an example alike, alpha never changes a label: the definition is kept as published.

    Args:
        sizes: `"power-law"` for floor(lognormal(4, 2)) + 50 examples a client, or one number for all (balanced).

    Example:
        >>> import noshow as ns
        >>> ns.datasets.synthetic(1, 1, clients=4, sizes=50).held.tolist()
        [45, 45, 45, 45]
    """
    require(alpha >= 0, f"alpha is {alpha}: it is a variance, give zero or more")
    require(beta >= 0, f"beta is {beta}: it is a variance, give zero or more")
    require(seed >= 0, f"seed is {seed}: give zero or more")
    require(clients >= 1, f"clients is {clients}: give 1 or more")
    require(
        sizes == "power-law" or int(sizes) >= 2, f"sizes is {sizes}: give 'power-law' or 2 or more examples a client"
    )
    fewest = 50 if sizes == "power-law" else int(sizes)
    require(clients * fewest < 2**31, f"clients is {clients}: with {fewest} examples or more each, that is over 2^31")
    recipe = Recipe(alpha, beta, clients, sizes, seed)
    return _draw(recipe, np.random.default_rng([seed, _DRAWS]))


class Recipe(NamedTuple):
    """What fixes the clients' distributions and sizes; the draws have a generator of their own."""

    alpha: float
    beta: float
    clients: int
    sizes: Literal["power-law"] | int
    seed: int


class Labeller(NamedTuple):
    """One client's distribution: y = argmax(weights x + bias) for x around `centre`."""

    weights: np.ndarray
    bias: np.ndarray
    centre: np.ndarray


_CLIENTS, _SIZES, _DRAWS, _COPIES = 0, 1, 2, 3  # one random stream each, so that a copy keeps clients and sizes


def _sizes(recipe: Recipe) -> np.ndarray:
    if recipe.sizes != "power-law":
        return np.full(recipe.clients, int(recipe.sizes))
    rng = np.random.default_rng([recipe.seed, _SIZES])
    return np.floor(rng.lognormal(4.0, 2.0, recipe.clients)).astype(np.int64) + 50


def _labellers(recipe: Recipe) -> Iterator[Labeller]:
    rng = np.random.default_rng([recipe.seed, _CLIENTS])
    scale = np.sqrt(np.array([recipe.alpha, recipe.beta], np.float32))
    labels = CLASSES * (FEATURES + 1)
    for start in range(0, recipe.clients, CLIENTS_AT_ONCE):
        count = min(CLIENTS_AT_ONCE, recipe.clients - start)
        draws = rng.standard_normal((count, 2 + labels + FEATURES), np.float32)
        means = draws[:, :2] * scale
        for (u, b), entries in zip(means, draws[:, 2:], strict=True):
            w = (entries[:labels] + u).reshape(CLASSES, FEATURES + 1)
            yield Labeller(w[:, :FEATURES], w[:, FEATURES], entries[labels:] + b)


def _draw(recipe: Recipe, rng: np.random.Generator) -> Federation:
    sizes = _sizes(recipe)
    held = (TRAIN_SHARE * sizes).astype(np.int64)
    train = _examples(int(held.sum()))
    test = _examples(int((sizes - held).sum()))
    deviations = np.arange(1, FEATURES + 1, dtype=np.float32) ** -0.6
    train_row = test_row = 0
    for labeller, size, kept in zip(_labellers(recipe), sizes, held, strict=True):
        x = rng.standard_normal((size, FEATURES), np.float32) * deviations + labeller.centre
        y = np.argmax(x @ labeller.weights.T + labeller.bias, axis=1)
        for (all_x, all_y), row, part in ((train, train_row, slice(None, kept)), (test, test_row, slice(kept, None))):
            rows = slice(row, row + len(y[part]))
            all_x[rows], all_y[rows] = x[part], y[part]
        train_row, test_row = train_row + kept, test_row + size - kept

    def resampled(key: Key) -> Federation:
        words = np.asarray(jax.random.key_data(key)).ravel().tolist()
        return _draw(recipe, np.random.default_rng([recipe.seed, _COPIES, *words]))

    name = f"synthetic({recipe.alpha:g},{recipe.beta:g})"
    return Federation(train, held, test, resampled=resampled, name=name)


def _examples(count: int) -> tuple[np.ndarray, np.ndarray]:
    return aligned_empty((count, FEATURES), np.float32), aligned_empty((count,), np.int32)
