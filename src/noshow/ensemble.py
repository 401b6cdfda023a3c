"""Runs compiled into one program and played in step, with their arrays on the devices and their states.

An accelerator is quicker with the clients of several runs side by side than with one run after the other. On a CPU,
and wherever nothing else is asked for, there is one run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from noshow import devices, distributed
from noshow.contracts import Array, Memory, Vector
from noshow.errors import require
from noshow.evaluate import Exam, Metrics, evaluate
from noshow.federation import Federation, as_stored
from noshow.lengths import Lengths, lengths_for
from noshow.local import example_bytes, holdings
from noshow.parameters import first_model
from noshow.precision import products_in
from noshow.rounds import Inputs, Record, Setting, State, play_rounds, sample, silence
from noshow.work import WORTH_SHARING

LONGEST_CHUNK = 100
SECONDS_A_CHUNK = 4.0
"""Python comes between chunks, to show progress and to stop in time: not too often, and not too seldom."""


class Run(NamedTuple):
    """What is one run's own: its setting, what its adversary has prepared, its rates, and theta* where it is known."""

    setting: Setting
    prepared: Memory
    rates: np.ndarray
    optimum: np.ndarray | None = None


class Ensemble:
    """Chunks of rounds of all runs in one compiled program; evaluation in another. Seeds are one more axis."""

    def __init__(self, runs: Sequence[Run], federation: Federation, seeds: Sequence[int], chunk: int) -> None:
        jobs = len(seeds) * sum(run.setting.sampled for run in runs)
        mesh = devices.mesh_for(jobs)
        distributed.meet(mesh)
        settings = [
            run.setting._replace(devices=mesh.size, lengths=_paying_lengths(run, federation, len(seeds), mesh.size))
            for run in runs
        ]
        seed_words = np.asarray(seeds, np.uint32)
        held = devices.everywhere(holdings(federation), mesh)
        self.size = len(runs)
        self.rounds_played = [0] * len(runs)
        self._ahead: list[Record | None] = [None] * len(runs)
        self._chunk, self._next = min(chunk, LONGEST_CHUNK), 1  # the first round shows how many a chunk can hold
        self._mesh = mesh
        self._inputs = [
            Inputs(held, *devices.everywhere((seed_words, run.prepared, run.rates, run.optimum), mesh)) for run in runs
        ]
        self._states = [
            devices.everywhere(_first_state(setting, federation.clients, seed_words), mesh) for setting in settings
        ]
        if settings[0].width > 1:
            width = _fitting_width(settings, self._inputs, self._states, mesh)
            settings = [setting._replace(width=width) for setting in settings]
        shared = settings[0]

        def play(
            states: list[State], inputs: list[Inputs], start: Array, count: Array
        ) -> tuple[list[State], list[Record]]:
            with products_in(shared.precision):
                return _play_chunk(settings, inputs, states, start, count, self._chunk)

        def examine(theta: Array, inputs: Inputs, exam: Exam) -> Metrics:
            def one(theta: Vector) -> Metrics:
                return evaluate(
                    shared.model, shared.unravel, shared.drawing, inputs.holdings, exam, theta, shared.devices
                )

            with products_in(shared.precision):
                return devices.for_each_model(one, theta)

        number = self._number(0)
        playing = jax.jit(devices.on_each(play, mesh), donate_argnums=0)
        self._play = playing.lower(self._states, self._inputs, number, number).compile()
        self._examine = jax.jit(devices.on_each(examine, mesh))
        self.seconds_each = 0.0
        """What the last chunk took, in equal shares of all runs."""

    def play(self, run: int, most: int) -> Record:
        """One run's record of the next chunk, of up to `most` rounds, as many as come back within seconds.

        Whoever asks first has the chunk played for all; the others' records wait for them.
        """
        if self._ahead[run] is None:
            in_step = len(set(self.rounds_played)) == 1
            require(in_step, "runs that are played together keep in step: advance each of them before any goes further")
            self._ahead = list(self._play_all(most))
        record, self._ahead[run] = self._ahead[run], None
        assert record is not None
        self.rounds_played[run] += record.ids.shape[0]
        return record

    def _play_all(self, most: int) -> list[Record]:
        count = distributed.agreed(min(most, self._next))
        begun = time.perf_counter()
        with distributed.together():
            t = self._number(self.rounds_played[0])
            self._states, records = self._play(self._states, self._inputs, t, self._number(count))
            records = jax.tree.map(lambda column: np.asarray(column)[:count], records)
        seconds = time.perf_counter() - begun
        self._next = int(min(self._chunk, max(1, SECONDS_A_CHUNK * count / seconds)))
        self.seconds_each = seconds / self.size
        return records

    def state(self, run: int) -> State:
        """A run's state after its rounds played."""
        behind = self._ahead[run] is not None
        require(not behind, "a run that is played together with others is behind them: advance it first")
        return self._states[run]

    def evaluate(self, run: int, exam: Exam) -> Metrics:
        """The metrics of a run's models as they are now, one number a seed."""
        with distributed.together():
            return jax.tree.map(np.asarray, self._examine(self._states[run].theta, self._inputs[run], exam))

    def placed(self, exam: Exam) -> Exam:
        """The exam's arrays on the devices."""
        return devices.everywhere(exam, self._mesh)

    def resume(self, run: int, state: State, t: int) -> None:
        """A run goes on from this state, as it was after t rounds."""
        self._states[run], self.rounds_played[run] = devices.everywhere(state, self._mesh), t

    @property
    def working_bytes(self) -> int:
        """Memory that a chunk of rounds takes on a device while it is played, beside its inputs and the states."""
        needs = self._play.memory_analysis()
        if needs is None:  # not every device's compiler tells
            return 0
        return int(needs.temp_size_in_bytes + needs.output_size_in_bytes - needs.alias_size_in_bytes)

    def _number(self, value: int) -> Array:
        return devices.everywhere(np.int32(value), self._mesh)


TRIAL_ROUNDS = 64
OVERHEAD = 6
"""A block of clients costs what its places cost, plus as much as so many places more (LeNet-5 on an H200)."""


def _paying_lengths(run: Run, federation: Federation, seeds: int, sharers: int) -> Lengths:
    """The lengths in which this run's full batches are laid out, if it is long enough for any."""
    setting = run.setting
    stored_as_read = federation.read is as_stored
    if not (devices.on_cpu() and setting.model.brief and setting.drawing.batches == "full" and stored_as_read):
        return Lengths()
    size = example_bytes(federation.data)
    # Gradients that a client can expect to compute, in the whole run. However many devices there are: what a client
    # computes alone is then the same, bit for bit.
    visits = setting.algorithm.client.gradients * len(run.rates) * seeds * setting.sampled / federation.clients
    large = federation.held[federation.held > WORTH_SHARING]
    shared = lengths_for(-(-large // sharers), size, visits) if sharers > 1 and len(large) > 0 else (None,)
    return Lengths(lengths_for(federation.held, size, visits), shared)


def _fitting_width(settings: Sequence[Setting], inputs: list[Inputs], states: list[State], mesh: Mesh) -> int:
    """How many clients an accelerator had best train side by side, by a trial of who will be needed.

    A block of full batches lasts as long as its largest client: all at once is best. Drawn batches are alike, and
    every place in a block costs, used or not; so the first rounds' roll calls are tried with the first models. Only
    sixteenths of all clients are considered: experiments that differ a little then share a compiled program.
    """
    jobs = sum(setting.width for setting in settings)
    sees_work = any(setting.adversary.sees_replies or setting.adversary.sees_gradient for setting in settings)
    if sees_work or settings[0].drawing.batches == "full":
        return jobs

    rounds = jnp.arange(min(TRIAL_ROUNDS, *(run.rates.shape[0] for run in inputs)))

    def needed(inputs: list[Inputs], states: list[State]) -> Array:
        def in_round(t: Array) -> Array:
            silenced = [
                silence(setting, run, state, t, sample(setting, run, t), None).sum()
                for setting, run, state in zip(settings, inputs, states, strict=True)
            ]
            return jobs - sum(silenced, jnp.zeros((), jnp.int32))

        return jax.vmap(in_round)(rounds)

    counts = np.asarray(jax.jit(devices.on_each(needed, mesh))(inputs, states))
    widths = np.unique(-(-jobs * np.arange(1, 17) // 16))
    costs = (-(-counts[:, None] // widths)) * (OVERHEAD + widths)
    return int(widths[np.argmin(costs.sum(0))])


def _play_chunk(
    settings: Sequence[Setting], inputs: list[Inputs], states: list[State], start: Array, count: Array, chunk: int
) -> tuple[list[State], list[Record]]:
    """Rounds start … start + count - 1 in one loop; `count` is an argument, so that one program serves every length."""
    shapes = jax.eval_shape(lambda: play_rounds(settings, inputs, states, start)[1])
    blank = jax.tree.map(lambda s: jnp.zeros((chunk, *s.shape), s.dtype), shapes)

    def turn(k: Array, carry: tuple[list[State], list[Record]]) -> tuple[list[State], list[Record]]:
        states, records = carry
        states, new = play_rounds(settings, inputs, states, start + k)
        return states, jax.tree.map(lambda all_, one: all_.at[k].set(one), records, new)

    return lax.fori_loop(0, count, turn, (states, blank))


def _first_state(setting: Setting, clients: int, seeds: np.ndarray) -> State:
    theta = jnp.stack([first_model(setting.model, seed) for seed in seeds])
    d = theta.shape[1]

    def for_each_seed(memory: Memory) -> Memory:
        return jax.tree.map(lambda m: jnp.broadcast_to(m, (len(seeds), *jnp.shape(m))), memory)

    algorithm = setting.algorithm
    return State(
        theta, for_each_seed(algorithm.client.init(d, clients)), for_each_seed(algorithm.server.init(d, clients))
    )
