"""Whole runs: `simulate` from start to end, `Simulation` to put aside and take up again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from noshow import budget
from noshow.checks import check
from noshow.contracts import Adversary, Algorithm, Model
from noshow.diagnostics import Diagnose, Diagnosis, Diagnostics, flat_optimum, random_round
from noshow.divergence import check_first, has_diverged
from noshow.ensemble import Run
from noshow.errors import require
from noshow.evaluate import Metrics, exam
from noshow.federation import Federation
from noshow.history import History, RollCall
from noshow.parameters import unraveller
from noshow.precision import Precision
from noshow.program import Program, setting_for
from noshow.rates import curve
from noshow.rehearsal import prepare


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
    evaluate_on: int | None = None,
    watch: Callable[[int, Metrics], None] | None = None,
    diagnose: Diagnose | None = None,
    precision: Precision | None = None,
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
        evaluate_on: at most so many train and so many test examples count in an evaluation, spread evenly over the
            clients (over their weights, where they are more than that) and the test data; all if left out.
        watch: called with the round and its metrics (one number a seed) after each evaluation.
        diagnose: ask for what the theory looks at in every round; see `Diagnose`.
        precision: what products are computed in, `"float32"`, `"tf32"` or `"bfloat16"`; what the device does by itself
            if left out (float32 on a CPU, which knows nothing shorter, tf32 on a GPU). All else is float32.

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
    run = Simulation(
        federation,
        model,
        algorithm,
        adversary,
        sampled=sampled,
        rounds=rounds,
        epsilon=epsilon,
        seeds=seeds,
        evaluate_every=evaluate_every,
        evaluate_on=evaluate_on,
        diagnose=diagnose,
        precision=precision,
    )
    if watch:
        watch(0, run.latest)
    while not run.done:
        if run.advance() and watch:
            watch(run.t, run.latest)
    return run.history()


class Snapshot(NamedTuple):
    """A run put aside: all that is needed to take it up again, as plain arrays.

    Example:
        >>> import noshow as ns
        >>> run = ns.Simulation(ns.datasets.synthetic(clients=8, sizes=40), ns.models.logistic(),
        ...                     ns.algorithms.fedavg(0.01, steps=2), sampled=4, rounds=6, evaluate_every=2)
        >>> run.snapshot().t, run.snapshot().ids.shape
        (0, (0, 1, 4))
    """

    t: int
    state: list[np.ndarray]
    evaluated: np.ndarray
    scores: Metrics
    ids: np.ndarray
    answered: np.ndarray
    seconds: float
    good: np.ndarray
    diagnosis: Diagnosis | None = None
    iterates: np.ndarray | None = None


class Entry(NamedTuple):
    """One of several runs that are played side by side: what it need not share with the others.

    Example:
        >>> import noshow as ns
        >>> entry = ns.Entry(ns.algorithms.fedavg(0.1), 5, ns.adversaries.largest_reply(), epsilon=0.6)
    """

    algorithm: Algorithm
    sampled: int
    adversary: Adversary | None = None
    epsilon: float | None = None


class Terms(NamedTuple):
    """What all runs that are played side by side share, beside federation and model."""

    rounds: int
    seeds: tuple[int, ...]
    evaluate_every: int
    evaluate_on: int | None
    precision: Precision | None


class Simulation:
    """A run in progress: `advance` it until it is `done`; put it aside as a `snapshot` and `resume` from it later.

    A resumed run is the same run, bit for bit, on the same devices: all chance comes from (seed, round, purpose).
    Arguments as in `simulate`.

    Example:
        >>> import noshow as ns
        >>> def begin():
        ...     return ns.Simulation(ns.datasets.synthetic(clients=8, sizes=40), ns.models.logistic(),
        ...                          ns.algorithms.fedavg(0.01, steps=2), sampled=4, rounds=6, evaluate_every=2)
        >>> first, second = begin(), begin()
        >>> while first.t < 2:
        ...     _ = first.advance()
        >>> second.resume(first.snapshot())
        >>> second.t, second.done
        (2, False)
    """

    def __init__(
        self,
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
        evaluate_on: int | None = None,
        diagnose: Diagnose | None = None,
        precision: Precision | None = None,
    ) -> None:
        begun = time.perf_counter()
        entry = Entry(algorithm, sampled, adversary, epsilon)
        terms = Terms(rounds, tuple(seeds), evaluate_every, evaluate_on, precision)
        run = _run_of(federation, model, entry, terms, diagnose)
        self._program = Program(run.setting, federation, run.prepared, seeds, run.rates, evaluate_every, run.optimum)
        self._begin(federation, model, entry, terms, run, diagnose, begun)

    @classmethod
    def side_by_side(
        cls,
        federation: Federation,
        model: Model,
        entries: Sequence[Entry],
        *,
        rounds: int,
        seeds: Sequence[int] = (0,),
        evaluate_every: int = 15,
        evaluate_on: int | None = None,
        precision: Precision | None = None,
    ) -> list[Simulation]:
        """Runs whose clients compute alike, in one program: an accelerator trains all their clients together.

        Their algorithms share one `Client` object. They keep in step: advance each of them before any goes further.
        Results are those of single runs, to rounding.

        Example:
            >>> import noshow as ns
            >>> client, rate = ns.clients.sgd(steps=2), ns.rates.constant(0.01)
            >>> plain = ns.Algorithm(client, ns.servers.average(), rate, name="plain")
            >>> amplified = ns.Algorithm(client, ns.servers.amplify(2.0), rate, name="amplified")
            >>> runs = ns.Simulation.side_by_side(
            ...     ns.datasets.synthetic(clients=8, sizes=40), ns.models.logistic(),
            ...     [ns.Entry(plain, sampled=4), ns.Entry(amplified, sampled=4)], rounds=6, evaluate_every=2)
            >>> while not runs[-1].done:
            ...     _ = [run.advance() for run in runs]
            >>> [run.t for run in runs]
            [6, 6]
        """
        begun = time.perf_counter()
        require(len(entries) > 0, "there is nothing to run: give one entry or more")
        terms = Terms(rounds, tuple(seeds), evaluate_every, evaluate_on, precision)
        runs = [_run_of(federation, model, entry, terms, None) for entry in entries]
        simulations = [cls.__new__(cls) for _ in entries]
        programs = Program.side_by_side(runs, federation, seeds, evaluate_every)
        shared = (time.perf_counter() - begun) / len(entries)
        for simulation, program, entry, run in zip(simulations, programs, entries, runs, strict=True):
            simulation._program = program
            simulation._begin(federation, model, entry, terms, run, None, time.perf_counter() - shared)
        return simulations

    def _begin(
        self,
        federation: Federation,
        model: Model,
        entry: Entry,
        terms: Terms,
        run: Run,
        diagnose: Diagnose | None,
        begun: float,
    ) -> None:
        self._exam = self._program.placed(exam(federation, terms.evaluate_on))
        self._federation, self._model, self._algorithm = federation, model, entry.algorithm
        self._sampled, self._rounds, self._epsilon = entry.sampled, terms.rounds, entry.epsilon
        self._seeds, self._every = list(terms.seeds), terms.evaluate_every
        self._evaluated, self._metrics = [0], [self.evaluate()]
        check_first(self.latest.train_loss, terms.seeds)
        self._good = self.thetas.copy()
        nobody_yet = np.zeros((0, len(terms.seeds), entry.sampled), np.int32)
        self._ids, self._answered = [nobody_yet], [nobody_yet.astype(bool)]
        self._rates = run.rates[: terms.rounds]
        self._diagnosed: list[Diagnosis] = []
        # theta_R, where diagnostics are asked for: the run stops there for a moment to keep it.
        self._chosen = [random_round(seed, self._rates) for seed in terms.seeds] if diagnose and terms.rounds else []
        self._iterates = self.thetas.copy() if self._chosen else None
        self._preparing = time.perf_counter() - begun
        self._seconds = self._preparing

    @property
    def t(self) -> int:
        """Rounds played so far."""
        return self._program.t

    @property
    def done(self) -> bool:
        """Whether all rounds are played, or every seed has diverged."""
        return self.t >= self._rounds or bool(self._diverged.all())

    @property
    def latest(self) -> Metrics:
        """The last evaluation, one number a seed."""
        return self._metrics[-1]

    @property
    def thetas(self) -> np.ndarray:
        """The models as they are now, as flat vectors [S, d]."""
        return np.asarray(self._program.state.theta)

    def evaluate(self) -> Metrics:
        """The metrics of the models as they are now, one number a seed."""
        return self._program.evaluate(self._exam)

    @property
    def _diverged(self) -> np.ndarray:
        return np.isnan(self.latest.train_loss)

    def advance(self) -> bool:
        """Play a chunk of rounds, up to the next evaluation at most; whether there was one at its end."""
        over = self.done
        until = min(self._rounds, self.t + self._every - self.t % self._every)
        record = self._program.play(min([until, *(t for t in self._chosen if t > self.t)]) - self.t)
        if over:  # it only keeps in step with runs beside it that have not diverged
            return False
        begun = time.perf_counter()
        self._ids.append(record.ids)
        self._answered.append(record.answered)
        if record.diagnosis is not None:
            self._diagnosed.append(record.diagnosis)
        self._keep_iterates()
        if self.t == until:
            self._evaluated.append(self.t)
            self._metrics.append(self._judged(self.evaluate()))
        self._seconds += self._program.seconds_of_chunk + time.perf_counter() - begun
        return self.t == until

    def _judged(self, metrics: Metrics) -> Metrics:
        """The metrics, none where a seed has diverged; the models of the others are the last good ones now."""
        gone = self._diverged | has_diverged(metrics.train_loss, self._metrics[0].train_loss)
        self._good = np.where(gone[:, None], self._good, self.thetas)
        return Metrics(*(np.where(gone, np.nan, column) for column in metrics))

    def snapshot(self) -> Snapshot:
        """The run as it is now."""
        state = [np.asarray(leaf) for leaf in jax.tree.leaves(self._program.state)]
        ids, answered = np.concatenate(self._ids), np.concatenate(self._answered)
        evaluated, scores = np.array(self._evaluated), self._scores()
        iterates = None if self._iterates is None else self._iterates.copy()
        return Snapshot(
            self.t, state, evaluated, scores, ids, answered, self._seconds, self._good, self._diagnosis(), iterates
        )

    def resume(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of the same experiment."""
        leaves, tree = jax.tree.flatten(self._program.state)
        found = [np.shape(leaf) for leaf in snapshot.state]
        expected = [leaf.shape for leaf in leaves]
        require(
            found == expected and snapshot.t <= self._rounds,
            f"the snapshot holds arrays of shapes {found} after {snapshot.t} rounds, and this run has {expected} "
            f"and {self._rounds} rounds: it belongs to another experiment",
        )
        self._program.resume(jax.tree.unflatten(tree, snapshot.state), snapshot.t)
        self._evaluated = snapshot.evaluated.tolist()
        self._metrics = [Metrics(*(column[:, k] for column in snapshot.scores)) for k in range(len(self._evaluated))]
        self._ids, self._answered, self._good = [snapshot.ids], [snapshot.answered], snapshot.good
        self._diagnosed = [] if snapshot.diagnosis is None else [snapshot.diagnosis]
        self._iterates = None if snapshot.iterates is None else snapshot.iterates.copy()
        self._seconds += snapshot.seconds

    def roll_call(self, newest: int | None = None) -> RollCall:
        """Who was called and who answered, in all rounds so far, or in the newest ones."""
        last = slice(None if newest is None else -newest, None)  # of chunks, of a round or more each, and of rounds
        ids, answered = (np.concatenate(parts[last])[last].swapaxes(0, 1) for parts in (self._ids, self._answered))
        sizes = self._federation.sizes
        silenced = np.where(answered, 0, sizes[ids]).sum(-1, dtype=np.int64)
        return RollCall(ids, answered, budget.used_fraction(silenced, self._sampled, sizes), self._epsilon)

    def history(self) -> History:
        """What the run has left behind so far."""
        unravel = unraveller(self._model)
        kept = np.where(self._diverged[:, None], self._good, self.thetas)
        return History(
            algorithm=self._algorithm.name,
            seeds=np.asarray(self._seeds),
            evaluated=np.array(self._evaluated),
            scores=self._scores(),
            roll_call=self.roll_call(),
            models=[unravel(jnp.asarray(theta)) for theta in kept],
            seconds=self._seconds,
            seconds_preparing=self._preparing,
            diagnostics=self._diagnostics(),
        )

    def _keep_iterates(self) -> None:
        for row, t in enumerate(self._chosen):
            if t == self.t and self._iterates is not None:
                self._iterates[row] = self.thetas[row]

    def _diagnosis(self) -> Diagnosis | None:
        """What was diagnosed so far, rounds first."""
        return jax.tree.map(lambda *parts: np.concatenate(parts), *self._diagnosed) if self._diagnosed else None

    def _diagnostics(self) -> Diagnostics | None:
        seen = self._diagnosis()
        if seen is None or self._iterates is None:
            return None
        unravel = unraveller(self._model)
        reached = self.t >= self._rounds
        iterates = [unravel(jnp.asarray(theta)) for theta in self._iterates] if reached else []
        seen = jax.tree.map(lambda column: column.swapaxes(0, 1), seen)
        return Diagnostics.of(self._rates[: self.t], seen, np.array(self._chosen), iterates)

    def _scores(self) -> Metrics:
        return Metrics(*(np.stack(column, axis=1) for column in zip(*self._metrics, strict=True)))


def _run_of(federation: Federation, model: Model, entry: Entry, terms: Terms, diagnose: Diagnose | None) -> Run:
    """All that is one run's own in its program, checked."""
    from noshow.adversaries import nobody

    algorithm, sampled, adversary, epsilon = entry
    adversary = adversary or nobody()
    rounds, seeds, evaluate_every, evaluate_on, precision = terms
    check(federation, model, adversary, sampled, rounds, epsilon, seeds, evaluate_every, evaluate_on)
    setting = setting_for(federation, model, algorithm, adversary, sampled, epsilon or 0.0, len(seeds))
    setting = setting._replace(diagnose=diagnose is not None, precision=precision)
    rates = curve(algorithm.rate, max(rounds, 1))
    prepared = prepare(adversary, federation, model, seeds, precision)
    return Run(setting, prepared, rates, flat_optimum(diagnose, model))
