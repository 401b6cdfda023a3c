"""Shakespeare: a client is one role in one play; it reads 80 characters and tells the next one.

The task and its rules are LEAF's (`noshow.datasets.leaf`). The clients' texts are kept once, and an example is only
where its window starts: 4 million examples take 20 MB, not 340.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow.contracts import Array, Key, Numbers
from noshow.datasets import shakespeare_files
from noshow.datasets.leaf import WINDOW, encode, speakers, split
from noshow.errors import require, whole
from noshow.federation import Batches, Federation

CLIENTS = 660
"""The speakers that LEAF's split at 0.9 leaves: those with a test example."""


def shakespeare(
    clients: int = 125,
    batch_size: int = 500,
    batches: Batches = "round",
    seed: int = 0,
    dir: str | None = None,  # noqa: A002 - as in every data set that reads files
) -> Federation:
    """LEAF's Shakespeare: the next character after 80, for speakers chosen at random.

    The first 90 % of a client's examples train; of the others those test whose windows overlap none that trains.
    The model sees `(x, y)`: codes x [n, 80] and y [n], int32, below `noshow.datasets.leaf.VOCABULARY`.

    The independent copy (`resample`) draws each client's training examples anew, with replacement, from that client's
    own training examples; sizes, texts and test examples stay.

    Args:
        clients: M, how many of the 660 speakers take part; all of them at 660. Fewer clients with the same seed are
            some of the more. They stay in the order in which they first speak.
        batch_size: examples a client draws at a time, fewer if it holds fewer; see `batches`.
        batches: `"round"`, `"step"` or `"full"`, as in `Federation.drawing`.
        seed: chooses the speakers.
        dir: the folder with the text; without it, noshow's own data folder.

    Example:
        >>> import noshow as ns
        >>> federation = ns.datasets.shakespeare(clients=3)  # doctest: +SKIP
        >>> federation.held.tolist()  # doctest: +SKIP
        [1846, 4937, 30618]
    """
    clients, seed = whole(clients, f"clients is {clients!r}"), whole(seed, f"seed is {seed!r}")
    require(1 <= clients <= CLIENTS, f"clients is {clients}: give 1 to {CLIENTS}")
    require(seed >= 0, f"seed is {seed}: give zero or more")
    works = shakespeare_files.text(dir).decode("utf-8-sig")
    texts = [speaker.text for speaker in speakers(works) if split(speaker.examples)[1]]
    chosen = np.sort(np.random.default_rng([seed, _CHOICE]).permutation(len(texts))[:clients])
    return federate([texts[i] for i in chosen], batch_size, batches, seed)


_CHOICE, _COPIES = 0, 1  # one random stream each


def federate(texts: Sequence[str], batch_size: int, batches: Batches, seed: int) -> Federation:
    """A federation with one client a text, each long enough for a test example."""
    splits = [split(len(text) - WINDOW) for text in texts]
    first = np.cumsum([0, *(len(text) for text in texts[:-1])])
    held = np.array([len(train) for train, _ in splits])

    def resampled(key: Key) -> Federation:
        words = np.asarray(jax.random.key_data(key)).ravel().tolist()
        rng = np.random.default_rng([seed, _COPIES, *words])
        return replace(federation, data=rng.integers(np.repeat(first, held), np.repeat(first + held, held)))

    federation = Federation(
        data=_starts(first, (train for train, _ in splits)),
        held=held,
        test=_starts(first, (test for _, test in splits)),
        batches=batches,
        batch_size=batch_size,
        resampled=resampled,
        name="shakespeare",
        shared=encode("".join(texts)),
        read=windows,
    )
    return federation


def windows(text: Numbers, starts: Numbers) -> tuple[Array, Array]:
    """The windows x [n, 80] of a text that start at `starts` [n], and the characters y [n] that follow them.

    Example:
        >>> import numpy as np
        >>> from noshow.datasets.leaf import decode, encode
        >>> from noshow.datasets.shakespeare import windows
        >>> x, y = windows(encode("Shall I compare thee to a summer's day? " * 3), np.array([0, 6]))
        >>> x.shape, decode(y)
        ((2, 80), 'SI')
    """
    # One slice a window, not 81 places: four times as fast on a CPU.
    spans = jax.vmap(lambda start: lax.dynamic_slice_in_dim(text, start, WINDOW + 1))(jnp.asarray(starts))
    codes = spans.astype(jnp.int32)
    return codes[:, :WINDOW], codes[:, WINDOW]


def _starts(first: np.ndarray, parts: Iterable[range]) -> np.ndarray:
    """Where the windows of some of each client's examples start in the joined text."""
    return np.concatenate([start + np.arange(part.start, part.stop) for start, part in zip(first, parts, strict=True)])
