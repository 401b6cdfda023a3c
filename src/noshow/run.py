"""Run a spec into its folder: prepare the adversary, then one algorithm after the other, skipping what is finished."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from noshow.engine import prepare, simulate
from noshow.evaluate import Metrics
from noshow.figure import compare
from noshow.history import History
from noshow.spec import PAPER, Experiment, Spec, realise
from noshow.store import RunFolder


class Display(Protocol):
    """Where progress is shown."""

    def preparing(self, adversary: str) -> AbstractContextManager[None]:
        """The adversary prepares, within the context."""

    def begin(self, label: str, rounds: int) -> None:
        """An algorithm starts."""

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        """An algorithm has been evaluated after t rounds."""

    def finish(self, history: History, seen_before: bool) -> None:
        """An algorithm's results are in the folder."""


def run(spec: Spec, folder: RunFolder, display: Display, again: bool = False) -> list[History]:
    """All histories of the experiment; only what is missing in the folder is run, or, `again`, everything anew."""
    histories = {} if again else {label: folder.load(label) for label in folder.finished}
    missing = [label for label in spec.labels if label not in histories]
    for history in histories.values():
        display.finish(history, seen_before=True)
    if missing:
        experiment = realise(spec)
        folder.begin(anew=again)
        adversary = folder.keeping(experiment.adversary)
        with display.preparing(adversary.name):
            prepare(adversary, experiment.federation, experiment.model, spec.seeds)
        experiment = experiment._replace(adversary=adversary)
        for label in missing:
            histories[label] = _run_one(spec, experiment, label, display)
            folder.save(histories[label])
            display.finish(histories[label], seen_before=False)
    ordered = [histories[label] for label in spec.labels]
    if missing or not (folder.path / "figure.png").exists():
        compare(ordered, title_of(spec)).savefig(folder.path / "figure.png", dpi=150)
    return ordered


def _run_one(spec: Spec, experiment: Experiment, label: str, display: Display) -> History:
    algorithm = experiment.algorithms[spec.labels.index(label)]
    display.begin(label, spec.length(label)[0])
    return simulate(
        experiment.federation,
        experiment.model,
        algorithm,
        experiment.adversary,
        **spec.run_settings(label),
        watch=lambda t, metrics: display.evaluated(label, t, metrics),
    )


def title_of(spec: Spec) -> str:
    """What a figure says about the run: its name, its setting, and its scale where it is not the paper's."""
    return f"{spec.name} ({spec.setting}{'' if spec.scale == PAPER else f', {spec.scale} scale'})"
