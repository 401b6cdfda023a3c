"""Whatever is in a file that we read, it works or is told in one sentence: no traceback, no hang, nothing half written.

`make fuzz` tries 10,000 files; here it is a few of each kind. Hypothesis draws the same ones every time, and what once
went wrong stays as an example.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated_bytes, mutated_table
from rich.console import Console

import noshow as ns
from noshow import spec_file, trace
from noshow.checkpoint import Checkpoints
from noshow.display import PlainLines
from noshow.paper.results import Results
from noshow.run import complete
from noshow.spec import realise, validate
from noshow.store import RunFolder
from noshow.sweep_grid import load_grid

CASES = int(os.environ.get("NOSHOW_FUZZ", "40"))
SECONDS = 60
SHARE_RUN = 0.03

fuzz = settings(
    max_examples=CASES,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)

SEEDS = st.integers(0, 2**32 - 1)
SPEC = """
name = "small"
description = "a small run"
rounds = 2
sampled = 3
seeds = [0, 5]
epsilon = 0.5
evaluate_every = 1

[data]
name = "synthetic"
clients = 6
sizes = 20
batches = "step"
batch_size = 4

[model]
name = "logistic"

[adversary]
name = "largest_reply"

[[algorithms]]
name = "fedprox_variant"
rate = { name = "inverse_sqrt", initial = 0.1 }
steps = 2
mu = 0.1
beta = 2.0

[[algorithms]]
name = "bucketing_cclip"
label = "mine"
rate = 0.1

[settings.published]
damping = 1.0

[scales.quick]
rounds = 1
"""
GRID = """
experiment = "synthetic-0.9"
scale = "quick"
[set]
rounds = 3
[[grid]]
rate = [0.1, 1.0]
"data.clients" = [10, 20]
[[grid]]
beta = 2.0
"""


@contextmanager
def told_or_done() -> Iterator[None]:
    """What happens within either works or is told in one sentence, and soon."""

    def hangs(*_: object) -> None:
        raise AssertionError(f"nothing came back within {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    try:
        yield
    except ns.NoshowError as error:
        sentence = str(error)
        assert sentence
        assert "\n" not in sentence
        assert len(sentence) < 1000
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Kept(NamedTuple):
    """Files of a finished run, and the run itself."""

    run: ns.Simulation
    files: dict[str, bytes]
    results: dict[str, bytes]
    checkpoint: bytes
    trace: bytes
    weights: bytes

    def __repr__(self) -> str:
        return "a finished run"  # not all its bytes, in what Hypothesis tells


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("kept")
    spec = one_algorithm()
    parts = realise(spec)
    run = ns.Simulation(
        parts.federation, parts.model, parts.algorithms[0], parts.adversary, **spec.run_settings(spec.labels[0])
    )
    while not run.done:
        run.advance()
    history = run.history()
    place = RunFolder(folder / "run", spec)
    place.begin()
    place.save(history)
    results = Results(folder / "results", spec)
    results.add(history)
    Checkpoints(folder / "checkpoint.npz").save(run.snapshot())
    trace.write(folder / "trace.parquet", trace.of_history(history, parts.federation, 0))
    ns.weights.save(folder / "model.safetensors", parts.model, history.models[0])
    return Kept(
        run,
        contents(folder / "run"),
        contents(folder / "results"),
        (folder / "checkpoint.npz").read_bytes(),
        (folder / "trace.parquet").read_bytes(),
        (folder / "model.safetensors").read_bytes(),
    )


def one_algorithm() -> ns.spec.Spec:
    raw = tomllib.loads(SPEC)
    del raw["settings"], raw["scales"], raw["algorithms"][1:]
    return validate(raw)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@contextmanager
def a_file(content: bytes, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        yield file
        assert [path.name for path in Path(folder).iterdir()] == [name]


def try_spec(content: bytes) -> None:
    """Read it and build its parts; some of those that are right are run, too."""
    with a_file(content, "spec.toml") as file, told_or_done():
        spec = spec_file.load(str(file))
        small = spec.data["name"] == "synthetic" and max(spec.data["clients"], len(spec.seeds)) < 10**4
        if small:
            realise(spec)
        if small and spec.rounds < 10 and random.Random(content).random() < SHARE_RUN:
            with tempfile.TemporaryDirectory() as folder:
                place = RunFolder.of(spec, Path(folder) / "run")
                assert complete(spec, place, PlainLines(Console(quiet=True))) is not None
                assert not list(Path(folder).rglob(".*"))


def as_toml(table: dict[str, Any]) -> bytes:
    try:
        return tomli_w.dumps(table).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError):  # TOML has no None
        return json.dumps(table, default=str).encode()


@fuzz
@given(mutated_table(tomllib.loads(SPEC)))
def test_specs(table: dict[str, Any]) -> None:
    try_spec(as_toml(table))


@fuzz
@given(SEEDS)
def test_spec_files(seed: int) -> None:
    try_spec(mutated_bytes(SPEC.encode(), seed))


@fuzz
@given(mutated_table(tomllib.loads(GRID)).map(as_toml))
def test_grids(content: bytes) -> None:
    with a_file(content, "grid.toml") as file, told_or_done():
        load_grid(str(file))


@fuzz
@given(
    st.lists(
        st.sampled_from(["rounds", "sampled=3", "=1", "a.b=2", "data.clients=[", "rate=1e400", "seeds=[]", "x"]),
        max_size=3,
    )
)
def test_assignments(assignments: list[str]) -> None:
    with told_or_done():
        spec_file.load("synthetic-0.9", assignments)


@fuzz
@given(seed=SEEDS)
def test_traces(seed: int, kept: Kept) -> None:
    with a_file(mutated_bytes(kept.trace, seed), "trace.parquet") as file, told_or_done():
        found = trace.read(file)
        trace.summarise(found)
        ns.adversaries.replay(found)


CALLS = b"round,client,status,reason,n\n1,a,answered,,50\n1,b,silent,timeout,70\n2,a,answered,,50\n2,b,answered,,70\n"
TIMES = b"client,start,end\na,0,100\nb,50,1000\na,300.5,400\n"


@fuzz
@given(SEEDS, st.sampled_from([CALLS, TIMES]))
def test_imported_traces(seed: int, original: bytes) -> None:
    with a_file(mutated_bytes(original, seed), "trace.csv") as file, told_or_done():
        trace.from_csv(file, round_seconds=60.0, examples=5)


@fuzz
@given(seed=SEEDS)
def test_weights(seed: int, kept: Kept) -> None:
    with a_file(mutated_bytes(kept.weights, seed), "model.safetensors") as file, told_or_done():
        ns.weights.load(file, ns.models.logistic())


@fuzz
@given(seed=SEEDS)
def test_run_folders(seed: int, kept: Kept) -> None:
    name = random.Random(seed).choice(sorted(kept.files))
    damaged = mutated_bytes(kept.files[name], seed)
    with tempfile.TemporaryDirectory() as folder:
        spread_out(kept.files | {name: damaged}, Path(folder))
        with told_or_done():
            place = RunFolder.open(Path(folder))
            place.about()
            for label in place.finished:
                str(place.load(label).summary())


@fuzz
@given(seed=SEEDS)
def test_results(seed: int, kept: Kept) -> None:
    name = random.Random(seed).choice(sorted(kept.results))
    damaged = mutated_bytes(kept.results[name], seed)
    with tempfile.TemporaryDirectory() as folder:
        spread_out(kept.results | {name: damaged}, Path(folder))
        with told_or_done():
            Results(Path(folder), one_algorithm()).curves()


@fuzz
@given(seed=SEEDS, sealed=st.booleans())
def test_checkpoints(seed: int, sealed: bool, kept: Kept) -> None:
    """Damaged ones, and those that somebody has damaged and sealed again."""
    content = mutated_bytes(kept.checkpoint, seed)
    with a_file(_sealed(content) if sealed else content, "checkpoint.npz") as file, told_or_done():
        found = Checkpoints(file).newest()
        assert found.snapshot is not None or found.note is not None
        if found.snapshot is not None:
            kept.run.resume(found.snapshot)
            kept.run.history()


def _sealed(content: bytes) -> bytes:
    return content[:-32] + hashlib.sha256(content[:-32]).digest()


def spread_out(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
