"""What a client computes in its round, and what it replies.

`sgd` and `prox` reply with the displacement theta_{i,t+1} - theta_t, `momentum` with its momentum.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from noshow.contracts import Array, Client, LocalData, Memory, Vector, Work
from noshow.errors import require


def sgd(steps: int = 1) -> Client:
    """FedAvg's client: `steps` times z <- z - eta_t grad l(z), from z = theta_t.

    Example:
        >>> import noshow as ns
        >>> client = ns.clients.sgd(steps=25)
    """
    require(steps >= 1, f"steps is {steps}: a client takes 1 step or more")

    def reply(local: LocalData, theta: Vector, memory: Memory, rate: Array) -> Work:
        def step(k: Array, carry: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
            z, gradients = carry
            g = local.gradient(z, k)
            return z - rate * g, gradients + g

        z, gradients = lax.fori_loop(0, steps, step, (theta, jnp.zeros_like(theta)))
        return Work(z - theta, memory, gradients)

    return Client(reply)


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
    require(steps >= 1, f"steps is {steps}: a client takes 1 step or more")
    new_share = _damping(momentum, damping)

    def reply(local: LocalData, theta: Vector, memory: Memory, rate: Array) -> Work:
        def step(k: Array, carry: tuple[Vector, Vector, Vector]) -> tuple[Vector, Vector, Vector]:
            z, m, gradients = carry
            g = local.gradient(z, k)
            m = momentum * m + new_share * (g + mu * (z - theta))
            return z - rate * m, m, gradients + g

        zero = jnp.zeros_like(theta)
        z, _, gradients = lax.fori_loop(0, steps, step, (theta, zero, zero))
        return Work(z - theta, memory, gradients)

    return Client(reply)


def momentum(momentum: float = 0.9, damping: float | None = None) -> Client:
    """One gradient g at theta_t into the client's own buffer, m_i <- momentum m_i + damping g; the reply is m_i.

    The buffer lives between rounds and moves only in rounds in which the client answers. `damping` is
    1 - momentum if left out (the paper's text). The authors ran 1.

    Example:
        >>> import noshow as ns
        >>> client = ns.clients.momentum(0.9)
    """
    new_share = _damping(momentum, damping)

    def reply(local: LocalData, theta: Vector, memory: Memory, rate: Array) -> Work:
        g = local.gradient(theta)
        m = momentum * memory + new_share * g
        return Work(m, m, g)

    return Client(reply, init=lambda d, clients: jnp.zeros((clients, d)), sends="gradient")


def _damping(momentum: float, damping: float | None) -> float:
    require(0 <= momentum < 1, f"momentum is {momentum}: give a number from 0 up to, but not including, 1")
    if damping is None:
        return 1.0 - momentum
    require(
        math.isfinite(damping) and damping > 0,
        f"damping is {damping}: give a number above zero, or leave it out for 1 - momentum",
    )
    return damping
