"""What the server does with the replies that arrive."""

from __future__ import annotations

import math

import jax.numpy as jnp

from noshow.contracts import Aggregator, Array, Memory, Replies, Server, Vector
from noshow.errors import require
from noshow.recall import recalled, recalling
from noshow.width import Width, as_kept, check_width, remembered, widen


def average() -> Server:
    """theta <- theta + sum over responders of w_i / (sum of the responders' w) * reply_i: FedAvg's rule.

    When nobody answered, theta stays.

    Example:
        >>> import noshow as ns
        >>> server = ns.servers.average()
    """

    def step(state: Memory, theta: Vector, replies: Replies, rate: Array) -> tuple[Memory, Vector]:
        heard = jnp.where(replies.answered, replies.weights, 0.0)
        total = heard.sum()
        share = heard / jnp.where(total > 0, total, 1.0)
        return state, theta + share @ replies.displacements(rate)

    return Server(step, linear=True)


def amplify(beta: float | None = None) -> Server:
    """theta <- theta + beta * sum over responders of w_i * reply_i: the paper's global update.

    beta makes up for clients that were not sampled or did not answer. It is M/K if left out.

    Example:
        >>> import noshow as ns
        >>> server = ns.servers.amplify(beta=10)
    """
    require(
        beta is None or (math.isfinite(beta) and beta >= 1),
        f"beta is {beta}: the paper's amplification takes 1 or more",
    )

    def step(state: Memory, theta: Vector, replies: Replies, rate: Array) -> tuple[Memory, Vector]:
        gain = replies.clients / replies.sampled if beta is None else beta
        heard = jnp.where(replies.answered, replies.weights, 0.0)
        return state, theta + gain * (heard @ replies.displacements(rate))

    return Server(step, linear=True)


def remember(aggregator: Aggregator, memory: Width | None = None) -> Server:
    """Keeps each client's last direction G_i, zero until it first answers: theta <- theta - rate * aggregate(G, w).

    Over all M clients, with weights w_i. A displacement counts as G_i = -reply_i / rate (MIFA), a momentum as
    itself. The memory is M x d numbers, float32 unless `memory="bfloat16"` halves it. Our own aggregators widen such
    points as they go; one of yours gets all of them as float32, which takes memory while it works.

    Example:
        >>> import noshow as ns
        >>> server = ns.servers.remember(ns.aggregators.geometric_median())
    """

    def step(state: Memory, theta: Vector, replies: Replies, rate: Array) -> tuple[Memory, Vector]:
        last = widen(state[replies.ids])
        heard = jnp.where(replies.answered[:, None], replies.gradients(rate), last)
        state = state.at[replies.ids].set(as_kept(heard, state), unique_indices=True)
        return state, theta - rate * recalled(aggregator, state, replies.all_weights, replies.key)

    check_width(memory)
    return Server(recalling(step, aggregator), init=lambda d, clients: remembered((clients, d), memory))
