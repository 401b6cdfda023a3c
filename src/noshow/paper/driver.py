"""Run what is missing of an experiment, within a time limit, and go on in a later call."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from noshow.checkpoint import Found, play
from noshow.clock import Clock
from noshow.contracts import Algorithm
from noshow.devices import on_cpu
from noshow.engine import Entry, Simulation
from noshow.groups import side_by_side
from noshow.lock import alone_in
from noshow.paper.results import Results
from noshow.rehearsal import prepare
from noshow.run import Display, go_on, taken_up, tell
from noshow.spec import Experiment
from noshow.workbench import Bench


class Job(NamedTuple):
    """An algorithm of a cell that is to run, and where it was put aside before."""

    cell: str
    label: str
    results: Results
    experiment: Experiment
    found: Found

    @property
    def name(self) -> str:
        """What the display calls it."""
        return f"{self.cell} {self.label}".strip()

    @property
    def algorithm(self) -> Algorithm:
        """What it runs."""
        return self.experiment.algorithms[self.results.spec.labels.index(self.label)]


def run_missing(cells: Mapping[str, Results], bench: Bench, display: Display, clock: Clock) -> bool:
    """Run the algorithms whose results are missing, cell by cell; whether all are there now.

    An accelerator plays those side by side whose clients compute alike. When time is up, the chunk in progress is
    finished, or what the adversary prepares for a seed; what runs is put aside, and nothing new begun.
    """
    with ExitStack() as alone:
        for results in cells.values():
            if results.missing:
                alone.enter_context(alone_in(results.path))
        groups = _groups(_missing(cells, bench)) if not clock.up else []
        ready: set[str] = set()
        for group in groups:
            for job in group:
                if job.cell not in ready and not _prepared(job, display, clock):
                    return False
                ready.add(job.cell)
            if clock.up or not _run(group, display, clock):
                return False
        return not any(results.missing for results in cells.values())


def _missing(cells: Mapping[str, Results], bench: Bench) -> list[Job]:
    jobs = []
    for cell, results in cells.items():
        if results.missing:
            experiment = bench.realise(results.spec)
            own = experiment._replace(adversary=results.keeping(experiment.adversary))
            jobs += [Job(cell, label, results, own, results.checkpoints(label).newest()) for label in results.missing]
    return jobs


def _prepared(job: Job, display: Display, clock: Clock) -> bool:
    """Let a cell's adversary prepare, which is kept seed by seed; whether time sufficed."""
    spec, (federation, model, adversary, _) = job.results.spec, job.experiment
    job.results.begin()
    with display.preparing(adversary.name):
        for seed in spec.seeds:
            if clock.up:
                return False
            prepare(adversary, federation, model, [seed], spec.precision)
    return True


def _groups(jobs: Sequence[Job]) -> list[list[Job]]:
    if on_cpu():  # one client after the other in any case
        return [[job] for job in jobs]

    def alike(job: Job) -> Hashable:
        spec, (federation, model, _, _) = job.results.spec, job.experiment
        played = 0 if job.found.snapshot is None else job.found.snapshot.t
        shared = (*spec.length(job.label), tuple(spec.seeds), spec.evaluate_on, spec.precision)
        if spec.diagnose:  # every round of such a run has more to do: it is played alone
            return job.name
        return id(federation), id(model), id(job.algorithm.client), shared, played

    def examples(job: Job) -> int:
        spec = job.results.spec
        return len(spec.seeds) * spec.sampled * int(job.experiment.federation.sizes.max())

    return side_by_side(jobs, alike, examples)


def _run(group: Sequence[Job], display: Display, clock: Clock) -> bool:
    runs = _taken_up(group, display)
    kept = [job.results.checkpoints(job.label) for job in group]

    def watch(number: int, evaluated: bool) -> None:
        tell(display, group[number].name, runs[number], evaluated)

    if not play(runs, kept, clock, watch):
        return False
    for job, run in zip(group, runs, strict=True):
        history = run.history()
        job.results.add(history)
        display.finish(replace(history, algorithm=job.name), seen_before=False)
    return True


def _taken_up(group: Sequence[Job], display: Display) -> list[Simulation]:
    first = group[0]
    if len(group) == 1:
        return [taken_up(first.results.spec, first.experiment, first.label, first.found, display, first.name)]
    spec, (federation, model, _, _) = first.results.spec, first.experiment
    rounds, every = spec.length(first.label)
    for job in group:
        display.begin(job.name, rounds)
    runs = Simulation.side_by_side(
        federation,
        model,
        [
            Entry(job.algorithm, job.results.spec.sampled, job.experiment.adversary, job.results.spec.epsilon)
            for job in group
        ],
        rounds=rounds,
        seeds=spec.seeds,
        evaluate_every=every,
        evaluate_on=spec.evaluate_on,
        precision=spec.precision,
    )
    for job, run in zip(group, runs, strict=True):
        go_on(run, job.found, job.name, rounds, display)
    return runs
