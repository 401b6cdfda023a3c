"""Where a gradient vanishes: Newton's method, its linear systems solved by conjugate gradients.

Only gradients are asked for, and their derivatives along a direction, which are products with the Hessian. So full
batches, whose gradients are loops over tiles, serve as well as drawn ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from noshow.contracts import Array, Vector

Gradient = Callable[[Vector], Vector]

INEXACT = 0.1
"""A linear system is solved to this residual times the share of the first gradient that is left: roughly at first,
sharper near the end, so that few products are spent far from it and convergence is faster than linear."""
SUFFICIENT = 1e-4
"""The share of a step's promised decrease that it must keep."""
SHORTEST = 2.0**-12
"""Steps are halved until they keep that; where even such a short one does not, none does."""


class Search(NamedTuple):
    """Where the search has come to, and whether its last step lowered the norm of the gradient."""

    point: Vector
    gradient: Vector
    norm: Array
    moved: Array
    steps: Array


def stationary_point(gradient: Gradient, start: Vector, tolerance: float, steps: int) -> Vector:
    """A point where ||gradient|| <= tolerance times its norm at `start`, after at most so many Newton steps.

    Every step lowers the norm; the search also ends where none does, on the floor of the arithmetic. So it finds the
    minimiser of a strongly convex function, and on a quadratic it is conjugate gradients. A start whose gradient is
    not a number gives a point that is none.
    S. Eisenstat, H. Walker, *Globally convergent inexact Newton methods*, 1994.

    Example:
        >>> import jax.numpy as jnp
        >>> curvature = jnp.array([1.0, 8.0])
        >>> stationary_point(lambda z: curvature * z - 1.0, jnp.zeros(2), 1e-6, steps=50).round(4).tolist()
        [1.0, 0.125]
    """
    first = gradient(start)
    norm = jnp.linalg.norm(first)
    target = tolerance * norm

    def unfinished(search: Search) -> Array:
        return (search.norm > target) & search.moved & (search.steps < steps)

    def step(search: Search) -> Search:
        rough = INEXACT * search.norm * search.norm / norm
        direction = newton_direction(gradient, search.point, search.gradient, jnp.maximum(rough, target / 2))
        return move(gradient, search, direction)

    begun = Search(start, first, norm, jnp.asarray(True), jnp.asarray(0))
    return jnp.where(jnp.isnan(norm), norm, lax.while_loop(unfinished, step, begun).point)


class Conjugate(NamedTuple):
    """Conjugate gradients: p so far, what is left of -g - H p and its square, the next direction to go along."""

    p: Vector
    left: Vector
    square: Array
    along: Vector
    curves_up: Array
    steps: Array


def newton_direction(gradient: Gradient, point: Vector, here: Vector, residual: Array) -> Vector:
    """p with ||H p + g|| <= residual, by conjugate gradients from p = 0, in d steps at most; g is the gradient `here`.

    They end early where the function curves down. That does no harm: what is left of -g - H p is orthogonal to g
    from the first step on, so that ||g||^2 / 2 falls along every p with the same slope, <H g, p> = -||g||^2.

    Example:
        >>> import jax.numpy as jnp
        >>> curvature, z = jnp.array([1.0, 10.0]), jnp.ones(2)
        >>> newton_direction(lambda z: curvature * z, z, curvature * z, jnp.asarray(1e-5)).round(4).tolist()
        [-1.0, -1.0]
    """

    def unfinished(now: Conjugate) -> Array:
        return (now.square > residual**2) & now.curves_up & (now.steps < here.size)

    def step(now: Conjugate) -> Conjugate:
        _, product = jax.jvp(gradient, (point,), (now.along,))
        curvature = jnp.vdot(now.along, product)
        curves_up = curvature > 0
        length = jnp.where(curves_up, now.square / curvature, 0.0)
        left = now.left - length * product
        square = jnp.vdot(left, left)
        along = left + square / now.square * now.along
        return Conjugate(now.p + length * now.along, left, square, along, curves_up, now.steps + 1)

    square = jnp.vdot(here, here)
    begun = Conjugate(jnp.zeros_like(here), -here, square, -here, jnp.asarray(True), jnp.asarray(0))
    return lax.while_loop(unfinished, step, begun).p


def move(gradient: Gradient, search: Search, direction: Vector) -> Search:
    """The first of the steps 1, 1/2, 1/4, … along the direction that lowers the norm enough; none, if none does."""

    def attempt(length: Array) -> Search:
        point = search.point + length * direction
        there = gradient(point)
        norm = jnp.linalg.norm(there)
        return Search(point, there, norm, norm <= (1 - SUFFICIENT * length) * search.norm, search.steps + 1)

    def too_long(tried: tuple[Array, Search]) -> Array:
        length, after = tried
        return ~after.moved & (length > SHORTEST)

    def halve(tried: tuple[Array, Search]) -> tuple[Array, Search]:
        length = tried[0] / 2
        return length, attempt(length)

    stay = search._replace(moved=jnp.asarray(False))
    _, after = lax.while_loop(too_long, halve, (jnp.asarray(2.0), stay))
    return jax.tree.map(lambda new, old: jnp.where(after.moved, new, old), after, stay)
