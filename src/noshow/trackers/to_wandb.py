"""Runs in Weights & Biases: a project of the spec's name, a run an algorithm and a seed, grouped by algorithm.

Where that is, and whether the network is used, its own variables say: `WANDB_MODE=offline` keeps all of it here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import wandb

from noshow.divergence import in_words
from noshow.evaluate import Metrics
from noshow.history import History
from noshow.spec import Spec
from noshow.trackers.flat import key_of, of_seed, settings_of


class WeightsAndBiases:
    """One run an algorithm and a seed; rounds are steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, list[Any]] = {}

    def begin(self, spec: Spec, label: str) -> None:
        """Start the seeds' runs, with the settings as their configuration."""
        self._runs[label] = [
            wandb.init(
                project=spec.name,
                group=label,
                name=f"{label} seed {seed}",
                config=settings_of(spec, label) | {"seed": seed, "folder": str(self._folder)},
                dir=str(self._folder),
                id=key_of(self._folder, label, seed),
                resume="allow",  # a run that was put aside goes on where it was
                reinit="create_new",
            )
            for seed in spec.seeds
        ]

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        """Add a point to each seed's curves."""
        for place, run in enumerate(self._runs[label]):
            run.log(of_seed(metrics, place) | {"round": t}, step=t)

    def finish(self, history: History) -> None:
        """Say how it ended, and end the runs; a seed that diverged has failed."""
        for place, run in enumerate(self._runs.pop(history.algorithm)):
            used = history.roll_call.epsilon_t[place]
            run.summary["mean_epsilon_t"] = float(used.mean()) if used.size else 0.0
            told = in_words([history.diverged_at[place]])
            if told:
                run.summary["status"] = told
            run.finish(exit_code=1 if told else 0)


def track(folder: Path) -> WeightsAndBiases:
    """The tracker of the run in this folder."""
    return WeightsAndBiases(folder)
