"""Runs in MLflow: an experiment of the spec's name, a run an algorithm and a seed.

Where that is, MLflow says: `MLFLOW_TRACKING_URI`, as for everything else that uses it.
"""

from __future__ import annotations

from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from noshow.divergence import in_words
from noshow.errors import NoshowError
from noshow.evaluate import Metrics
from noshow.history import History
from noshow.spec import Spec
from noshow.trackers.flat import key_of, of_seed, settings_of

LONGEST = 500
"""Characters of a parameter's value that every MLflow server takes."""


class MLflow:
    """One MLflow run an algorithm and a seed; rounds are steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, list[str]] = {}
        try:
            self._client = MlflowClient()
        except MlflowException as error:
            raise NoshowError(f"MLflow does not answer ({error}): look at MLFLOW_TRACKING_URI") from None

    def begin(self, spec: Spec, label: str) -> None:
        """Create the seeds' runs, with the settings as parameters."""
        client = self._client
        found = client.get_experiment_by_name(spec.name)
        experiment = client.create_experiment(spec.name) if found is None else found.experiment_id
        params = [Param(key, str(value)[:LONGEST]) for key, value in settings_of(spec, label).items()]
        self._runs[label] = []
        for seed in spec.seeds:
            key = key_of(self._folder, label, seed)
            tags = {"noshow.key": key, "noshow.folder": str(self._folder), "noshow.seed": str(seed)}
            # A run that was put aside goes on where it was.
            unfinished = client.search_runs([experiment], f"tags.`noshow.key` = '{key}' and status = 'RUNNING'")
            run = unfinished[0] if unfinished else client.create_run(experiment, None, tags, f"{label} seed {seed}")
            client.log_batch(run.info.run_id, params=params)
            self._runs[label].append(run.info.run_id)

    def evaluated(self, label: str, t: int, metrics: Metrics) -> None:
        """Add a point to each seed's curves."""
        for place, run in enumerate(self._runs[label]):
            points = [Metric(name, value, 0, t) for name, value in of_seed(metrics, place).items()]
            self._client.log_batch(run, metrics=points)

    def finish(self, history: History) -> None:
        """Add the mean of epsilon_t, and end the runs; a seed that diverged has failed."""
        for place, run in enumerate(self._runs.pop(history.algorithm)):
            used = history.roll_call.epsilon_t[place]
            if used.size:
                self._client.log_metric(run, "mean_epsilon_t", float(used.mean()))
            told = in_words([history.diverged_at[place]])
            if told:
                self._client.log_batch(run, tags=[RunTag("noshow.status", told)])
            self._client.set_terminated(run, "FAILED" if told else "FINISHED")


def track(folder: Path) -> MLflow:
    """The tracker of the run in this folder."""
    return MLflow(folder)
