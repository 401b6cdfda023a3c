"""A run's compiled programs, its arrays on the devices, and the state after the last round played."""

from __future__ import annotations

import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow import budget, devices
from noshow.contracts import Adversary, Algorithm, Array, Memory, Model, Vector
from noshow.evaluate import Exam, Metrics, evaluate
from noshow.federation import Federation
from noshow.local import drawing, holdings
from noshow.parameters import first_model, unraveller
from noshow.rounds import Inputs, Record, Setting, State, play_round, sample, silence

LONGEST_CHUNK = 100
SECONDS_A_CHUNK = 4.0
"""Python comes between chunks, to show progress and to stop in time: not too often, and not too seldom."""


class Program:
    """Chunks of rounds in one compiled program; evaluation in another. Seeds are one more axis."""

    def __init__(
        self,
        setting: Setting,
        federation: Federation,
        prepared: Memory,
        seeds: Sequence[int],
        rates: np.ndarray,
        chunk: int,
        optimum: np.ndarray | None = None,
    ) -> None:
        mesh = devices.mesh_for(len(seeds) * setting.sampled)
        setting = setting._replace(devices=mesh.size)
        seed_words = np.asarray(seeds, np.uint32)
        self.t = 0
        self._chunk, self._next = min(chunk, LONGEST_CHUNK), 1  # the first round shows how many a chunk can hold
        self._mesh = mesh
        self._inputs = devices.everywhere(Inputs(holdings(federation), seed_words, prepared, rates, optimum), mesh)
        self.state = devices.everywhere(_first_state(setting, federation.clients, seed_words), mesh)
        if setting.width > 1:
            setting = setting._replace(width=_fitting_width(setting, self._inputs, self.state))

        def play(state: State, inputs: Inputs, start: Array, count: Array) -> tuple[State, Record]:
            return _play_chunk(setting, inputs, state, start, count, self._chunk)

        def examine(theta: Array, inputs: Inputs, exam: Exam) -> Metrics:
            def one(theta: Vector) -> Metrics:
                return evaluate(
                    setting.model, setting.unravel, setting.drawing, inputs.holdings, exam, theta, setting.devices
                )

            return devices.for_each_model(one, theta)

        number = self._number(0)
        playing = jax.jit(devices.on_each(play, mesh), donate_argnums=0)
        self._play = playing.lower(self.state, self._inputs, number, number).compile()
        self._examine = jax.jit(devices.on_each(examine, mesh))

    def play(self, most: int) -> Record:
        """Play up to `most` rounds, as many as one chunk holds and as come back within seconds."""
        count = min(most, self._next)
        begun = time.perf_counter()
        self.state, record = self._play(self.state, self._inputs, self._number(self.t), self._number(count))
        self.t += count
        record = jax.tree.map(lambda column: np.asarray(column)[:count], record)
        seconds_a_round = (time.perf_counter() - begun) / count
        self._next = int(min(self._chunk, max(1, SECONDS_A_CHUNK / seconds_a_round)))
        return record

    def evaluate(self, exam: Exam) -> Metrics:
        """The metrics of the models as they are now, one number a seed."""
        return jax.tree.map(np.asarray, self._examine(self.state.theta, self._inputs, exam))

    def placed(self, exam: Exam) -> Exam:
        """The exam's arrays on the devices."""
        return devices.everywhere(exam, self._mesh)

    def resume(self, state: State, t: int) -> None:
        """Go on from this state, as it was after t rounds."""
        self.state, self.t = devices.everywhere(state, self._mesh), t

    def _number(self, value: int) -> Array:
        return devices.everywhere(np.int32(value), self._mesh)


def setting_for(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    adversary: Adversary,
    sampled: int,
    epsilon: float,
    seeds: int,
) -> Setting:
    """All that shapes the program, on the devices there are."""
    limit = budget.limit(epsilon, sampled, federation.sizes) if adversary.lawful else None
    drawn = drawing(federation, model, devices.rows_per_tile())
    width = 1 if devices.on_cpu() else seeds * sampled
    return Setting(model, algorithm, adversary, drawn, unraveller(model), sampled, limit, width, 1)


TRIAL_ROUNDS = 64
OVERHEAD = 6
"""A block of clients costs what its places cost, plus as much as so many places more (LeNet-5 on an H200)."""


def _fitting_width(setting: Setting, inputs: Inputs, state: State) -> int:
    """How many clients an accelerator had best train side by side, by a trial of who will be needed.

    A block of full batches lasts as long as its largest client: all at once is best. Drawn batches are alike, and
    every place in a block costs, used or not; so the first rounds' roll calls are tried with the first models. Only
    quarters of all clients are considered: experiments that differ a little then share a compiled program.
    """
    jobs = setting.width
    sees_work = setting.adversary.sees_replies or setting.adversary.sees_gradient
    if sees_work or setting.drawing.batches == "full":
        return jobs

    def needed(t: Array) -> Array:
        return jobs - silence(setting, inputs, state, t, sample(setting, inputs, t), None).sum()

    counts = np.asarray(jax.jit(jax.vmap(needed))(jnp.arange(min(TRIAL_ROUNDS, inputs.rates.shape[0]))))
    widths = np.unique(-(-jobs * np.arange(1, 5) // 4))
    costs = (-(-counts[:, None] // widths)) * (OVERHEAD + widths)
    return int(widths[np.argmin(costs.sum(0))])


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


def _first_state(setting: Setting, clients: int, seeds: np.ndarray) -> State:
    theta = jnp.stack([first_model(setting.model, seed) for seed in seeds])
    d = theta.shape[1]

    def for_each_seed(memory: Memory) -> Memory:
        return jax.tree.map(lambda m: jnp.broadcast_to(m, (len(seeds), *jnp.shape(m))), memory)

    algorithm = setting.algorithm
    return State(
        theta, for_each_seed(algorithm.client.init(d, clients)), for_each_seed(algorithm.server.init(d, clients))
    )
