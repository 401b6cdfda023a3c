"""Results small enough to keep beside the code: curves of every algorithm of one run, and how they were made.

    RESULTS/metrics.parquet   one row an algorithm, seed and evaluation
    RESULTS/rounds.parquet    one row an algorithm, seed and round: epsilon_t, how many answered
    RESULTS/spec.toml         the resolved spec
    RESULTS/about.json        for each algorithm: when, at which commit, on what machine, how long
    RESULTS/unfinished/       what adversaries prepared, and runs put aside when time was up
    RESULTS/lock              held by the process at work

Models and full roll calls are what `noshow run` keeps; here only what figures and tables need.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noshow.checkpoint import Checkpoints
from noshow.contracts import Adversary
from noshow.errors import NoshowError, require
from noshow.evaluate import Metrics
from noshow.files import write_whole
from noshow.history import History
from noshow.prepared import keeping
from noshow.spec import Spec, validate
from noshow.store import about

EVALUATIONS = "metrics.parquet"
ROUNDS = "rounds.parquet"


class Curves(NamedTuple):
    """One algorithm's results: rows are seeds, columns evaluations or rounds."""

    label: str
    seeds: np.ndarray
    evaluated: np.ndarray
    scores: Metrics
    epsilon_t: np.ndarray
    responders: np.ndarray


class Results:
    """The results of one spec in one folder."""

    def __init__(self, path: Path, spec: Spec) -> None:
        self.path = path
        self.spec = spec
        require_same(path / "spec.toml", spec)

    @property
    def finished(self) -> list[str]:
        """The algorithms whose results are here."""
        done = notes(self.path)
        return [label for label in self.spec.labels if label in done]

    @property
    def missing(self) -> list[str]:
        """The algorithms whose results are not."""
        done = self.finished
        return [label for label in self.spec.labels if label not in done]

    def begin(self) -> None:
        """Write down which spec the folder is of, before anything of it is put aside there; raises where what is there
        is damaged."""
        self.curves()
        keep_spec(self.path / "spec.toml", self.spec)

    def keeping(self, adversary: Adversary) -> Adversary:
        """The same adversary, with what it prepares kept until all algorithms are finished."""
        return keeping(adversary, self._prepared)

    def add(self, history: History) -> None:
        """Keep an algorithm's curves, and forget what was put aside of it."""
        _append(self.path / EVALUATIONS, history.algorithm, history.metrics)
        _append(self.path / ROUNDS, history.algorithm, _rounds_table(history))
        note(self.path, history.algorithm, history.seconds)
        if not self.missing:
            self._prepared.unlink(missing_ok=True)
        self.checkpoints(history.algorithm).forget()

    def curves(self) -> dict[str, Curves]:
        """The curves of all finished algorithms, by label."""
        if not self.finished:
            return {}
        try:
            metrics, rounds = pq.read_table(self.path / EVALUATIONS), pq.read_table(self.path / ROUNDS)
            return {label: _curves(label, _only(metrics, label), _only(rounds, label)) for label in self.finished}
        except (OSError, ValueError, KeyError, IndexError, TypeError, pa.ArrowException) as error:
            raise NoshowError(f"the results in {self.path} are damaged ({error}): remove it and run again") from None

    def checkpoints(self, label: str) -> Checkpoints:
        """Where an unfinished run is kept."""
        return Checkpoints(self.path / "unfinished" / f"{label}.npz")

    @property
    def _prepared(self) -> Path:
        return self.path / "unfinished" / ".adversary.npz"


def require_same(file: Path, spec: Spec) -> None:
    """Raise if the results beside this file are another spec's."""
    if file.exists():
        different = spec.unlike(_read_spec(file))
        require(not different, f"{file.parent} holds another run ({', '.join(different)} differ): choose another --out")


def keep_spec(file: Path, spec: Spec) -> None:
    """Write down which spec the results beside this file are of."""
    write_whole(file, lambda part: part.write_text(spec.to_toml(), "utf-8"))


def notes(folder: Path) -> dict[str, Any]:
    """How each part of a folder's results was made, by its name."""
    file = folder / "about.json"
    if not file.is_file():
        return {}
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise NoshowError(f"{file} is damaged ({error}): restore it, or remove the folder and run again") from None


def note(folder: Path, part: str, seconds: float) -> None:
    """Write down that a part was made here and now, and how long it took."""
    known = notes(folder) | {part: about("finished") | {"seconds": round(seconds, 1)}}
    write_whole(folder / "about.json", lambda file: file.write_text(json.dumps(known, indent=1) + "\n", "utf-8"))


def _read_spec(file: Path) -> Spec:
    try:
        return validate(tomllib.loads(file.read_text("utf-8")))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, NoshowError) as error:
        raise NoshowError(f"{file} is damaged: {error}") from None


def _rounds_table(history: History) -> pa.Table:
    call = history.roll_call
    seeds, rounds = call.epsilon_t.shape
    columns: Any = {
        "algorithm": pa.array([history.algorithm] * (seeds * rounds), pa.string()),
        "seed": np.repeat(history.seeds.astype(np.int64), rounds),
        "round": np.tile(np.arange(rounds, dtype=np.int32), seeds),
        "epsilon_t": call.epsilon_t.reshape(-1).astype(np.float32),
        "responders": call.answered.sum(-1).reshape(-1).astype(np.int16),
    }
    return pa.table(columns)


def _append(file: Path, label: str, table: pa.Table) -> None:
    if file.exists():
        kept = pq.read_table(file)
        table = pa.concat_tables([kept.filter(pc.field("algorithm") != label), table])
    write_whole(file, lambda part: pq.write_table(table, part, compression="zstd", use_dictionary=True))


def _only(table: pa.Table, label: str) -> pa.Table:
    return table.filter(pc.field("algorithm") == label)


def _curves(label: str, metrics: pa.Table, rounds: pa.Table) -> Curves:
    seeds = np.unique(np.asarray(metrics["seed"]))

    def by_seed(table: pa.Table, name: str) -> np.ndarray:
        return np.asarray(table[name]).reshape(len(seeds), -1)

    return Curves(
        label,
        seeds,
        by_seed(metrics, "round")[0],
        Metrics(*(by_seed(metrics, name) for name in Metrics._fields)),
        by_seed(rounds, "epsilon_t"),
        by_seed(rounds, "responders"),
    )
