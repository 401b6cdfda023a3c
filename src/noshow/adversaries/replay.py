"""The adversary that does what happened before: it plays a trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp

from noshow.contracts import Adversary, Array, Key, Memory, Model, Scene
from noshow.errors import nearest, require
from noshow.federation import Federation
from noshow.trace.file import Trace, read
from noshow.trace.presence import IS_SILENT, latest, presence


def replay(trace: str | Path | Trace, clients: Sequence[str] | None = None, after_training: bool = False) -> Adversary:
    """Silences whoever the trace says was silent in that round. The law is off.

    The simulator samples as always. A sampled client that the trace called in this round does what it did there; one
    that the trace did not call does what it did when it was last called, and answers if it has never been called. The
    trace's first round is the simulator's first, whatever its number; after the last, the trace starts over.

    Args:
        trace: a trace, or the file of one; see `noshow.trace`.
        clients: the trace's names of the federation's clients, in the federation's order; a name may come more than
            once. If left out, the names in their order (client-2 before client-10), as many as there are clients.
        after_training: whether clients fall silent only after they have trained, as with adversaries that see replies.
            Only rounding differs: with it, a recorded run of such an adversary is replayed to the last bit.

    Example:
        >>> from datetime import datetime, UTC
        >>> import noshow as ns
        >>> from noshow.trace import Entry, Trace
        >>> now = datetime(2030, 1, 1, tzinfo=UTC)
        >>> night = Trace.of([Entry(1, name, "silent", "timeout", 40, now) for name in ("berlin", "paris")])
        >>> adversary = ns.adversaries.replay(night, clients=["berlin", "berlin", "paris"])
    """
    played = trace if isinstance(trace, Trace) else read(trace)
    places = {name: place for place, name in enumerate(played.names)}
    names = played.names if clients is None else list(clients)
    for name in names:
        require(name in places, f"clients has {name!r}, which the trace does not know: {_hint(name, played)}")
    silent_ones = latest(presence(played))[:, [places[name] for name in names]] == IS_SILENT

    def check(federation: Federation) -> None:
        there, needed = len(names), federation.clients
        if clients is None:
            require(
                there >= needed,
                f"the trace knows {there} clients, and the federation has {needed}: give a trace of as many or more, "
                "or say with clients which of its names each of them takes",
            )
        else:
            require(there == needed, f"clients has {there} names for {needed} clients: give one a client")

    def init(key: Key, federation: Federation, model: Model) -> Memory:
        return jnp.asarray(silent_ones[:, : federation.clients])

    def score(silent: Memory, key: Key, scene: Scene) -> Array:
        return jnp.where(silent[scene.t % silent.shape[0], scene.ids], 0.0, -jnp.inf)

    return Adversary(score, init, check, sees_replies=after_training, lawful=False, name="replay")


def _hint(name: str, played: Trace) -> str:
    few = len(played.names) <= 20
    return nearest(name, played.names) if few else f"it knows {played.names[0]!r}, {played.names[1]!r}, …"
