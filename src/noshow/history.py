"""What a run leaves behind: metrics, the roll call, the final models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from noshow import divergence
from noshow.contracts import Params
from noshow.diagnostics import Diagnostics
from noshow.errors import NoshowError
from noshow.evaluate import Metrics
from noshow.tables import TableName, table_of, write_csv

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.figure import Figure

    from noshow.federation import Federation


@dataclass(frozen=True)
class RollCall:
    """Who was called and who answered, in every round of every seed.

    `sampled` [S, T, K] are client ids, `answered` [S, T, K] whether each replied, `epsilon_t` [S, T] the used share
    of the law's measure K N / M, `epsilon` the law itself (`None` when it was off).

    Example:
        >>> import numpy as np, noshow as ns
        >>> call = ns.RollCall(np.array([[[3, 1]]]), np.array([[[True, False]]]), np.array([[0.5]]), epsilon=0.5)
        >>> call.silenced(0, 0).tolist(), call.responders(0, 0).tolist()
        ([1], [3])
    """

    sampled: np.ndarray
    answered: np.ndarray
    epsilon_t: np.ndarray
    epsilon: float | None = None

    def silenced(self, seed_index: int, t: int) -> np.ndarray:
        """Ids of the clients silenced in round t."""
        return self.sampled[seed_index, t][~self.answered[seed_index, t]]

    def responders(self, seed_index: int, t: int) -> np.ndarray:
        """Ids of the clients that answered in round t."""
        return self.sampled[seed_index, t][self.answered[seed_index, t]]


class Summary(NamedTuple):
    """A run in one line. Spreads are standard deviations over the last quarter of the evaluations, mean over seeds."""

    algorithm: str
    train_loss: float
    train_loss_spread: float
    test_accuracy: float
    test_accuracy_spread: float
    mean_epsilon_t: float
    seconds: float
    diverged: str | None = None

    def __str__(self) -> str:
        if self.diverged:
            return f"{self.algorithm}: {self.diverged}, {self.seconds:.1f} s"
        return (
            f"{self.algorithm}: train loss {self.train_loss:.4f} ± {self.train_loss_spread:.4f}, "
            f"test accuracy {self.test_accuracy:.4f} ± {self.test_accuracy_spread:.4f}, "
            f"mean epsilon_t {self.mean_epsilon_t:.3f}, {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class History:
    """The history of one algorithm: one row a seed and an evaluation, one roll call a seed and a round.

    Example:
        >>> import noshow as ns
        >>> history = ns.simulate(ns.datasets.synthetic(clients=8, sizes=40), ns.models.logistic(),
        ...                       ns.algorithms.fedavg(0.01, steps=2), sampled=4, rounds=4, evaluate_every=2)
        >>> history.metrics.column_names
        ['algorithm', 'seed', 'round', 'train_loss', 'test_loss', 'test_accuracy']
    """

    algorithm: str
    seeds: np.ndarray
    evaluated: np.ndarray
    scores: Metrics
    roll_call: RollCall
    models: list[Params]
    seconds: float
    seconds_preparing: float
    diagnostics: Diagnostics | None = None

    @property
    def diverged_at(self) -> list[int | None]:
        """For each seed the round at which it was found diverged, or None; see `noshow.divergence`."""
        return divergence.diverged_at(self.evaluated, self.scores.train_loss)

    @property
    def metrics(self) -> pyarrow.Table:
        """The metrics as an Arrow table."""
        import pyarrow as pa

        seeds, times = len(self.seeds), len(self.evaluated)
        columns: Any = {
            "algorithm": pa.array([self.algorithm] * (seeds * times)),
            "seed": np.repeat(self.seeds.astype(np.int64), times),
            "round": np.tile(self.evaluated.astype(np.int32), seeds),
        }
        for name, values in zip(Metrics._fields, self.scores, strict=True):
            columns[name] = np.asarray(values, np.float32).reshape(-1)
        return pa.table(columns)

    def to_arrow(self, table: TableName = "metrics") -> pyarrow.Table:
        """The metrics, the roll call or the diagnostics, with the columns of the run folder's Parquet file."""
        return table_of(self, table)

    def to_pandas(self, table: TableName = "metrics") -> pandas.DataFrame:
        """The same as a pandas table (needs pandas: `pip install noshow[pandas]`)."""
        try:
            return self.to_arrow(table).to_pandas()
        except ImportError:
            raise NoshowError("a pandas table needs pandas: pip install 'noshow[pandas]', or use to_arrow") from None

    def to_csv(self, file: str | Path, table: TableName = "metrics") -> None:
        """The same as a CSV file; ids of clients become words, such as `3 1 7`."""
        write_csv(Path(file), self.to_arrow(table))

    @property
    def roll_call_table(self) -> pyarrow.Table:
        """The roll call as an Arrow table: one row a seed and a round, ids as lists."""
        import pyarrow as pa

        call = self.roll_call
        seeds, rounds = call.epsilon_t.shape
        cells = [(s, t) for s in range(seeds) for t in range(rounds)]
        ids = pa.list_(pa.int32())
        columns: Any = {
            "algorithm": pa.array([self.algorithm] * len(cells), pa.string()),
            "seed": np.repeat(self.seeds.astype(np.int64), rounds),
            "round": np.tile(np.arange(rounds, dtype=np.int32), seeds),
            "sampled": pa.array([call.sampled[s, t] for s, t in cells], ids),
            "silenced": pa.array([call.silenced(s, t) for s, t in cells], ids),
            "responders": pa.array([call.responders(s, t) for s, t in cells], ids),
            "epsilon_t": call.epsilon_t.reshape(-1),
        }
        return pa.table(columns)

    def summary(self) -> Summary:
        """The numbers of `noshow run`'s table."""
        quarter = slice(-max(2, len(self.evaluated) // 4), None)
        used = self.roll_call.epsilon_t
        return Summary(
            self.algorithm,
            float(np.mean(self.scores.train_loss[:, -1])),
            float(np.mean(np.std(self.scores.train_loss[:, quarter], axis=1))),
            float(np.mean(self.scores.test_accuracy[:, -1])),
            float(np.mean(np.std(self.scores.test_accuracy[:, quarter], axis=1))),
            float(used.mean()) if used.size else 0.0,
            self.seconds,
            divergence.in_words(self.diverged_at),
        )

    def plot(self, *others: History) -> Figure:
        """Train loss, test accuracy and epsilon_t, of this run and of others beside it."""
        from noshow.figure import compare

        return compare([self, *others])

    def report(self, file: str | Path, *others: History, federation: Federation) -> None:
        """The HTML report of this run and of others beside it, on the federation that they ran on.

        It needs plotly: `pip install noshow[report]`.
        """
        from noshow.report import write_comparison

        write_comparison([self, *others], federation, Path(file))
