"""Adversaries that need no rehearsal."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from noshow.contracts import Adversary, Array, Key, Memory, Model, Scene
from noshow.errors import require
from noshow.federation import Federation


def nobody() -> Adversary:
    """Silences no one: epsilon_t = 0.

    Example:
        >>> import noshow as ns
        >>> adversary = ns.adversaries.nobody()
    """
    return Adversary(lambda state, key, scene: jnp.full(scene.ids.shape, -jnp.inf), name="nobody")


def anybody() -> Adversary:
    """Silences at random, as much as the law lets: what to hold an adversary that chooses against.

    Example:
        >>> import noshow as ns
        >>> adversary = ns.adversaries.anybody()
    """
    return Adversary(lambda state, key, scene: jnp.zeros(scene.ids.shape), name="anybody")  # ties in random order


def largest_reply() -> Adversary:
    """Silences the largest w_i ||sum of the round's local gradients|| first. It sees the replies before it chooses.

    Example:
        >>> import noshow as ns
        >>> adversary = ns.adversaries.largest_reply()
    """

    def score(state: Memory, key: Key, scene: Scene) -> Array:
        require(
            scene.gradients is not None,
            "largest_reply ranks by gradients, and this algorithm's client reports none: return them as Work.gradients",
        )
        return scene.weights * jnp.linalg.norm(scene.gradients, axis=1)

    return Adversary(score, sees_replies=True, name="largest_reply")


def round_robin(groups: int, period: int = 100) -> Adversary:
    """Splits the clients at random into equal groups; in the i-th `period` rounds, group i mod `groups` is silent.

    i counts from 1: rounds 1 … 100 are i = 1, as in the paper. The law is off.

    Example:
        >>> import noshow as ns
        >>> adversary = ns.adversaries.round_robin(groups=5)
    """
    require(groups >= 2, f"groups is {groups}: one group or none would silence everybody; give 2 or more")
    require(period >= 1, f"period is {period}: give 1 round or more")

    def check(federation: Federation) -> None:
        clients = federation.clients
        require(groups <= clients, f"round_robin has {groups} groups for {clients} clients: give fewer groups")

    def init(key: Key, federation: Federation, model: Model) -> Memory:
        # The number of groups is part of the state, so that one compiled program serves them all.
        return jax.random.permutation(key, federation.clients) % groups, jnp.asarray(groups)

    def score(state: Memory, key: Key, scene: Scene) -> Array:
        group, count = state
        turn = (scene.t // period + 1) % count
        return jnp.where(group[scene.ids] == turn, 0.0, -jnp.inf)

    return Adversary(score, init, check, lawful=False, name="round_robin")


def random_response(probability: float | Sequence[float]) -> Adversary:
    """Client i answers with probability p_i, one number for all or one a client, each round anew. The law is off.

    Example:
        >>> import noshow as ns
        >>> adversary = ns.adversaries.random_response(0.4)
    """
    chances = np.asarray(probability, np.float32)
    require(chances.ndim <= 1, "probability must be one number, or one number a client")
    require(bool(np.all((chances >= 0) & (chances <= 1))), f"probability is {probability}: give numbers from 0 to 1")

    def check(federation: Federation) -> None:
        require(
            chances.ndim == 0 or len(chances) == federation.clients,
            f"random_response has {chances.size} probabilities for {federation.clients} clients: "
            "give one number, or one a client",
        )

    def init(key: Key, federation: Federation, model: Model) -> Memory:
        return jnp.asarray(chances)

    def score(chance: Memory, key: Key, scene: Scene) -> Array:
        here = chance if chance.ndim == 0 else chance[scene.ids]
        answers = jax.random.uniform(key, scene.ids.shape) < here
        return jnp.where(answers, -jnp.inf, 0.0)

    return Adversary(score, init, check, lawful=False, name="random_response")
