"""Runs on disk: one folder an experiment, one folder in it for each finished algorithm.

    RUN/spec.toml                   the resolved spec
    RUN/about.json                  versions, machine, when, and the digests of files that the spec names
    RUN/adversary.npz               what the adversary prepared, so that it is not prepared twice
    RUN/ALGORITHM/metrics.parquet   one row a seed and an evaluation
    RUN/ALGORITHM/roll_call.parquet one row a seed and a round
    RUN/ALGORITHM/model.npz         the final parameters, one array a seed and a leaf
    RUN/ALGORITHM/diagnostics.parquet one row a seed and a round, where `diagnose` asks for it
    RUN/ALGORITHM/random_iterate.npz  theta_R, likewise
    RUN/ALGORITHM/result.json       seeds, seconds
    RUN/figure.png                  the curves
    RUN/unfinished/ALGORITHM.npz    the newest checkpoint of an algorithm in progress; `.before`, the one before it
    RUN/progress.json               how far the run is, and which processes have worked on it
    RUN/lock                        held by the process at work

An algorithm's folder appears whole or not at all: it is written under another name and renamed.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noshow.arrays import load_arrays, save_arrays
from noshow.checkpoint import Checkpoints
from noshow.commit import commit
from noshow.contracts import Adversary, Params
from noshow.diagnostics import Diagnosis, Diagnostics
from noshow.errors import NoshowError, require
from noshow.evaluate import Metrics
from noshow.files import mend_folder, write_whole, write_whole_folder
from noshow.history import History, RollCall
from noshow.lock import LOCK
from noshow.parameters import named_leaves
from noshow.prepared import keeping
from noshow.progress import PROGRESS
from noshow.spec import FILES_OF_A_RUN, START_FROM, Spec, validate
from noshow.version import __version__

RUNS = Path("runs")


class RunFolder:
    """The folder of one experiment."""

    def __init__(self, path: Path, spec: Spec) -> None:
        self.path = path
        self.spec = spec

    @staticmethod
    def place(spec: Spec) -> Path:
        """Where this experiment belongs, if the user chooses no other place."""
        return RUNS / f"{spec.name}-{spec.digest}"

    @classmethod
    def of(cls, spec: Spec, out: Path | None = None) -> RunFolder:
        """The folder where this experiment belongs; raises if another experiment lives there."""
        path = out or cls.place(spec)
        if (path / "spec.toml").exists() and (path / "about.json").exists():
            different = spec.unlike(cls.open(path).spec)
            require(not different, f"{path} holds another run ({', '.join(different)} differ): choose another --out")
        elif path.exists():
            require(
                path.is_dir() and all(map(_left_by_a_start, path.iterdir())),
                f"{path} is there already and is no run folder: choose another --out",
            )
        return cls(path, spec)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder."""
        file = path / "spec.toml"
        require(file.is_file(), f"{path} is no run folder: it has no spec.toml")
        require((path / "about.json").is_file(), f"{path} is no run folder: it has no about.json")
        try:
            return cls(path, validate(tomllib.loads(file.read_text("utf-8"))))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, NoshowError) as error:
            raise NoshowError(f"{file} is damaged: {error}") from None

    def begin(self, anew: bool = False) -> None:
        """Make the folder, if it is not there, and write down what will run on what.

        `anew` starts over; earlier results stay until theirs replace them. Only for the process that is `alone_in`
        the folder: what a killed one left half written is swept away.
        """
        for label in self.spec.labels:
            mend_folder(self.path / label)
        parts = (*(f".{label}-" for label in self.spec.labels), *(f".{file}." for file in FILES_OF_A_RUN))
        for left in self.path.glob(".*"):
            if left.name.startswith(parts):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        if anew:
            for file in ("adversary.npz", PROGRESS):
                (self.path / file).unlink(missing_ok=True)
        for label in self.spec.labels if anew else self.finished:
            self.checkpoints(label).forget()
        if anew or not (self.path / "spec.toml").exists():
            facts = json.dumps(about() | {"files": digests(self.spec)}, indent=2) + "\n"
            write_whole(self.path / "about.json", lambda part: part.write_text(facts, "utf-8"))
            write_whole(self.path / "spec.toml", lambda part: part.write_text(self.spec.to_toml(), "utf-8"))

    def check_files(self) -> None:
        """Raise where a file that the spec names is not what it was when the run was begun."""
        begun = self.about().get("files", {}) if (self.path / "about.json").is_file() else {}
        for name, digest in digests(self.spec).items():
            require(
                begun.get(name, digest) == digest,
                f"{self.path} holds a run with what was in {name} then, which has changed: choose another --out, or "
                "start over with --again",
            )

    def about(self) -> dict[str, Any]:
        """Versions, machine and time of the run, as written at its start."""
        try:
            facts: dict[str, Any] = dict(json.loads((self.path / "about.json").read_text("utf-8")))
            return facts
        except (OSError, ValueError, TypeError) as error:
            raise NoshowError(f"{self.path / 'about.json'} is damaged: {error}") from None

    @property
    def finished(self) -> list[str]:
        """The algorithms whose results are here, in the spec's order."""
        return [label for label in self.spec.labels if (self.path / label / "result.json").is_file()]

    def checkpoints(self, label: str) -> Checkpoints:
        """Where an algorithm in progress is kept."""
        return Checkpoints(self.path / "unfinished" / f"{label}.npz")

    def save(self, history: History) -> None:
        """Keep an algorithm's results, whole; only its own earlier results may make way."""
        place = self.path / history.algorithm
        require(
            not place.exists() or (place / "result.json").is_file(),
            f"{place} is there already and holds no results: move it away, and run again",
        )
        write_whole_folder(place, lambda part: _fill(part, history))

    def load(self, label: str) -> History:
        """An algorithm's results. Models come back as a table of their leaves by name."""
        folder = self.path / label
        try:
            result = json.loads((folder / "result.json").read_text("utf-8"))
            metrics = pq.read_table(folder / "metrics.parquet")
            calls = pq.read_table(folder / "roll_call.parquet")
            arrays = load_arrays(folder / "model.npz")
            models = [_leaves_of(seed, arrays) for seed in result["seeds"]]
            history = _history(label, result, metrics, calls, models, self.spec.sampled)
            return replace(history, diagnostics=_diagnostics(folder, result))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
            raise NoshowError(
                f"the results in {folder} are damaged ({error}): remove the folder and run again"
            ) from None

    def keeping(self, adversary: Adversary) -> Adversary:
        """The same adversary, with what it prepares kept in this folder and never prepared twice."""
        return keeping(adversary, self.path / "adversary.npz")


def _fill(part: Path, history: History) -> None:
    """The files of an algorithm's folder."""
    pq.write_table(history.metrics, part / "metrics.parquet")
    pq.write_table(history.roll_call_table, part / "roll_call.parquet")
    save_arrays(part / "model.npz", _named_leaves(history.seeds, history.models))
    seen = history.diagnostics
    if seen is not None:
        pq.write_table(seen.table(history.algorithm, history.seeds), part / "diagnostics.parquet")
        save_arrays(part / "random_iterate.npz", _named_leaves(history.seeds, seen.random_iterates))
    result = {
        "seeds": history.seeds.tolist(),
        "epsilon": history.roll_call.epsilon,
        "seconds": round(history.seconds, 3),
        "seconds_preparing": round(history.seconds_preparing, 3),
        **({} if seen is None else {"random_rounds": seen.random_rounds.tolist()}),
    }
    (part / "result.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")


def _left_by_a_start(path: Path) -> bool:
    """Whether a run that was killed while it made its folder may have left this file."""
    return path.name in (LOCK, "about.json") or path.name.startswith((".about.json.", ".spec.toml."))


def digests(spec: Spec) -> dict[str, str]:
    """What the files hold that a spec names, by the name of the setting: a trace to replay, a first model.

    Example:
        >>> from noshow.spec_file import load
        >>> digests(load("synthetic-0.9"))
        {}
    """
    named = {"adversary.trace": spec.adversary.get("trace"), "model.start_from": spec.model.get(START_FROM)}
    files = {name: Path(file) for name, file in named.items() if isinstance(file, str)}
    return {name: sha256(file.read_bytes()).hexdigest() for name, file in files.items() if file.is_file()}


def about(when: Literal["started", "finished"] = "started") -> dict[str, Any]:
    """Versions, machine and time of a run."""
    return {
        when: datetime.now(UTC).isoformat(timespec="seconds"),
        "noshow": __version__,
        "commit": commit(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "devices": [str(device.device_kind) for device in jax.devices()],
    }


def _history(
    label: str, result: dict[str, Any], metrics: pa.Table, calls: pa.Table, models: list[Params], sampled: int
) -> History:
    seeds = len(result["seeds"])

    def column(name: str) -> np.ndarray:
        return np.asarray(metrics[name]).reshape(seeds, -1)

    rounds = calls.num_rows // seeds
    ids = _lists(calls["sampled"]).reshape(seeds, rounds, sampled)
    return History(
        algorithm=label,
        seeds=np.array(result["seeds"]),
        evaluated=column("round")[0],
        scores=Metrics(*(column(name) for name in Metrics._fields)),
        roll_call=RollCall(
            ids,
            _answered(ids, calls["responders"]),
            np.asarray(calls["epsilon_t"]).reshape(seeds, rounds),
            result["epsilon"],
        ),
        models=models,
        seconds=result["seconds"],
        seconds_preparing=result["seconds_preparing"],
    )


def _diagnostics(folder: Path, result: dict[str, Any]) -> Diagnostics | None:
    file = folder / "diagnostics.parquet"
    if not file.is_file():
        return None
    table, seeds = pq.read_table(file), len(result["seeds"])

    def column(name: str) -> np.ndarray | None:
        return np.asarray(table[name]).reshape(seeds, -1) if name in table.column_names else None

    iterates = load_arrays(folder / "random_iterate.npz")
    return Diagnostics.of(
        np.asarray(table["rate"])[: table.num_rows // seeds],
        Diagnosis(*map(column, Diagnosis._fields)),
        np.array(result["random_rounds"]),
        [_leaves_of(seed, iterates) for seed in result["seeds"]],
    )


def _named_leaves(seeds: np.ndarray, models: Sequence[Params]) -> dict[str, np.ndarray]:
    return {
        f"{seed}:{name}": np.asarray(leaf)
        for seed, model in zip(seeds, models, strict=True)
        for name, leaf in named_leaves(model)
    }


def _lists(column: Any) -> np.ndarray:
    return np.asarray(column.combine_chunks().flatten())


def _answered(sampled: np.ndarray, responders: Any) -> np.ndarray:
    calls = zip(sampled.reshape(-1, sampled.shape[-1]), responders, strict=True)
    return np.array([np.isin(ids, who.as_py()) for ids, who in calls], bool).reshape(sampled.shape)


def _leaves_of(seed: int, arrays: Mapping[str, np.ndarray]) -> Params:
    return {name.partition(":")[2]: array for name, array in arrays.items() if name.partition(":")[0] == str(seed)}
