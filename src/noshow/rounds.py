"""One round, as a pure function: sample → silence → train → aggregate, and a record of it.

Nothing else in noshow knows about rounds; `noshow.engine` only repeats this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow import budget, devices
from noshow.contracts import Adversary, Algorithm, Array, Memory, Model, Numbers, Replies, Scene, Vector, Work
from noshow.diagnostics import ONE_GRADIENT, Diagnosis, errors_of
from noshow.errors import require
from noshow.full_gradient import example_shares, full_gradient
from noshow.lengths import Length, Lengths
from noshow.local import ClientData, Drawing, Holdings
from noshow.parameters import Unravel, flat_losses
from noshow.precision import Precision, products_in
from noshow.randomness import Purpose, round_key, without_replacement
from noshow.work import run_jobs

Probe = Callable[[Work], Array]
"""What to record of the clients' work [S, K, ...] in every round."""


class Setting(NamedTuple):
    """All that shapes the compiled program and is no array."""

    model: Model
    algorithm: Algorithm
    adversary: Adversary
    drawing: Drawing
    unravel: Unravel
    sampled: int
    limit: int | None
    width: int
    devices: int
    probe: Probe | None = None
    diagnose: bool = False
    precision: Precision | None = None
    lengths: Lengths = Lengths()


class Inputs(NamedTuple):
    """Arrays that stay the same throughout a run. First axis of `seeds` and `prepared`: seeds."""

    holdings: Holdings
    seeds: Numbers
    prepared: Memory
    rates: Numbers
    optimum: Numbers | None = None


class State(NamedTuple):
    """What a round changes. First axis of every array: seeds."""

    theta: Array
    clients: Memory
    server: Memory


class Record(NamedTuple):
    """What a round leaves behind, one row a seed."""

    ids: Numbers
    answered: Numbers
    probed: Numbers | None
    diagnosis: Diagnosis | None = None


def play_round(setting: Setting, inputs: Inputs, state: State, t: Array) -> tuple[State, Record]:
    """One round of every seed."""
    [state], [record] = play_rounds([setting], [inputs], [state], t)
    return state, record


def play_rounds(
    settings: Sequence[Setting], inputs: Sequence[Inputs], states: Sequence[State], t: Array
) -> tuple[list[State], list[Record]]:
    """One round of every seed of several runs whose clients compute alike; all of them share the devices."""
    runs = list(zip(settings, inputs, states, strict=True))
    calls = [_call(setting, own, state, t) for setting, own, state in runs]
    works = train(settings, inputs, states, t, calls)
    ends = [_end(*run, t, call, work) for run, call, work in zip(runs, calls, works, strict=True)]
    return [state for state, _ in ends], [record for _, record in ends]


class Call(NamedTuple):
    """The clients that a round samples [S, K], and which of them must train before it is known who answers."""

    ids: Array
    needed: Array


def _call(setting: Setting, inputs: Inputs, state: State, t: Array) -> Call:
    ids = sample(setting, inputs, t)
    if setting.adversary.sees_replies:
        return Call(ids, jnp.ones(ids.shape, bool))
    return Call(ids, ~silence(setting, inputs, state, t, ids, None))


def _end(setting: Setting, inputs: Inputs, state: State, t: Array, call: Call, work: Work) -> tuple[State, Record]:
    ids, answered = call
    if setting.adversary.sees_replies:
        answered = ~silence(setting, inputs, state, t, ids, work)
    rate = inputs.rates[t]
    probed = setting.probe(work) if setting.probe else None
    diagnosis = diagnose(setting, inputs, state, t, rate, ids, answered, work) if setting.diagnose else None
    state = aggregate(setting, inputs, state, t, rate, ids, answered, work)
    return state, Record(ids, answered, probed, diagnosis)


def sample(setting: Setting, inputs: Inputs, t: Array) -> Array:
    """K of M clients, uniformly without replacement [S, K]."""
    clients = inputs.holdings.held.shape[0]
    return jax.vmap(lambda seed: without_replacement(round_key(seed, t, Purpose.SAMPLE), clients, setting.sampled))(
        inputs.seeds
    )


def silence(setting: Setting, inputs: Inputs, state: State, t: Array, ids: Array, work: Work | None) -> Array:
    """The adversary ranks, the law decides [S, K]."""
    replies, gradients = (None, None) if work is None else (work.reply, work.gradients)
    gradient = full_gradients(setting, inputs, state.theta) if setting.adversary.sees_gradient else None

    def one_seed(
        seed: Array, prepared: Memory, theta: Vector, ids: Array, replies: Any, gradients: Any, gradient: Any
    ) -> Array:
        sizes, weights = inputs.holdings.sizes[ids], inputs.holdings.weights[ids]
        sends = setting.algorithm.client.sends
        scene = Scene(t, ids, sizes, weights, theta, replies, gradients, gradient, sends, setting.limit)
        with products_in("float32"):
            scores = setting.adversary.score(prepared, round_key(seed, t, Purpose.ADVERSARY), scene)
        whose = f"the adversary {setting.adversary.name!r}"
        require(
            hasattr(scores, "dtype") and scores.dtype != bool,
            f"{whose} returned {'truth values' if hasattr(scores, 'dtype') else f'a {type(scores).__name__}'}: it must "
            "be an array of numbers, -inf for whom it leaves alone",
        )
        _shaped(scores, ids.shape, whose, "score a sampled client")
        return budget.silence(round_key(seed, t, Purpose.TIES), scores, sizes, setting.limit)

    return jax.vmap(one_seed)(inputs.seeds, inputs.prepared, state.theta, ids, replies, gradients, gradient)


def full_gradients(setting: Setting, inputs: Inputs, theta: Array) -> Array:
    """grad F of every seed's model, over everybody's data [S, d]."""
    shares = example_shares(inputs.holdings)
    losses = flat_losses(setting.model, setting.unravel)

    def one_seed(theta: Vector) -> Vector:
        return full_gradient(losses, setting.drawing, inputs.holdings, shares, theta, setting.devices)

    return devices.for_each_model(one_seed, theta)


def train(
    settings: Sequence[Setting], inputs: Sequence[Inputs], states: Sequence[State], t: Array, calls: Sequence[Call]
) -> list[Work]:
    """The work of the clients that are needed [S, K, ...], run by run; all clients of all runs share the devices."""
    setting, holdings = settings[0], inputs[0].holdings
    losses = flat_losses(setting.model, setting.unravel)
    # A row is one seed of one run, a job one sampled client of one row.
    seeds, thetas = _joined([run.seeds for run in inputs]), _joined([state.theta for state in states])
    rates = _joined([jnp.broadcast_to(run.rates[t], run.seeds.shape) for run in inputs])
    row_of = np.repeat(np.arange(seeds.shape[0]), np.concatenate([[c.ids.shape[1]] * c.ids.shape[0] for c in calls]))
    client_of, needed = (_joined([part.reshape(-1) for part in parts]) for parts in zip(*calls, strict=True))
    memories = [jax.tree.map(lambda m, ids=c.ids: _rows(m, ids), s.clients) for s, c in zip(states, calls, strict=True)]
    memory_of = jax.tree.map(lambda *parts: _joined(list(parts)), *memories)
    held_by = held_in_round(setting, holdings, seeds, t)

    def job(number: Array, sharers: int = 1) -> Work:
        row, client = jnp.asarray(row_of)[number], client_of[number]
        key = jax.random.fold_in(round_key(seeds[row], t, Purpose.BATCHES), client)
        memory = jax.tree.map(lambda m: m[number], memory_of)

        def reply(length: Length) -> Work:
            local = ClientData(losses, setting.drawing, held_by(row), client, key, sharers, length)
            return setting.algorithm.client.reply(local, thetas[row], memory, rates[row])

        lengths = setting.lengths.alone if sharers == 1 else setting.lengths.shared
        work = at_length(reply, lengths, -(-holdings.held[client] // sharers))
        require(isinstance(work, Work), f"the client of {setting.algorithm.name!r} must return noshow.Work(reply, …)")
        _shaped(work.reply, thetas.shape[1:], f"the client of {setting.algorithm.name!r}", "number a parameter")
        _float32(work.reply, f"the client of {setting.algorithm.name!r}", "number a parameter")
        _alike(work.memory, memory, f"the client of {setting.algorithm.name!r}")
        # What nobody looks at is not worked out, nor carried between devices.
        return work if looked_at else work._replace(gradients=None)

    looked_at = any(run.adversary.sees_replies or run.probe is not None for run in settings)
    divisible = setting.drawing.batches == "full" and setting.width == 1
    shared = partial(job, sharers=setting.devices) if divisible else None
    work = run_jobs(job, shared, holdings.sizes[client_of], needed, setting.width, setting.devices)
    ends = np.cumsum([call.ids.size for call in calls])
    return [
        jax.tree.map(lambda a, c=call, end=end: a[end - c.ids.size : end].reshape(*c.ids.shape, *a.shape[1:]), work)
        for call, end in zip(calls, ends, strict=True)
    ]


def at_length(reply: Callable[[Length], Work], lengths: Sequence[Length], rows: Array) -> Work:
    """The reply at the first length that holds so many rows; `None` holds any number."""
    if len(lengths) == 1:
        return reply(lengths[0])
    place = jnp.sum(rows > jnp.array([length for length in lengths if length is not None]))
    return lax.switch(place, [partial(reply, length) for length in lengths])


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _rows(memory: Array, ids: Array) -> Array:
    """What the sampled clients remember [S K, ...], from all clients' memories [S, M, ...]."""
    rows = jax.vmap(lambda own, chosen: own[chosen])(memory, ids)
    return rows.reshape(ids.size, *rows.shape[2:])


def held_in_round(setting: Setting, holdings: Holdings, seeds: Array, t: Array) -> Callable[[Array], Holdings]:
    """What clients hold in this round, by the number of the row: always the same, unless the data move."""
    of_round = setting.drawing.of_round
    if of_round is None:
        return lambda row: holdings
    moved = jax.vmap(lambda seed: of_round(round_key(seed, t, Purpose.ADVERSARY), holdings.data))(seeds)
    return lambda row: holdings._replace(data=jax.tree.map(lambda leaf: leaf[row], moved))


def aggregate(
    setting: Setting, inputs: Inputs, state: State, t: Array, rate: Array, ids: Array, answered: Array, work: Work
) -> State:
    """Responders' replies reach the server, and their memories move."""

    def one_seed(seed: Array, state: State, all_weights: Array, ids: Array, answered: Array, work: Work) -> State:
        def keep(memory: Array, new: Array) -> Array:
            moved = answered.reshape(-1, *[1] * (new.ndim - 1))
            return memory.at[ids].set(jnp.where(moved, new, memory[ids]), unique_indices=True)

        key = round_key(seed, t, Purpose.SERVER)
        sends = setting.algorithm.client.sends
        replies = Replies(work.reply, ids, answered, weights[ids], all_weights, key, sends)
        with products_in("float32"):
            ended = setting.algorithm.server.step(state.server, state.theta, replies, rate)
        both = isinstance(ended, tuple) and len(ended) == 2
        require(both, f"the server of {setting.algorithm.name!r} returned no pair: `step` returns (state, theta)")
        server, theta = ended
        _float32(theta, f"the server of {setting.algorithm.name!r}", "number a parameter")
        _shaped(theta, state.theta.shape, f"the server of {setting.algorithm.name!r}", "number a parameter")
        _alike(server, state.server, f"the server of {setting.algorithm.name!r}")
        return State(theta, jax.tree.map(keep, state.clients, work.memory), server)

    weights = inputs.holdings.weights
    # One row of weights a seed: a product of one row with all seeds' tables would first turn a copy of them around.
    each = jnp.broadcast_to(weights, (ids.shape[0], *weights.shape))
    return jax.vmap(one_seed)(inputs.seeds, state, each, ids, answered, work)


def diagnose(
    setting: Setting, inputs: Inputs, state: State, t: Array, rate: Array, ids: Array, answered: Array, work: Work
) -> Diagnosis:
    """What the theory looks at in this round, before its update."""
    one_gradient = setting._replace(algorithm=replace(setting.algorithm, client=ONE_GRADIENT), lengths=Lengths())
    [all_train] = train([one_gradient], [inputs], [state], t, [Call(ids, jnp.ones(ids.shape, bool))])
    gradients = all_train.reply

    def one_seed(gradients: Array, replies: Array, answered: Array, ids: Array) -> tuple[Array, Array | None]:
        weights = inputs.holdings.weights[ids]
        return errors_of(setting.algorithm.client, gradients, replies, answered, weights, rate)

    with products_in("float32"):
        bias, inconsistency = jax.vmap(one_seed)(gradients, work.reply, answered, ids)
    distance = None if inputs.optimum is None else jnp.square(state.theta - inputs.optimum).sum(1)
    slope = jnp.linalg.norm(full_gradients(setting, inputs, state.theta), axis=1)
    return Diagnosis(slope, distance, bias, inconsistency)


def _shaped(array: Array, shape: tuple[int, ...], whose: str, what: str) -> None:
    """Shapes are known when the round is compiled: a user's part that returns another one is told then."""
    found = jnp.shape(array)
    require(found == shape, f"{whose} returned shape {list(found)}: it must be {list(shape)}, one {what}")


def _float32(array: Array, whose: str, what: str) -> None:
    kind = jnp.result_type(array)
    require(kind == jnp.float32, f"{whose} returned numbers of type {kind}: they must be float32, one {what}")


def _alike(kept: Memory, given: Memory, whose: str) -> None:
    """What is remembered keeps its shape and type from round to round."""
    found, expected = (jax.tree.map(lambda m: f"{jnp.result_type(m)}{list(jnp.shape(m))}", m) for m in (kept, given))
    require(
        found == expected,
        f"{whose} keeps a memory of {found}, but its `init` made {expected}: return a memory like the one that came in",
    )
