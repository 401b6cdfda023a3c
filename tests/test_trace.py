"""Traces on disk: what was written comes back, what is no trace is refused in one sentence."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import noshow as ns
from noshow import trace
from noshow.trace import Entry, Trace
from noshow.trace import presence as module
from noshow.trace.picture import picture
from noshow.trace.presence import latest, presence

NOW = datetime(2030, 5, 17, 12, 30, 15, 123456, tzinfo=UTC)


def entry(t: int, client: str, status: str = "answered", reason: str = "", n: int = 10, time: datetime = NOW) -> Entry:
    return Entry(t, client, status, reason, n, time)


ROWS = [
    entry(1, "hospital-10"),
    entry(1, "hospital-2", "silent", "timeout", 2**40),
    entry(4, "hospital-2", n=7, time=NOW + timedelta(microseconds=1)),
    entry(4, "Zürich", "silent", "", 3),
]
TYPES: dict[str, pa.DataType] = {
    "round": pa.int32(),
    "client": pa.string(),
    "status": pa.string(),
    "reason": pa.string(),
    "n": pa.int64(),
    "time": pa.timestamp("us", tz="UTC"),
}


def columns(rows: list[Entry] = ROWS) -> dict[str, pa.Array]:
    return {name: pa.array([row[k] for row in rows], kind) for k, (name, kind) in enumerate(TYPES.items())}


def put(path: Path, arrays: dict[str, pa.Array], sampled: str | None = "2") -> Path:
    """A Parquet file made without noshow."""
    metadata = None if sampled is None else {"sampled": sampled}
    pq.write_table(pa.table(arrays).replace_schema_metadata(metadata), path)
    return path


def test_the_file_is_the_documented_parquet(tmp_path: Path) -> None:
    trace.write(tmp_path / "new" / "live.parquet", ROWS, sampled=5)
    table = pq.read_table(tmp_path / "new" / "live.parquet")
    assert {field.name: field.type for field in table.schema} == TYPES
    assert table.schema.metadata == {b"sampled": b"5"}
    assert table.to_pylist() == [row._asdict() for row in ROWS]
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["live.parquet"]


def test_a_file_of_another_program_is_read(tmp_path: Path) -> None:
    got = trace.read(put(tmp_path / "theirs.parquet", columns() | {"note": pa.array(["x"] * 4)}, "3"))
    assert list(got) == ROWS
    assert (got.sampled, len(got)) == (3, 4)
    assert got.names == ["Zürich", "hospital-2", "hospital-10"]
    assert got.clients.tolist() == [2, 1, 1, 0]
    assert got.answered.tolist() == [True, False, True, False]
    assert got.rounds.tolist() == [1, 1, 4, 4]
    assert got.n.tolist() == [10, 2**40, 7, 3]


def test_names_are_ordered_with_their_numbers_by_value() -> None:
    names = ["b1", "a", "a10", "a2", "7", "10", "a02", "a2b1", "9" * 5000]
    ordered = ["7", "10", "9" * 5000, "a", "a02", "a2", "a2b1", "a10", "b1"]
    assert Trace.of([entry(0, name) for name in names]).names == ordered


def test_time_zones_become_utc(tmp_path: Path) -> None:
    there = datetime(2030, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    trace.write(tmp_path / "t.parquet", [entry(0, "a", time=there)])
    assert [row.time.isoformat() for row in trace.read(tmp_path / "t.parquet")] == ["2029-12-31T23:00:00+00:00"]


def test_sampled_is_the_fullest_round_unless_given_or_known(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    trace.write(file, [*ROWS, entry(5, "x"), entry(5, "y"), entry(5, "z")])
    assert trace.read(file).sampled == 3
    trace.write(file, Trace.of(ROWS, sampled=9))
    assert trace.read(file).sampled == 9


WRONG_ROWS = {
    r"is empty: a trace has one row": [],
    r"goes back from round 4 to round 3: give rows in": [entry(4, "a"), entry(3, "a")],
    r"has a round -1: rounds are 0 or more": [entry(-1, "a")],
    r"client 'b' twice in round 2: give it once": [entry(2, "b"), entry(2, "a"), entry(2, "b"), entry(3, "b")],
    r"a status 'late': give 'answered' or 'silent'": [entry(0, "a", "late")],
    r"a reason 'why' for an answer: leave it empty": [entry(0, "a", "answered", "why")],
    r"with n = 0: give 1 example or more": [entry(0, "a", n=0)],
}


@pytest.mark.parametrize("sentence", WRONG_ROWS)
def test_rows_that_make_no_trace_are_refused_by_write_and_by_read(sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ns.NoshowError, match=f"^the trace .*{sentence}"):
        trace.write(tmp_path / "t.parquet", WRONG_ROWS[sentence])
    assert not (tmp_path / "t.parquet").exists()
    file = put(tmp_path / "theirs.parquet", columns(WRONG_ROWS[sentence]), "9")
    with pytest.raises(ns.NoshowError, match=rf"theirs.parquet .*{sentence}"):
        trace.read(file)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (entry(2**31, "a"), "the rows make no trace: "),
        (entry(0, 5), "the rows make no trace: "),  # type: ignore[arg-type]
        (entry(0, "a", n=None), "the trace has a row without n: fill it in"),  # type: ignore[arg-type]
        (entry(0, "a", time=datetime(2030, 1, 1)), "the time of round 0 is .*: give a datetime with its time zone"),
        (entry(0, "a", time="now"), "the time of round 0 is 'now': give a datetime"),  # type: ignore[arg-type]
    ],
)
def test_values_of_another_type_are_refused(row: Entry, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ns.NoshowError, match=f"^{sentence}"):
        trace.write(tmp_path / "t.parquet", [row])


def test_fewer_sampled_than_a_round_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ns.NoshowError, match="has 2 clients in a round, and sampled = 1: mend one"):
        trace.write(tmp_path / "t.parquet", ROWS, sampled=1)


@pytest.mark.parametrize("name", TYPES)
def test_a_missing_column_a_wrong_type_and_an_empty_cell_are_named(name: str, tmp_path: Path) -> None:
    file, good = tmp_path / "t.parquet", columns()
    put(file, {key: column for key, column in good.items() if key != name})
    with pytest.raises(ns.NoshowError, match=f"t.parquet is no trace: it has no column '{name}'"):
        trace.read(file)
    put(file, good | {name: pa.array([1.5] * 4)})
    with pytest.raises(
        ns.NoshowError, match=rf"its column '{name}' is double, not {TYPES[name]}".replace("[us", r"\[us")
    ):
        trace.read(file)
    put(file, good | {name: pa.array([good[name][0].as_py(), None, None, None], TYPES[name])})
    with pytest.raises(ns.NoshowError, match=f"has a row without {name}: fill it in"):
        trace.read(file)


@pytest.mark.parametrize("sampled", [None, "", "many", "-3", "9" * 50])
def test_metadata_without_a_number_sampled_are_refused(sampled: str | None, tmp_path: Path) -> None:
    with pytest.raises(ns.NoshowError, match="is no trace: its metadata say sampled = "):
        trace.read(put(tmp_path / "t.parquet", columns(), sampled))


def test_registered_clients_are_known_though_never_called(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    trace.write(file, ROWS, registered=["hospital-3", "Zürich"])
    assert json.loads(pq.read_schema(file).metadata[b"registered"]) == ["hospital-3", "Zürich"]
    got = trace.read(file)
    assert got.names == ["Zürich", "hospital-2", "hospital-3", "hospital-10"]
    assert presence(got).tolist() == [[-1, 0, -1, 1], [-1] * 4, [-1] * 4, [0, 1, -1, -1]]
    trace.write(file, got)
    assert trace.read(file).names == got.names
    for text in ("{", "7", '["a", 3]', "[" * 100_000, "\xff"):
        pq.write_table(pa.table(columns()).replace_schema_metadata({"sampled": "2", "registered": text}), file)
        with pytest.raises(ns.NoshowError, match="something else than a list of names as registered"):
            trace.read(file)


def test_what_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"PAR1", b"PAR1" * 100, os.urandom(1000)):
        (tmp_path / "t.parquet").write_bytes(content)
        with pytest.raises(ns.NoshowError, match=r"t\.parquet cannot be read as a trace: "):
            trace.read(tmp_path / "t.parquet")
    with pytest.raises(ns.NoshowError, match="there is no trace"):
        trace.read(tmp_path)


def test_a_damaged_file_is_refused_or_read_as_it_was(tmp_path: Path) -> None:
    """Every seventh byte with a bit turned, and every seventh length: never other rows, never another exception."""
    file, rng = tmp_path / "t.parquet", random.Random(0)
    trace.write(file, ROWS)
    whole, refused = file.read_bytes(), []
    for place in range(0, len(whole), 7):
        turned = whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :]
        for damaged in (turned, whole[:place]):
            file.write_bytes(damaged)
            try:
                assert list(trace.read(file)) == ROWS
            except ns.NoshowError as error:
                refused.append(str(error))
    assert len(refused) > len(whole) / 7  # all the cut ones, and more
    assert not any("\n" in sentence for sentence in refused)


def test_a_writer_that_dies_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    trace.write(file, ROWS)
    dying = """
import os, sys
import pyarrow.parquet as pq
from noshow import trace
def half(table, part, **_):
    part.write_bytes(b"PAR1 half")
    os._exit(9)
pq.write_table = half
rows = list(trace.read(sys.argv[1]))
trace.write(sys.argv[1], rows[:1])
"""
    assert subprocess.run([sys.executable, "-c", dying, str(file)], check=False).returncode == 9
    assert list(trace.read(file)) == ROWS


def test_presence_by_hand() -> None:
    got = Trace.of(
        [
            entry(3, "b", "silent", "crash"),
            entry(4, "a"),
            entry(6, "b"),
            entry(6, "a", "silent", "crash"),
        ]
    )
    table = presence(got)
    assert table.tolist() == [[-1, 0], [1, -1], [-1, -1], [0, 1]]
    assert latest(table).tolist() == [[-1, 0], [1, 0], [1, 0], [0, 1]]


@pytest.mark.parametrize("block", [1, 7, 40, 10**6])
def test_the_latest_status_is_the_same_however_many_cells_are_worked_on(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = np.random.default_rng(block).choice([-1, -1, -1, 0, 1], (20, 13)).astype(np.int8)
    expected = table.copy()
    for row, before in zip(expected[1:], expected, strict=False):
        row[row == -1] = before[row == -1]
    monkeypatch.setattr(module, "BLOCK", block)
    found = latest(table)
    assert found.dtype == np.int8
    assert found.tolist() == expected.tolist()


def test_the_latest_status_takes_little_more_than_the_table() -> None:
    table = np.full((2000, 10_000), -1, np.int8)
    tracemalloc.start()
    try:
        latest(table)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < table.nbytes + 30 * module.BLOCK


def test_a_picture_that_takes_more_than_a_few_gigabytes_is_refused() -> None:
    """The table alone would fit: to draw it takes some 60 bytes a cell."""
    long = Trace.of([entry(0, "a"), entry(5 * 10**7, "b")])
    assert presence(long).nbytes == 2 * (5 * 10**7 + 1)
    with pytest.raises(ns.NoshowError, match="2 clients in rounds 0 to 50000000, too many for one table"):
        picture(long)


def test_a_table_that_would_not_fit_is_refused() -> None:
    with pytest.raises(ns.NoshowError, match="2 clients in rounds 0 to 2000000000, too many for one table"):
        presence(Trace.of([entry(0, "a"), entry(2 * 10**9, "b")]))


def test_a_simulated_run_as_a_trace(federation: ns.Federation, model: ns.Model) -> None:
    history = ns.simulate(
        federation,
        model,
        ns.algorithms.fedavg(0.1, steps=1),
        ns.adversaries.random_response(0.5),
        sampled=4,
        rounds=7,
        seeds=(3, 8),
    )
    got = trace.of_history(history, federation, seed=8)
    assert got.sampled == 4
    call = history.roll_call
    for t in range(7):
        rows = [row for row in got if row.round == t]
        assert [int(row.client) for row in rows] == call.sampled[1, t].tolist()
        assert {int(row.client) for row in rows if row.status == "silent"} == set(call.silenced(1, t).tolist())
        assert all(row.n == federation.held[int(row.client)] for row in rows)
        assert {row.reason for row in rows if row.status == "silent"} <= {"silenced"}
        assert {row.time for row in rows} == {datetime(1970, 1, 1, 0, 0, t, tzinfo=UTC)}
    assert np.mean([row.status == "silent" for row in got]) > 0
    assert got.names == [str(client) for client in range(federation.clients)]
    assert {row.client for row in list(got)[:4]} != set(got.names)
    with pytest.raises(ns.NoshowError, match=r"seed is 4, which was not run: give one of \[3, 8\]"):
        trace.of_history(history, federation, seed=4)
    with pytest.raises(ns.NoshowError, match="is not one of this federation"):
        trace.of_history(history, ns.datasets.synthetic(clients=4, sizes=10), seed=3)
