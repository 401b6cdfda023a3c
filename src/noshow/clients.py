"""What a client computes in its round, and what it replies.

`sgd`, `prox` and `exact_prox` reply with the displacement theta_{i,t+1} - theta_t, `momentum` with its momentum.
"""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
from jax import lax

from noshow.contracts import Array, Client, LocalData, Memory, Vector, Work
from noshow.errors import require, whole
from noshow.newton import stationary_point
from noshow.width import Width, as_kept, check_width, remembered, widen


def sgd(steps: int = 1) -> Client:
    """FedAvg's client: `steps` times z <- z - eta_t grad l(z), from z = theta_t.

    Example:
        >>> import noshow as ns
        >>> client = ns.clients.sgd(steps=25)
    """
    require(whole(steps, f"steps is {steps!r}") >= 1, f"steps is {steps}: give a whole number, 1 or more")
    return _sgd(steps)


# Equal settings give the same object: runs of different algorithms with one client can be played side by side.
@cache
def _sgd(steps: int) -> Client:
    def reply(local: LocalData, theta: Vector, memory: Memory, rate: Array) -> Work:
        def step(k: Array, carry: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
            z, gradients = carry
            g = local.gradient(z, k)
            return z - rate * g, gradients + g

        z, gradients = lax.fori_loop(0, steps, step, (theta, jnp.zeros_like(theta)))
        return Work(z - theta, memory, gradients)

    return Client(reply, steps=steps, gradients=steps)


def prox(mu: float, steps: int = 10, momentum: float = 0.9, damping: float | None = None) -> Client:
    """FedProx's client: momentum SGD on l(z) + (mu/2) ||z - theta_t||^2, the paper's local proximal program.

    `steps` times, from z = theta_t and m = 0:

        m <- momentum m + damping (grad l(z) + mu (z - theta_t)),   z <- z - rate m

    Args:
        mu: weight of the proximal term (the paper's 1/eta_t, kept constant).
        steps: local steps s.
        momentum: beta_0 of the paper's momentum SGD.
        damping: factor of the new gradient; 1 - momentum if left out (the paper's text). The authors ran 1.

    Example:
        >>> import noshow as ns
        >>> client = ns.clients.prox(mu=0.1, steps=10)
    """
    require(math.isfinite(mu) and mu >= 0, f"mu is {mu}: give zero or more")
    require(whole(steps, f"steps is {steps!r}") >= 1, f"steps is {steps}: give a whole number, 1 or more")
    return _prox(mu, steps, momentum, _damping(momentum, damping))


@cache
def _prox(mu: float, steps: int, momentum: float, new_share: float) -> Client:
    def reply(local: LocalData, theta: Vector, memory: Memory, rate: Array) -> Work:
        def step(k: Array, carry: tuple[Vector, Vector, Vector]) -> tuple[Vector, Vector, Vector]:
            z, m, gradients = carry
            g = local.gradient(z, k)
            m = momentum * m + new_share * (g + mu * (z - theta))
            return z - rate * m, m, gradients + g

        zero = jnp.zeros_like(theta)
        z, _, gradients = lax.fori_loop(0, steps, step, (theta, zero, zero))
        return Work(z - theta, memory, gradients)

    return Client(reply, gradients=steps)


def exact_prox(tolerance: float = 1e-5, newton_steps: int = 50) -> Client:
    """FedProx's client as the paper's theorems have it: the minimiser of l(z) + ||z - theta_t||^2 / (2 eta_t).

    It is found by Newton's method with conjugate gradients (`noshow.newton`), to a tolerance: ||grad l(z) +
    (z - theta_t) / eta_t|| <= tolerance ||grad l(theta_t)||, where 32-bit arithmetic allows. The program has one
    minimiser if eta_t < 1 / L_-, with -L_- the least curvature of l (the paper's Assumption on FedProx); beyond, the
    client ends at a point where no step lowers that norm. l is the loss on one batch, also where clients could draw
    one every step.

    Args:
        tolerance: how exact, relative to the gradient at theta_t.
        newton_steps: the most steps of Newton's method.

    Example:
        >>> import noshow as ns
        >>> client = ns.clients.exact_prox(tolerance=1e-4)
    """
    require(0 < tolerance < 1, f"tolerance is {tolerance}: give a number between 0 and 1")
    require(newton_steps >= 1, f"newton_steps is {newton_steps}: give 1 or more")

    def reply(local: LocalData, theta: Vector, memory: Memory, rate: Array) -> Work:
        # In u = z - theta_t and times eta_t: small steps keep their digits, and the Hessian is the identity + eta_t H.
        def gradient(u: Vector) -> Vector:
            return u + rate * local.gradient(theta + u)

        # Short products, which accelerators use unless told otherwise, would set the floor far above the tolerance.
        with jax.default_matmul_precision("highest"):
            u = stationary_point(gradient, jnp.zeros_like(theta), tolerance, newton_steps)
        # At the minimiser, u = -eta_t grad l(z): the one gradient that a step along would have led there.
        return Work(u, memory, -u / rate)

    return Client(reply, steps=1)


def momentum(momentum: float = 0.9, damping: float | None = None, memory: Width | None = None) -> Client:
    """One gradient g at theta_t into the client's own buffer, m_i <- momentum m_i + damping g; the reply is m_i.

    The buffer lives between rounds and moves only in rounds in which the client answers. `damping` is
    1 - momentum if left out (the paper's text). The authors ran 1. `memory="bfloat16"` keeps the buffers at half the
    width.

    Example:
        >>> import noshow as ns
        >>> client = ns.clients.momentum(0.9)
    """
    check_width(memory)
    return _momentum(momentum, _damping(momentum, damping), memory)


@cache
def _momentum(momentum: float, new_share: float, width: Width | None) -> Client:
    def reply(local: LocalData, theta: Vector, memory: Memory, rate: Array) -> Work:
        g = local.gradient(theta)
        m = momentum * widen(memory) + new_share * g
        return Work(m, as_kept(m, memory), g)

    return Client(reply, init=lambda d, clients: remembered((clients, d), width), sends="gradient")


def _damping(momentum: float, damping: float | None) -> float:
    require(0 <= momentum < 1, f"momentum is {momentum}: give a number from 0 up to, but not including, 1")
    if damping is None:
        return 1.0 - momentum
    require(
        math.isfinite(damping) and damping > 0,
        f"damping is {damping}: give a number above zero, or leave it out for 1 - momentum",
    )
    return damping
