"""The strongest adversaries of a single round: of all the silences that the law allows, the one that does most harm.

Let a_i = w_i / (sum of the sampled clients' w), and S the silenced. What S takes out of the server's update is

    amplify   in proportion to  sum over S of p_i,                            p_i = a_i reply_i      (the paper's rule)
    average   exactly           sum over S of p_i / sum over the rest of a_j, p_i = a_i (reply_i - sum_j a_j reply_j)

So a client is one piece p_i, and how much harm a set does follows from the products of pieces: whatever d is, all sets
of K clients cost one product with a matrix of 2^K rows and K columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow.contracts import Adversary, Array, Key, Memory, Points, Scene, Weights
from noshow.errors import require

MOST_ENUMERATED = 12
"""Up to so many sampled clients, all 2^K sets are tried; beyond, the set is grown client by client."""

Absence = Literal["amplify", "average"]
"""What the server does without the absent: the paper's amplified sum, or FedAvg's and FedProx's average."""
Harm = Callable[[Array], Array]
"""Sets of silenced clients, one a row [n, K], true where silenced -> how much harm each does [n]."""

# Sets may differ by little: accelerators' short products would blur which is worse.
_product = partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def worst_case(server: Absence = "amplify") -> Adversary:
    """Silences those without whom the server's update is furthest from the one with all the sampled replies.

    It sees the replies and maximises, over all sets S that the law allows,

        || sum over S of w_i reply_i ||                      (server = "amplify", the paper's rule)
        || mean over the others - mean over all sampled ||   (server = "average", means weighted by w_i)

    exactly for up to 12 sampled clients; beyond, it adds the client that increases this most as long as the law lets
    it.

    Args:
        server: what the server does without the absent, by its name in `noshow.servers`.

    Example:
        >>> import noshow as ns
        >>> adversary = ns.adversaries.worst_case(server="average")
    """
    _check_server(server)

    def harm(scene: Scene) -> Harm:
        pieces = _pieces(_steps(scene), _shares(scene), server)
        products = _product(pieces, pieces.T)
        return lambda sets: (_product(sets, products) * sets).sum(1) / _remaining(sets, _shares(scene), server) ** 2

    return _strongest(harm, "worst_case")


def least_progress(server: Absence = "amplify") -> Adversary:
    """Silences those without whom the round makes the least progress -<grad F(theta_t), theta_{t+1} - theta_t>.

    It sees the replies and the gradient of the whole objective, F = sum w_i F_i over everybody's data, and minimises,
    over all sets S that the law allows,

        sum over the others of w_i <-grad F, reply_i>        (server = "amplify", the paper's rule)
        their mean of <-grad F, reply_i>, weighted by w_i    (server = "average")

    exactly for up to 12 sampled clients; beyond, it adds the client that decreases this most as long as the law lets
    it. Below zero the update climbs F. The gradient over everybody's data is worked out in every round, and costs so.

    Args:
        server: what the server does without the absent, by its name in `noshow.servers`.

    Example:
        >>> import noshow as ns
        >>> adversary = ns.adversaries.least_progress()
    """
    _check_server(server)

    def harm(scene: Scene) -> Harm:
        downhill = _product(_steps(scene), -_seen(scene.gradient, "gradient"))
        pieces = _pieces(downhill, _shares(scene), server)
        return lambda sets: _product(sets, pieces) / _remaining(sets, _shares(scene), server)

    return _strongest(harm, "least_progress")._replace(sees_gradient=True)


def _strongest(harm: Callable[[Scene], Harm], name: str) -> Adversary:
    """The adversary that wants the most harmful set that the law allows, and nobody else.

    Such a set fits under the law in any order, so `noshow.budget` silences exactly this one.
    """

    def score(state: Memory, key: Key, scene: Scene) -> Array:
        sampled = scene.ids.shape[0]
        search = _by_enumeration if sampled <= MOST_ENUMERATED else _greedily
        silenced = search(harm(scene), partial(_allowed, scene), sampled)
        return jnp.where(silenced, 0.0, -jnp.inf)

    return Adversary(score, sees_replies=True, name=name)


def _by_enumeration(harm: Harm, allowed: Callable[[Array], Array], sampled: int) -> Array:
    """The worst of all sets."""
    sets = jnp.asarray((np.arange(2**sampled)[:, None] >> np.arange(sampled)) % 2 == 1)
    return _worst(harm, allowed, sets)


def _greedily(harm: Harm, allowed: Callable[[Array], Array], sampled: int) -> Array:
    """A set grown from nobody by the client that adds most harm, until nobody adds any or the law forbids."""

    def grow(_: Array, silenced: Array) -> Array:
        larger = silenced | jnp.eye(sampled, dtype=bool)
        return _worst(harm, allowed, jnp.concatenate([silenced[None], larger]))

    return lax.fori_loop(0, sampled - 1, grow, jnp.zeros(sampled, bool))


def _worst(harm: Harm, allowed: Callable[[Array], Array], sets: Array) -> Array:
    """The most harmful of the allowed sets; of equals the first, which is the one without anybody in vain."""
    return sets[jnp.argmax(jnp.where(allowed(sets), harm(sets), -jnp.inf))]


def _allowed(scene: Scene, sets: Array) -> Array:
    """Which sets leave somebody to answer and stay within the law [n]."""
    somebody_answers = ~sets.all(1)
    if scene.limit is None:
        return somebody_answers
    return somebody_answers & (jnp.where(sets, scene.sizes, 0).sum(1) <= scene.limit)


def _pieces(replies: Array, shares: Weights, server: Absence) -> Array:
    """Each client's piece p_i of what absence takes away; `replies` are vectors [K, d] or numbers [K]."""
    centre = _product(shares, replies) if server == "average" else 0.0
    return ((replies - centre).T * shares).T


def _remaining(sets: Array, shares: Weights, server: Absence) -> Array | float:
    """What the pieces of each set are divided by."""
    return _product(~sets, shares) if server == "average" else 1.0


def _shares(scene: Scene) -> Weights:
    return scene.weights / scene.weights.sum()


def _steps(scene: Scene) -> Points:
    """The replies as steps to add to theta, up to the rate, which they share and which does not change who is worst."""
    replies = _seen(scene.replies, "replies")
    return replies if scene.sends == "displacement" else -replies


def _seen(part: Array | None, name: str) -> Array:
    require(part is not None, f"the scene holds no {name}: an adversary that ranks by them must ask to see them")
    return jnp.asarray(part)


def _check_server(server: str) -> None:
    require(server in ("amplify", "average"), f"server is {server!r}: give 'amplify' or 'average'")
