"""The law: how much may be silenced in a round. The one place where anybody is dropped.

The silenced clients' data obey sum n_i <= epsilon K N / M every round (the paper's Assumption on the adversary's
dropout fraction), and at least one sampled client always answers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow.contracts import Array, Key
from noshow.errors import require


def limit(epsilon: float, sampled: int, sizes: np.ndarray) -> int:
    """The most examples that may be silenced in a round: floor(epsilon K N / M), exactly.

    Sizes are whole numbers, so rounding down loses nothing; epsilon counts as the decimal it was written as, so
    that 0.7 of 10 equal clients is 7 of them, and a quotient such as 1/3 as what it is, though no decimal is.

    Example:
        >>> import numpy as np
        >>> limit(0.7, sampled=10, sizes=np.full(100, 500))
        3500
        >>> limit(1 / 3, sampled=3, sizes=np.ones(3))
        1
    """
    require(
        math.isfinite(epsilon) and 0 <= epsilon < 1,
        f"epsilon is {epsilon}: give a number from 0 up to, but not including, 1",
    )
    total = int(np.sum(sizes, dtype=np.int64))
    most = math.floor(Fraction(repr(float(epsilon))) * sampled * total / len(sizes))
    # One more, where epsilon_t would be epsilon to the last bit.
    return most + ((most + 1) * len(sizes) / (sampled * total) <= epsilon)


def silence(key: Key, scores: Array, sizes: Array, limit: int | None) -> Array:
    """Who of the sampled is silenced [K], given the adversary's scores.

    From the highest score down, ties in random order, a client is silenced if its n_i still fits under the limit
    and it is not the last one left. A score of -inf (or NaN) leaves a client alone. `limit=None` is the law off:
    everybody with a score is silenced.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> silence(jax.random.key(0), jnp.array([3.0, 2.0, 1.0]), jnp.array([60, 50, 40]), 100).tolist()
        [True, False, True]
    """
    wanted = scores > -jnp.inf
    if limit is None:
        return wanted
    chance = jax.random.uniform(key, scores.shape)
    order = jnp.lexsort((chance, -jnp.where(wanted, scores, -jnp.inf)))

    def decide(carry: tuple[Array, Array], client: Array) -> tuple[tuple[Array, Array], Array]:
        room, answering = carry
        drop = wanted[client] & (sizes[client] <= room) & (answering > 1)
        return (room - jnp.where(drop, sizes[client], 0), answering - drop), drop

    # More than an int32 holds would overflow: rounded down, the law is kept.
    most = min(limit, 2**31 - 1) if isinstance(limit, int) else limit
    start = jnp.asarray(most, jnp.int32), jnp.asarray(scores.shape[0], jnp.int32)
    _, dropped = lax.scan(decide, start, order)
    return jnp.zeros(scores.shape, bool).at[order].set(dropped)


def used_fraction(silenced_examples: np.ndarray, sampled: int | np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """epsilon_t = (silenced examples) / (K N / M), the share of the law's measure that was used.

    Example:
        >>> import numpy as np
        >>> used_fraction(np.array([10, 20]), sampled=4, sizes=np.full(8, 10)).tolist()
        [0.25, 0.5]
    """
    # Whole numbers above and below the line: one rounding, so that epsilon_t never passes epsilon in the last bit.
    above = np.asarray(silenced_examples, np.int64) * len(sizes)
    return above / (sampled * np.sum(sizes, dtype=np.int64))
