"""How far points lie from another one, over and over: what robust rules spend their time on."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jax.custom_batching import sequential_vmap

from noshow.contracts import Array, Points, Vector
from noshow.devices import on_cpu

PLAIN = 0.05
"""Squared distances above this share of their terms are read off products, which round off some 1e-5 of them there."""


def distances_in(points: Points) -> Callable[[Points, Vector], Array]:
    """The function of (rows, v) that gives every ||x_i - v||; rows are the points, or some of them if they are narrow.

    A CPU makes the products of ||x||^2 - 2 x v + ||v||^2 several times as fast as a pass over all differences. Where
    that would lose figures, since a point and v nearly agree, the pass is made after all.

    Example:
        >>> import jax.numpy as jnp
        >>> points = jnp.array([[0.0, 3.0], [4.0, 0.0]])
        >>> distances_in(points)(points, jnp.zeros(2)).tolist()
        [3.0, 4.0]
    """
    if points.dtype != jnp.float32 or not on_cpu():
        return lambda rows, v: jnp.linalg.norm(rows - v, axis=1)
    squares = jnp.square(points).sum(1)
    return lambda rows, v: _off_products(rows, squares, v)


def _by_products_if_plain(points: Points, squares: Array, v: Vector) -> Array:
    terms = squares + v @ v
    short = terms - 2 * (points @ v)
    plain = (short >= PLAIN * terms).all()
    return jnp.sqrt(lax.cond(plain, lambda: short, lambda: jnp.square(points - v).sum(1)))


# Seeds one after the other: under a batched condition both ways would be gone.
_off_products: Callable[[Points, Array, Vector], Array] = sequential_vmap(_by_products_if_plain)
