"""Runs in TensorBoard: event files under `tensorboard/ALGORITHM/seed-N` of the run folder."""

from __future__ import annotations

import json
from pathlib import Path

from tensorboardX import SummaryWriter

from noshow.divergence import in_words
from noshow.evaluate import Metrics
from noshow.history import History
from noshow.spec import Spec
from noshow.trackers.flat import of_seed, settings_of


class TensorBoard:
    """One writer an algorithm and a seed; rounds are steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tensorboard"
        self._writers: dict[str, list[SummaryWriter]] = {}

    def begin(self, spec: Spec, label: str) -> None:
        """Open the seeds' event files."""
        text = json.dumps(settings_of(spec, label), indent=1, default=str)
        self._writers[label] = [SummaryWriter(str(self._folder / label / f"seed-{seed}")) for seed in spec.seeds]
        for writer in self._writers[label]:
            writer.add_text("settings", f"```json\n{text}\n```", 0)

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        """Add a point to each seed's curves."""
        for place, writer in enumerate(self._writers[label]):
            for name, value in of_seed(metrics, place).items():
                writer.add_scalar(name, value, t)
            writer.flush()

    def finish(self, history: History) -> None:
        """Add every round's epsilon_t, and close."""
        told = in_words(history.diverged_at)
        for writer, used in zip(self._writers.pop(history.algorithm), history.roll_call.epsilon_t, strict=True):
            for t, value in enumerate(used):
                writer.add_scalar("epsilon_t", float(value), t)
            if told:
                writer.add_text("status", told, len(used))
            writer.close()


def track(folder: Path) -> TensorBoard:
    """The tracker of the run in this folder."""
    return TensorBoard(folder)
