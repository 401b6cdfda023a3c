"""Whole runs: chunks of rounds in one compiled program, Python only between chunks; seeds are one more axis."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow import budget, devices
from noshow.contracts import Adversary, Algorithm, Array, Memory, Model, Vector
from noshow.errors import NoshowError, require
from noshow.evaluate import Exam, Metrics, evaluate, exam
from noshow.federation import Federation
from noshow.history import History, RollCall
from noshow.local import drawing, holdings
from noshow.parameters import first_model, unraveller
from noshow.randomness import Purpose, run_key
from noshow.rates import curve
from noshow.rounds import Inputs, Probe, Record, Setting, State, play_round

LONGEST_CHUNK = 100


def simulate(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    adversary: Adversary | None = None,
    *,
    sampled: int,
    rounds: int,
    epsilon: float | None = None,
    seeds: Sequence[int] = (0,),
    evaluate_every: int = 15,
    watch: Callable[[int, Metrics], None] | None = None,
) -> History:
    """Train a federation in which clients don't show up, and record how it went.

    Args:
        federation: the clients and their data.
        model: what is trained.
        algorithm: what clients compute and what the server does with the replies.
        adversary: whom to silence; nobody if left out.
        sampled: K, the clients sampled in each round.
        rounds: how many rounds to play.
        epsilon: the law's share of the data that may be silenced in a round; left out for adversaries without the law.
        seeds: one independent run each, all computed together. The same seed gives the same samples, batches and
            silences to every algorithm; the same seeds on the same devices give the same numbers, bit for bit.
        evaluate_every: rounds between two evaluations; round 0 and the last one are always evaluated.
        watch: called with the round and its metrics (one number a seed) after each evaluation.

    Returns:
        A `History`: metrics, the roll call of every round, and the final models.

    Example:
        >>> import noshow as ns
        >>> history = ns.simulate(
        ...     ns.datasets.synthetic(1, 1, clients=20, sizes=50), ns.models.logistic(),
        ...     ns.algorithms.fedavg_variant(rate=0.01, steps=5), ns.adversaries.largest_reply(),
        ...     sampled=5, epsilon=0.6, rounds=10, evaluate_every=5)
        >>> history.metrics.num_rows, float(history.roll_call.epsilon_t.max()) <= 0.6
        (3, True)
    """
    from noshow.adversaries import nobody

    begun = time.perf_counter()
    adversary = adversary or nobody()
    check(federation, model, adversary, sampled, rounds, epsilon, seeds, evaluate_every)
    setting = _setting(federation, model, algorithm, adversary, sampled, epsilon or 0.0, len(seeds))
    rates = curve(algorithm.rate, max(rounds, 1))
    prepared = prepare(adversary, federation, model, seeds)
    run = _Run(setting, federation, prepared, seeds, rates, min(evaluate_every, LONGEST_CHUNK))
    times, metrics, records = [0], [run.evaluate()], []
    compiled = time.perf_counter()
    if watch:
        watch(0, metrics[0])
    while run.t < rounds:
        records.append(run.play(min(rounds, run.t + evaluate_every - run.t % evaluate_every) - run.t))
        if run.t == rounds or run.t % evaluate_every == 0:
            times.append(run.t)
            metrics.append(run.evaluate())
            if watch:
                watch(run.t, metrics[-1])

    return History(
        algorithm=algorithm.name,
        seeds=np.asarray(seeds),
        evaluated=np.array(times),
        scores=Metrics(*(np.stack(column, axis=1) for column in zip(*metrics, strict=True))),
        roll_call=_roll_call(records, federation, sampled, len(seeds), epsilon),
        models=[setting.unravel(jnp.asarray(theta)) for theta in np.asarray(run.state.theta)],
        seconds=time.perf_counter() - begun,
        seconds_preparing=compiled - begun,
    )


def rehearse(
    federation: Federation, model: Model, algorithm: Algorithm, *, rounds: int, seed: int, probe: Probe
) -> np.ndarray:
    """Play with full participation, nobody silenced; what `probe` sees of the work, [rounds, M, ...] by client id."""
    from noshow.adversaries import nobody

    setting = _setting(federation, model, algorithm, nobody(), federation.clients, 0.0, 1)._replace(probe=probe)
    run = _Run(setting, federation, None, [seed], curve(algorithm.rate, rounds), min(rounds, LONGEST_CHUNK))
    records = []
    while run.t < rounds:
        records.append(run.play(rounds - run.t))
    ids = np.concatenate([record.ids for record in records])[:, 0]
    seen = np.concatenate([record.probed for record in records])[:, 0]
    return np.take_along_axis(seen, np.argsort(ids, axis=1), axis=1)


class _Run:
    """A run in progress: compiled programs, arrays on the devices, and the state after round t - 1."""

    def __init__(
        self,
        setting: Setting,
        federation: Federation,
        prepared: Memory,
        seeds: Sequence[int],
        rates: np.ndarray,
        chunk: int,
    ) -> None:
        mesh = devices.mesh_for(len(seeds) * setting.sampled)
        setting = setting._replace(devices=mesh.size)
        seed_words = np.asarray(seeds, np.uint32)
        self.t = 0
        self._chunk = chunk
        self._inputs = devices.everywhere(Inputs(holdings(federation), seed_words, prepared, rates), mesh)
        self._exam = devices.everywhere(exam(federation), mesh)
        self.state = devices.everywhere(_first_state(setting, federation.clients, seed_words), mesh)

        def play(state: State, inputs: Inputs, start: Array, count: Array) -> tuple[State, Record]:
            return _play_chunk(setting, inputs, state, start, count, chunk)

        def examine(theta: Array, inputs: Inputs, exam: Exam) -> Metrics:
            def one(theta: Vector) -> Metrics:
                return evaluate(
                    setting.model, setting.unravel, setting.drawing, inputs.holdings, exam, theta, setting.devices
                )

            return lax.map(one, theta)

        number = devices.everywhere(np.int32(0), mesh)
        playing = jax.jit(devices.on_each(play, mesh), donate_argnums=0)
        self._play = playing.lower(self.state, self._inputs, number, number).compile()
        self._examine = jax.jit(devices.on_each(examine, mesh))
        self._number = lambda value: devices.everywhere(np.int32(value), mesh)

    def play(self, most: int) -> Record:
        """Play up to `most` rounds, as many as one chunk holds."""
        count = min(most, self._chunk)
        self.state, record = self._play(self.state, self._inputs, self._number(self.t), self._number(count))
        self.t += count
        return jax.tree.map(lambda column: np.asarray(column)[:count], record)

    def evaluate(self) -> Metrics:
        """The metrics of the models as they are now, one number a seed."""
        return jax.tree.map(np.asarray, self._examine(self.state.theta, self._inputs, self._exam))


def _play_chunk(
    setting: Setting, inputs: Inputs, state: State, start: Array, count: Array, chunk: int
) -> tuple[State, Record]:
    """Rounds start … start + count - 1 in one loop; `count` is an argument, so that one program serves every length."""
    shapes = jax.eval_shape(lambda: play_round(setting, inputs, state, start)[1])
    blank = jax.tree.map(lambda s: jnp.zeros((chunk, *s.shape), s.dtype), shapes)

    def turn(k: Array, carry: tuple[State, Record]) -> tuple[State, Record]:
        state, records = carry
        state, record = play_round(setting, inputs, state, start + k)
        return state, jax.tree.map(lambda all_, new: all_.at[k].set(new), records, record)

    return lax.fori_loop(0, count, turn, (state, blank))


def _setting(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    adversary: Adversary,
    sampled: int,
    epsilon: float,
    seeds: int,
) -> Setting:
    limit = budget.limit(epsilon, sampled, federation.sizes) if adversary.lawful else None
    drawn = drawing(federation, devices.rows_per_tile())
    width = 1 if devices.on_cpu() else seeds * _clients_at_once(federation, adversary, sampled, limit)
    return Setting(model, algorithm, adversary, drawn, unraveller(model), sampled, limit, width, 1, None)


def _clients_at_once(federation: Federation, adversary: Adversary, sampled: int, limit: int | None) -> int:
    """Clients of a seed that an accelerator trains side by side. (A CPU device takes one after the other.)

    A block of full batches lasts as long as its largest client: all at once is best. Drawn batches are alike, and
    every place in a block costs: there, as many as will answer at least.
    """
    if adversary.sees_replies or limit is None or federation.batches == "full":
        return sampled
    return budget.fewest_responders(limit, sampled, federation.sizes)


def _first_state(setting: Setting, clients: int, seeds: np.ndarray) -> State:
    theta = jnp.stack([first_model(setting.model, seed) for seed in seeds])
    d = theta.shape[1]

    def for_each_seed(memory: Memory) -> Memory:
        return jax.tree.map(lambda m: jnp.broadcast_to(m, (len(seeds), *jnp.shape(m))), memory)

    algorithm = setting.algorithm
    return State(
        theta, for_each_seed(algorithm.client.init(d, clients)), for_each_seed(algorithm.server.init(d, clients))
    )


def prepare(adversary: Adversary, federation: Federation, model: Model, seeds: Sequence[int]) -> Memory:
    """What the adversary needs to know before round 0, one row a seed."""
    states = [adversary.init(run_key(seed, Purpose.PREPARE), federation, model) for seed in seeds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def _roll_call(
    records: Sequence[Record], federation: Federation, sampled: int, seeds: int, epsilon: float | None
) -> RollCall:
    empty = np.zeros((0, seeds, sampled), np.int32)
    ids = np.concatenate([empty, *(record.ids for record in records)]).swapaxes(0, 1)
    answered = np.concatenate([empty.astype(bool), *(record.answered for record in records)]).swapaxes(0, 1)
    silenced = np.where(answered, 0, federation.sizes[ids]).sum(-1, dtype=np.int64)
    return RollCall(ids, answered, budget.used_fraction(silenced, sampled, federation.sizes), epsilon)


def check(
    federation: Federation,
    model: Model,
    adversary: Adversary,
    sampled: int,
    rounds: int,
    epsilon: float | None,
    seeds: Sequence[int],
    evaluate_every: int,
) -> None:
    """Raise a `NoshowError` unless these can make a run."""
    clients = federation.clients
    require(
        1 <= sampled <= clients,
        f"sampled is {sampled}, but there are {clients} clients: give a number from 1 to {clients}",
    )
    require(0 <= rounds < 2**31, f"rounds is {rounds}: give a number from 0 to 2^31 - 1")
    require(evaluate_every >= 1, f"evaluate_every is {evaluate_every}: give 1 round or more")
    require(len(seeds) > 0, "seeds is empty: give at least one")
    require(len(set(seeds)) == len(seeds), f"seeds {list(seeds)} repeat: give each seed once")
    require(all(0 <= seed < 2**32 for seed in seeds), f"seeds {list(seeds)}: give whole numbers from 0 to 2^32 - 1")
    _check_model(model, federation)
    adversary.check(federation)
    if adversary.lawful:
        require(
            epsilon is not None or adversary.name == "nobody",
            f"the adversary {adversary.name!r} acts under the law: give epsilon, from 0 up to, but not including, 1",
        )
    else:
        require(
            epsilon is None,
            f"the adversary {adversary.name!r} acts with the law off: leave epsilon out, or set it to 'off'",
        )


def _check_model(model: Model, federation: Federation) -> None:
    """Raise unless the model can read the federation's examples."""
    model.check(federation)
    rows = jax.tree.map(lambda leaf: leaf[:1], federation.data)
    try:
        params = jax.eval_shape(model.init, jax.random.key(0))
        batch = jax.eval_shape(federation.read, federation.shared, rows)
        found = [jnp.shape(column) for column in jax.eval_shape(model.measure, params, batch)]
    except (TypeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise NoshowError(f"the model {model.name!r} cannot read the data of {federation.name!r}: {reason}") from None
    require(
        found == [(1,), (1,)],
        f"the model {model.name!r} returned shapes {[list(shape) for shape in found]} for one example: "
        "`measure` returns one loss and one 1.0 or 0.0 an example",
    )
