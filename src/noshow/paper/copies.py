"""Whether a rehearsal on an independent copy of the data shows whose gradients change most on the data themselves.

The shadow adversary (Section 7.1) takes that for granted: its candidates are those who change most on the copy. Here
the same auxiliary runs are played on both, for the presets that it attacks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noshow.adversaries.shadow import Changes, changes, foreseen, ranked
from noshow.clock import Clock
from noshow.errors import NoshowError
from noshow.files import write_whole
from noshow.paper.results import keep_spec, note, notes, require_same
from noshow.precision import products_in
from noshow.randomness import Purpose, run_key
from noshow.spec import Spec, validate
from noshow.spec_file import load
from noshow.workbench import Bench

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRESETS = ("synthetic-0.9", "cifar10-0.8")
CANDIDATES = (25, 10)
"""The paper's K1 and K2; in the setting `published` everybody is a candidate, and the rehearsal is of no account."""


class Rehearsed(NamedTuple):
    """What one seed of a preset showed."""

    preset: str
    seed: int
    on_copy: Changes
    on_data: Changes

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.preset}, seed {self.seed}"

    @property
    def shared(self) -> int:
        """How many of the candidates by the copy are candidates by the data."""
        chosen = (set(ranked(seen, *CANDIDATES).tolist()) for seen in (self.on_copy, self.on_data))
        return len(set.intersection(*chosen))


class Copies:
    """What was rehearsed in one setting and scale, in one folder: `changes.parquet`, the presets' resolved specs, and
    how it was made."""

    def __init__(self, path: Path, setting: str, scale: str, seeds: Sequence[int]) -> None:
        self.path = path
        self._specs = {preset: load(preset, [], setting, scale) for preset in PRESETS}
        self._asked = [(preset, seed) for preset in PRESETS for seed in seeds]
        for preset, spec in self._specs.items():
            require_same(self._spec_file(preset), spec)

    @property
    def rehearsed(self) -> list[Rehearsed]:
        """What is there of what was asked for."""
        file = self.path / "changes.parquet"
        if not file.is_file():
            return []
        try:
            table = pq.read_table(file)
            return [one for asked in self._asked if (one := _of(table, *asked)) is not None]
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise NoshowError(f"{file} is damaged ({error}): remove it and run again") from None

    @property
    def complete(self) -> list[Rehearsed]:
        """All that was asked for; nothing while some of it is missing."""
        there = self.rehearsed
        return there if len(there) == self.asked else []

    @property
    def asked(self) -> int:
        """How many rehearsals there are in all."""
        return len(self._asked)

    def as_runs(self) -> list[Spec]:
        """Runs that cost what the rehearsals do: each is played on the copy and on the data."""
        return [
            validate(
                spec.model_dump(exclude_none=True)
                | {
                    "algorithms": [table for table in spec.algorithms if table["name"] in ("fedavg", "cclip")],
                    "adversary": {"name": "nobody"},
                    "epsilon": "off",
                    "sampled": spec.data["clients"],
                    "rounds": 1 + max(max(pair) for pair in spec.adversary["pairs"]),
                    "seeds": [seed for preset, seed in self._asked if preset == spec.name],
                }
            )
            for spec in 2 * list(self._specs.values())
        ]

    def facts(self) -> list[dict[str, Any]]:
        """When and where each that is there was played, and for how long."""
        known = notes(self.path)
        return [known[one.name] for one in self.rehearsed if one.name in known]

    def run_missing(self, bench: Bench, clock: Clock) -> Iterator[Rehearsed]:
        """Play what is missing, one after the other, until time is up."""
        there = [(one.preset, one.seed) for one in self.rehearsed]
        for preset, seed in self._asked:
            if (preset, seed) not in there and not clock.up:
                begun = time.perf_counter()
                one = rehearsed(preset, self._specs[preset], seed, bench)
                # Spec and note first: what is in the table then always has its own.
                keep_spec(self._spec_file(preset), self._specs[preset])
                note(self.path, one.name, time.perf_counter() - begun)
                self._add(one)
                yield one

    def _spec_file(self, preset: str) -> Path:
        return self.path / f"{preset}.toml"

    def _add(self, one: Rehearsed) -> None:
        file = self.path / "changes.parquet"
        kept = [pq.read_table(file)] if file.is_file() else []
        table = pa.concat_tables([*kept, _table(one)])
        write_whole(file, lambda part: pq.write_table(table, part, compression="zstd"))


def rehearsed(preset: str, spec: Spec, seed: int, bench: Bench) -> Rehearsed:
    """The auxiliary runs on the copy that the adversary draws for this seed, and on the data, as the run itself draws
    from them: its own seed gives its first model and its batches."""
    federation, model, _, algorithms = bench.realise(spec)
    fedavg, cclip = (algorithms[spec.labels.index(label)] for label in ("fedavg", "cclip"))
    pairs = [(first, second) for first, second in spec.adversary["pairs"]]
    with products_in(spec.precision):
        on_copy = foreseen(federation, model, fedavg, cclip, pairs, run_key(seed, Purpose.PREPARE))
        return Rehearsed(preset, seed, on_copy, changes(federation, model, fedavg, cclip, pairs, seed))


COLUMNS = ("fedavg_on_copy", "cclip_on_copy", "fedavg_on_data", "cclip_on_data")


def _table(one: Rehearsed) -> pa.Table:
    clients = len(one.on_copy.by_fedavg)
    numbers = zip(COLUMNS, (*one.on_copy, *one.on_data), strict=True)
    columns: dict[str, Any] = {
        "preset": pa.array([one.preset] * clients, pa.string()),
        "seed": np.full(clients, one.seed, np.int64),
        "client": np.arange(clients, dtype=np.int32),
        **{name: values.astype(np.float32) for name, values in numbers},
    }
    return pa.table(columns)


def _of(table: pa.Table, preset: str, seed: int) -> Rehearsed | None:
    own = table.filter((pa.compute.field("preset") == preset) & (pa.compute.field("seed") == seed))
    copy_fedavg, copy_cclip, data_fedavg, data_cclip = (np.asarray(own[name]) for name in COLUMNS)
    if own.num_rows == 0:
        return None
    return Rehearsed(preset, seed, Changes(copy_fedavg, copy_cclip), Changes(data_fedavg, data_cclip))


def draw(all_: Sequence[Rehearsed], title: str) -> Figure:
    """Each client's change on the data over that on the copy: a row a preset, FedAvg left and cclip right."""
    from matplotlib.figure import Figure

    presets = [preset for preset in PRESETS if any(one.preset == preset for one in all_)]
    figure = Figure(figsize=(10, 0.6 + 4.2 * len(presets)), layout="constrained")
    panels = figure.subplots(len(presets), 2, squeeze=False)
    for preset, row in zip(presets, panels, strict=True):
        for which, (label, axes) in enumerate(zip(("fedavg", "cclip"), row, strict=True)):
            for one in all_:
                if one.preset == preset:
                    axes.loglog(one.on_copy[which], one.on_data[which], ".", markersize=4, label=f"seed {one.seed}")
            low, high = (bound(*axes.get_xlim(), *axes.get_ylim()) for bound in (min, max))
            axes.plot([low, high], [low, high], color="#888888", linewidth=0.8)
            axes.set(xlabel="change on the copy", ylabel="change on the data")
            axes.set_title(f"{preset}, {label}", loc="left")
            _few_numbers(axes)
            axes.grid(alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].legend(frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _few_numbers(axes: Axes) -> None:
    """Powers of ten on both axes, and 2 and 5 between them where there are few: left alone, the labels run together."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    plain = FuncFormatter(lambda value, _: f"{value:g}")
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        axis.set_major_formatter(plain)
        axis.set_minor_locator(LogLocator(subs=(2, 5)))
        axis.set_minor_formatter(plain if high < 50 * low else NullFormatter())
