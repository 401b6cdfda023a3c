"""noshow's part: its own rounds, timed without evaluation, and the same rounds written out for everybody else."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noshow.adversaries import nobody
from noshow.aggregators import centered_clip, geometric_median
from noshow.algorithms import fedavg, fedavg_variant
from noshow.bench.layout import to_torch
from noshow.bench.task import Network, Play, PointsTask, RoundsTask, Turn, Visit, flat
from noshow.contracts import Algorithm, Array, Model
from noshow.devices import on_cpu
from noshow.engine import Simulation
from noshow.federation import Federation
from noshow.local import draw_batch, step_key
from noshow.parameters import first_model, unraveller
from noshow.precision import Precision
from noshow.program import Program, setting_for
from noshow.randomness import Purpose, round_key, without_replacement
from noshow.rates import curve
from noshow.rehearsal import prepare

SEED = 0


class Experiment(NamedTuple):
    """Rounds of FedAvg in noshow's own words; everybody sampled answers.

    They are the first `rounds` of a run of `run_rounds`, if given: a long run is compiled with more care.
    """

    federation: Federation
    model: Model
    network: Network
    sampled: int
    steps: int
    rate: float
    rounds: int
    amplified: bool = False
    evaluate_every: int | None = None
    precision: Precision | None = None
    run_rounds: int | None = None

    @property
    def algorithm(self) -> Algorithm:
        """FedAvg, or the paper's variant of it."""
        return (fedavg_variant if self.amplified else fedavg)(self.rate, steps=self.steps)

    @property
    def program(self) -> Program:
        """What `noshow.simulate` runs between two evaluations."""
        algorithm, adversary = self.algorithm, nobody()
        setting = setting_for(self.federation, self.model, algorithm, adversary, self.sampled, 0.0, 1)
        setting = setting._replace(precision=self.precision)
        prepared = prepare(adversary, self.federation, self.model, [SEED])
        rates = curve(algorithm.rate, self.run_rounds or self.rounds)
        return Program(setting, self.federation, prepared, [SEED], rates, self.rounds)


def begin_rounds(experiment: Experiment, stack: ExitStack) -> Play:
    """noshow's play. On accelerators a second program in full precision serves the check."""
    timed = _playing(experiment)
    if on_cpu():
        return lambda rounds, exact: timed(rounds)
    with jax.default_matmul_precision("highest"):
        checked = _playing(experiment._replace(precision=None))
    return lambda rounds, exact: (checked if exact else timed)(rounds)


def _playing(experiment: Experiment) -> Callable[[int], Turn]:
    program = experiment.program
    start = jax.tree.map(np.asarray, program.state)
    unravel = unraveller(experiment.model)

    def play(rounds: int) -> Turn:
        program.resume(start, 0)
        jax.block_until_ready(program.state)
        begun = time.perf_counter()
        while program.t < rounds:
            program.play(rounds - program.t)
        theta = np.asarray(program.state.theta[0])
        seconds = (time.perf_counter() - begun) / rounds
        return Turn(seconds, flat(to_torch(experiment.model, unravel(jnp.asarray(theta)))))

    return play


def begin_run(experiment: Experiment, stack: ExitStack) -> Play:
    """noshow's play of a whole run, compiling and evaluations included; each on as many train as test examples."""
    tested = len(jax.tree.leaves(experiment.federation.test)[0])
    unravel = unraveller(experiment.model)

    def play(rounds: int, exact: bool) -> Turn:
        begun = time.perf_counter()
        with jax.default_matmul_precision("highest") if exact else nullcontext():
            run = Simulation(
                experiment.federation,
                experiment.model,
                experiment.algorithm,
                sampled=experiment.sampled,
                rounds=rounds,
                seeds=[SEED],
                evaluate_every=experiment.evaluate_every or rounds,
                evaluate_on=tested,
            )
            while not run.done:
                run.advance()
        theta = run.thetas[0]
        seconds = (time.perf_counter() - begun) / rounds
        return Turn(seconds, flat(to_torch(experiment.model, unravel(jnp.asarray(theta)))))

    return play


def written_out(experiment: Experiment) -> RoundsTask:
    """The experiment's rounds with every draw made: noshow's samples and batches, by row."""
    federation, full = experiment.federation, experiment.federation.batches == "full"
    ids = _sampled(experiment)
    weights = federation.weights[ids]
    gain = federation.clients / experiment.sampled
    shares = gain * weights if experiment.amplified else weights / weights.sum(1, keepdims=True)
    if full:
        used, order = np.unique(ids), {client: number for number, client in enumerate(np.unique(ids))}
        data = [jax.tree.map(np.asarray, federation.of_client(client)) for client in used]
        inputs, labels = (np.concatenate(parts) for parts in zip(*data, strict=True))
        stops = np.cumsum(federation.held[used])
        places: Any = [[slice(stops[k] - federation.held[c], stops[k]) for c in row for k in [order[c]]] for row in ids]
    else:
        used, places = np.unique(_drawn(experiment, ids), return_inverse=True)
        places = places.reshape(*ids.shape, -1)
        stored = jax.tree.map(lambda leaf: leaf[used], federation.data)
        inputs, labels = jax.tree.map(np.asarray, federation.read(federation.shared, stored))
    rounds = [
        [Visit(rows, float(share)) for rows, share in zip(*both, strict=True)]
        for both in zip(places, shares, strict=True)
    ]
    unravel = unraveller(experiment.model)
    return RoundsTask(
        network=experiment.network,
        start=to_torch(experiment.model, unravel(first_model(experiment.model, SEED))),
        inputs=_channels_first(inputs),
        labels=labels.astype(np.int64),
        rounds=rounds,
        batch=federation.batch_size if federation.batches == "step" else None,
        epochs=1 if federation.batches == "step" else experiment.steps,
        rate=experiment.rate,
        test=_tested(federation) if experiment.evaluate_every else None,
        evaluate_every=experiment.evaluate_every,
    )


def _channels_first(inputs: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(inputs.transpose(0, 3, 1, 2)) if inputs.ndim == 4 else inputs


def _tested(federation: Federation) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = jax.tree.map(np.asarray, federation.read(federation.shared, federation.test))
    return _channels_first(inputs), labels.astype(np.int64)


def _sampled(experiment: Experiment) -> np.ndarray:
    """Who is sampled in each round [rounds, K]."""

    def one(t: Array) -> Array:
        key = round_key(jnp.uint32(SEED), t, Purpose.SAMPLE)
        return without_replacement(key, experiment.federation.clients, experiment.sampled)

    return np.asarray(jax.vmap(one)(jnp.arange(experiment.rounds)))


def _drawn(experiment: Experiment, ids: np.ndarray) -> np.ndarray:
    """Which rows of the federation's data each sampled client draws, batch after batch [rounds, K, rows]."""
    federation = experiment.federation
    held, offsets = jnp.asarray(federation.held), jnp.asarray(federation.offsets)
    size = min(federation.batch_size or 0, int(federation.held.max()))
    steps = experiment.steps if federation.batches == "step" else 1

    def batch(t: Array, client: Array, step: Array) -> Array:
        key = jax.random.fold_in(round_key(jnp.uint32(SEED), t, Purpose.BATCHES), client)
        chosen, _ = draw_batch(held[client], size, step_key(key, federation.batches, step))
        return offsets[client] + chosen

    of_client = jax.vmap(batch, (None, None, 0))
    of_round = jax.vmap(of_client, (None, 0, None))
    rows = jax.jit(jax.vmap(of_round, (0, 0, None)))(np.arange(len(ids)), ids, np.arange(steps))
    return np.asarray(rows).reshape(*ids.shape, steps * size)


def begin_points(task: PointsTask, stack: ExitStack) -> Play:
    """noshow's aggregator, compiled."""
    rule = (
        geometric_median(task.iterations, task.smoothing)
        if task.rule == "geometric_median"
        else centered_clip(task.radius, task.iterations)
    )
    points = jax.device_put(task.points)
    weights, key = jnp.ones(len(task.points)), jax.random.key(0)
    program = jax.jit(rule)

    def play(rounds: int, exact: bool) -> Turn:
        with jax.default_matmul_precision("highest") if exact else nullcontext():
            answer = jax.block_until_ready(program(points, weights, key))
            begun = time.perf_counter()
            for _ in range(rounds):
                answer = jax.block_until_ready(program(points, weights, key))
        return Turn((time.perf_counter() - begun) / rounds, np.asarray(answer))

    return play
