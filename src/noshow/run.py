"""Run a spec into its folder: prepare the adversary, then one algorithm after the other, skipping what is finished."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from noshow.checkpoint import SECONDS_BETWEEN, Found, play
from noshow.clock import Clock
from noshow.engine import Simulation
from noshow.evaluate import Metrics
from noshow.figure import compare, keep_figure
from noshow.footprint import check as check_memory
from noshow.history import History, RollCall
from noshow.lock import alone_in
from noshow.progress import Progress
from noshow.rehearsal import prepare
from noshow.spec import PAPER, Experiment, Spec, realise
from noshow.standing import NEWEST
from noshow.store import RunFolder


class Display(Protocol):
    """Where progress is shown."""

    def preparing(self, adversary: str) -> AbstractContextManager[None]:
        """The adversary prepares, within the context."""

    def begin(self, label: str, rounds: int) -> None:
        """An algorithm starts."""

    def played(self, label: str, t: int, call: RollCall) -> None:
        """An algorithm has been played up to round t; the roll call is that of its newest rounds."""

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        """An algorithm has been evaluated after t rounds."""

    def finish(self, history: History, seen_before: bool) -> None:
        """An algorithm's results are in the folder."""

    def note(self, sentence: str) -> None:
        """Something worth knowing has happened."""


def run(
    spec: Spec,
    folder: RunFolder,
    display: Display,
    again: bool = False,
    clock: Clock | None = None,
    memory: int | None = None,
) -> list[History] | None:
    """All histories of the experiment; only what is missing in the folder is run, or, `again`, everything anew.

    An algorithm that was put aside is taken up again. `None` if time was up before the end; the folder then holds
    what is needed to go on. Nothing is begun that cannot fit into `memory` bytes, or into what is free.
    """
    unfinished = again or len(folder.finished) < len(spec.labels)

    def build(spec: Spec) -> Experiment:
        experiment = realise(spec)
        missing = [label for label in spec.labels if again or label not in folder.finished]
        for sentence in check_memory(spec, experiment, missing, memory):
            display.note(sentence)
        return experiment

    histories = complete(spec, folder, display, again, clock, build=build)
    if histories is not None and (unfinished or not (folder.path / "figure.png").exists()):
        keep_figure(folder.path / "figure.png", compare(histories, title_of(spec)))
    return histories


def complete(
    spec: Spec,
    folder: RunFolder,
    display: Display,
    again: bool = False,
    clock: Clock | None = None,
    seconds_between: float = SECONDS_BETWEEN,
    build: Callable[[Spec], Experiment] = realise,
) -> list[History] | None:
    """As `run`, without the figure; `seconds_between` are those between two checkpoints, `build` makes the parts."""
    histories: dict[str, History] = {}
    if not again:
        folder.check_files()
    if again or len(folder.finished) < len(spec.labels):
        experiment = build(spec)
        with alone_in(folder.path):
            folder.begin(anew=again)
            _load_finished(histories, [] if again else folder.finished, folder, display)
            work = Work(spec, folder, experiment, display, clock or Clock(), seconds_between)
            if not _run_missing(histories, work):
                return None
    else:
        _load_finished(histories, spec.labels, folder, display)
    return [histories[label] for label in spec.labels]


class Work(NamedTuple):
    """What all algorithms of one run share."""

    spec: Spec
    folder: RunFolder
    experiment: Experiment
    display: Display
    clock: Clock
    seconds_between: float


def _load_finished(histories: dict[str, History], labels: list[str], folder: RunFolder, display: Display) -> None:
    for label in labels:
        histories[label] = folder.load(label)
        display.finish(histories[label], seen_before=True)


def _run_missing(histories: dict[str, History], work: Work) -> bool:
    """Add the histories that are missing, one algorithm after the other; whether time sufficed."""
    spec, experiment = work.spec, work.experiment
    progress = Progress(work.folder.path)
    adversary = work.folder.keeping(experiment.adversary)
    with work.display.preparing(adversary.name):
        prepare(adversary, experiment.federation, experiment.model, spec.seeds, spec.precision)
    work = work._replace(experiment=experiment._replace(adversary=adversary))
    for label in spec.labels:
        if label not in histories:
            history = None if work.clock.up else _run_one(label, work, progress)
            if history is None:
                return False
            histories[label] = history
    return True


def _run_one(label: str, work: Work, progress: Progress) -> History | None:
    kept = work.folder.checkpoints(label)
    run = taken_up(work.spec, work.experiment, label, kept.newest(), work.display)
    progress.begin(label, work.spec.length(label)[0], run)

    def watch(_: int, evaluated: bool) -> None:
        progress.reach()
        tell(work.display, label, run, evaluated)

    done = play([run], [kept], work.clock, watch, work.seconds_between)
    progress.write()
    if not done:
        return None
    history = run.history()
    work.folder.save(history)
    progress.finish()
    kept.forget()
    work.display.finish(history, seen_before=False)
    return history


def taken_up(
    spec: Spec, experiment: Experiment, label: str, found: Found, display: Display, name: str | None = None
) -> Simulation:
    """The run of one algorithm, from where it was put aside, or from the start; the display calls it by its name."""
    rounds, name = spec.length(label)[0], name or label
    display.begin(name, rounds)
    run = Simulation(
        experiment.federation,
        experiment.model,
        experiment.algorithms[spec.labels.index(label)],
        experiment.adversary,
        **spec.run_settings(label),
    )
    go_on(run, found, name, rounds, display)
    return run


def go_on(run: Simulation, found: Found, name: str, rounds: int, display: Display) -> None:
    """Take the run up where it was put aside, if it was, and show where it is."""
    if found.note is not None:
        display.note(found.note)
    if found.snapshot is not None:
        run.resume(found.snapshot)
        display.note(f"{name} goes on after {run.t} of {rounds} rounds")
    tell(display, name, run, evaluated=True)


def tell(display: Display, name: str, run: Simulation, evaluated: bool) -> None:
    """Show where the run is, and its last evaluation if that is new."""
    display.played(name, run.t, run.roll_call(NEWEST))
    if evaluated:
        display.evaluated(name, run.t, run.latest)


def title_of(spec: Spec) -> str:
    """What a figure says about the run: its name, its setting, and its scale where it is not the paper's."""
    return f"{spec.name} ({spec.setting}{'' if spec.scale == PAPER else f', {spec.scale} scale'})"
