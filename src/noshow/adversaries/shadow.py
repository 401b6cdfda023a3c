"""The paper's adversary: rehearse the training on a shadow of the data, then silence whoever mattered most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np

from noshow.contracts import Adversary, Algorithm, Array, Key, Memory, Model, Scene, Work
from noshow.errors import NoshowError, require
from noshow.federation import Federation
from noshow.randomness import Purpose, run_key
from noshow.rehearsal import rehearse

Candidates = Literal["all"] | Sequence[int]

ATTEMPTS = 5
"""First models that a rehearsal is played from, should it overflow: LeNet-5 under He's start does so in its first round
from some of them, where one of a hundred clients strays."""


def shadow(
    fedavg: Algorithm,
    cclip: Algorithm,
    pairs: Sequence[Sequence[int]] = ((5, 150),),
    candidates: Candidates = (25, 10),
    order: Literal["random", "score"] = "random",
) -> Adversary:
    """Silences the clients whose gradient changes most between two rounds of two auxiliary runs.

    Before the run it plays FedAvg and cclip with full participation on an independent copy of every client's data,
    and takes for each client g = ||sum of the local gradients|| (FedAvg) and g' = ||momentum|| (cclip) in rounds T1
    and T2. C1 are the K1 clients with the largest |g_T2 - g_T1|, C2 the K2 others with the largest |g'_T2 - g'_T1|.
    Any member of C1 and C2 may be silenced. An auxiliary run that overflows shows nothing, and is played again from
    another first model. The auxiliary runs are kept: the next `simulate` with the same adversary, federation and seed
    does not play them again.

    Args:
        fedavg: the auxiliary FedAvg, with the run's own rate and steps.
        cclip: the auxiliary centred clipping.
        pairs: pairs (T1, T2); the changes of several pairs add up.
        candidates: (K1, K2), or `"all"` to make every client a candidate.
        order: `"random"` (the paper), or `"score"` for the most valuable first: C1 by FedAvg's change, then C2 by
            cclip's; with `"all"`, everybody by FedAvg's.

    Example:
        >>> import noshow as ns
        >>> adversary = ns.adversaries.shadow(ns.algorithms.fedavg(0.01, steps=25), ns.algorithms.cclip(0.01))
    """
    require(len(pairs) > 0, "pairs is empty: give at least one pair of rounds, such as [5, 150]")
    require(
        all(len(pair) == 2 and 0 <= pair[0] < pair[1] for pair in pairs),
        f"pairs is {list(pairs)}: each is two rounds [T1, T2] with 0 <= T1 < T2",
    )
    rounds = [(first, second) for first, second in pairs]
    require(order in ("random", "score"), f"order is {order!r}: give 'random' or 'score'")
    if candidates != "all":
        require(len(candidates) == 2 and min(candidates) >= 0, f"candidates is {candidates}: give [K1, K2] or 'all'")
    played: WeakKeyDictionary[Federation, dict[Any, Memory]] = WeakKeyDictionary()

    # Everybody a candidate, in random order: there is nothing to rehearse.
    indifferent = candidates == "all" and order == "random"

    def check(federation: Federation) -> None:
        wanted = 0 if candidates == "all" else sum(candidates)
        clients = federation.clients
        require(wanted <= clients, f"shadow has {wanted} candidates of {clients} clients: give fewer, or 'all'")
        require(
            indifferent or federation.resampled is not None,
            f"shadow rehearses on an independent copy of the data, which {federation.name!r} cannot draw: "
            "give the federation a `resampled` function, or choose another adversary",
        )

    def init(key: Key, federation: Federation, model: Model) -> Memory:
        if indifferent:
            return jnp.zeros(federation.clients)
        first, second = (federation.clients, 0) if candidates == "all" else candidates
        known = played.setdefault(federation, {})
        name = (model, tuple(np.asarray(jax.random.key_data(key)).ravel().tolist()))
        if name not in known:
            seen = foreseen(federation, model, fedavg, cclip if second else None, rounds, key)
            known[name] = jnp.asarray(_values(seen, first, second, order), jnp.float32)
        return known[name]

    def score(value: Memory, key: Key, scene: Scene) -> Array:
        return value[scene.ids]

    return Adversary(score, init, check, name="shadow")


class Changes(NamedTuple):
    """How much each client's gradient changes [M]: by FedAvg's sums of local gradients, and by cclip's momenta."""

    by_fedavg: np.ndarray
    by_cclip: np.ndarray


def changes(
    federation: Federation,
    model: Model,
    fedavg: Algorithm,
    cclip: Algorithm | None,
    pairs: Sequence[tuple[int, int]],
    seed: int,
) -> Changes:
    """Play both with full participation, and see; without cclip, nobody changes by it."""
    by_fedavg = _changes(federation, model, fedavg, _gradient_norms, pairs, seed)
    if cclip is None:
        return Changes(by_fedavg, np.zeros(len(by_fedavg)))
    return Changes(by_fedavg, _changes(federation, model, cclip, _reply_norms, pairs, seed))


def foreseen(
    federation: Federation,
    model: Model,
    fedavg: Algorithm,
    cclip: Algorithm | None,
    pairs: Sequence[tuple[int, int]],
    key: Key,
) -> Changes:
    """The changes on an independent copy of the data: what the adversary goes by, with its own key."""
    seed = int(jax.random.bits(key, dtype=jnp.uint32))
    return changes(federation.resample(key), model, fedavg, cclip, pairs, seed)


def ranked(seen: Changes, first: int, second: int) -> np.ndarray:
    """The candidates: the `first` whose change by FedAvg is largest, then the `second` others whose change by cclip is.

    Example:
        >>> import numpy as np
        >>> ranked(Changes(np.array([3.0, 1.0, 2.0, 0.0]), np.array([9.0, 0.0, 1.0, 2.0])), 1, 2).tolist()
        [0, 3, 2]
    """
    c1 = np.argsort(-seen.by_fedavg, kind="stable")[:first]
    others = np.setdiff1d(np.arange(len(seen.by_fedavg)), c1)
    return np.concatenate([c1, others[np.argsort(-seen.by_cclip[others], kind="stable")[:second]]])


def _gradient_norms(work: Work) -> Array:
    return jnp.linalg.norm(work.gradients, axis=-1)


def _reply_norms(work: Work) -> Array:
    return jnp.linalg.norm(work.reply, axis=-1)


def _changes(
    federation: Federation, model: Model, algorithm: Algorithm, norms: Any, pairs: Sequence[tuple[int, int]], seed: int
) -> np.ndarray:
    """Sum over the pairs of |norm in round T2 - norm in round T1|, for each client [M]."""
    rounds = 1 + max(max(pair) for pair in pairs)
    for own in _seeds(seed):
        seen = rehearse(federation, model, algorithm, rounds=rounds, seed=own, probe=norms)
        if np.isfinite(seen).all():
            change: np.ndarray = np.sum([np.abs(seen[second] - seen[first]) for first, second in pairs], axis=0)
            return change
    raise NoshowError(
        f"the auxiliary run of {algorithm.name} by which shadow chooses its candidates overflows from each of "
        f"{ATTEMPTS} first models: lower its rate, or choose another adversary"
    )


def _seeds(seed: int) -> Iterator[int]:
    yield seed
    yield from jax.random.bits(run_key(seed, Purpose.PREPARE), (ATTEMPTS - 1,), jnp.uint32).tolist()


def _values(seen: Changes, first: int, second: int, order: str) -> np.ndarray:
    """A score a client: -inf if no candidate; equal in random order; else C1 above C2, larger change higher."""
    chosen = ranked(seen, first, second)
    values = np.full(len(seen.by_fedavg), -np.inf)
    values[chosen] = 0.0 if order == "random" else np.arange(len(chosen), 0, -1)
    return values
