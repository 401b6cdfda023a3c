"""Checkpoints: a run that is killed ends where an undisturbed one does, and a damaged file is never gone on from."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from test_spec import SMALL

import noshow as ns
from noshow.checkpoint import Checkpoints, play
from noshow.clock import Clock
from noshow.diagnostics import Diagnosis
from noshow.display import PlainLines
from noshow.evaluate import Metrics
from noshow.lock import BusyError, alone_in, taken
from noshow.progress import progress_of
from noshow.run import complete
from noshow.spec_file import load
from noshow.store import RunFolder

REMEMBERING = SMALL.replace('name = "fedavg"', 'name = "mifa"') + '\n[[algorithms]]\nname = "cclip"\nrate = 0.1\n'
CHANGES = ["rounds=40", "evaluate_every=4", "seeds=[0,7]"]

KILLED = """
import os, signal, sys
from pathlib import Path
from rich.console import Console
from noshow import checkpoint
from noshow.display import PlainLines
from noshow.run import complete
from noshow.spec_file import load
from noshow.store import RunFolder

checkpoint.LARGEST_SHARE = 1e9  # after every chunk, whatever it costs
file, out, at, *changes = sys.argv[1:]

class Fatal(PlainLines):
    def evaluated(self, label, t, metrics):
        if f"{label}:{t}" == at:
            os.kill(os.getpid(), signal.SIGKILL)

spec = load(file, changes)
complete(spec, RunFolder.of(spec, Path(out)), Fatal(Console()), seconds_between=0.0)
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-u", "-c", code, *arguments], capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.long
def test_a_run_that_is_killed_twice_ends_where_an_undisturbed_one_does(tmp_path: Path) -> None:
    """Metrics, roll call and models, bit for bit, though the server and the clients remember."""
    file = tmp_path / "small.toml"
    file.write_text(REMEMBERING, "utf-8")

    def killed_at(where: str) -> subprocess.CompletedProcess[str]:
        return python(KILLED, str(file), str(tmp_path / "killed"), where, *CHANGES)

    assert killed_at("mifa:20").returncode == -signal.SIGKILL
    newest = tmp_path / "killed" / "unfinished" / "mifa.npz"
    newest.write_bytes(newest.read_bytes()[:-100])  # and torn on top of it
    second = killed_at("cclip:28")
    assert second.returncode == -signal.SIGKILL
    assert "the newest checkpoint of mifa is damaged: the one before it is used, after" in second.stdout
    last = killed_at("nowhere")
    assert last.returncode == 0, last.stderr
    assert "cclip goes on after" in last.stdout
    spec = load(str(file), CHANGES)
    assert complete(spec, RunFolder.of(spec, tmp_path / "whole"), PlainLines(Console(quiet=True))) is not None
    for label in spec.labels:
        one, other = tmp_path / "killed" / label, tmp_path / "whole" / label
        for table in ("metrics", "roll_call"):
            assert pq.read_table(one / f"{table}.parquet").equals(pq.read_table(other / f"{table}.parquet")), table
        with np.load(one / "model.npz") as ours, np.load(other / "model.npz") as theirs:
            assert ours.files == theirs.files
            assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours.files)
    told = progress_of(tmp_path / "killed")
    places = [(start["algorithm"], start["round"]) for start in told["starts"]]
    assert [label for label, _ in places] == ["mifa", "mifa", "cclip"]
    assert 0 == places[0][1] < places[1][1] < 16
    assert 24 <= places[2][1] < 28
    assert not (tmp_path / "killed" / "unfinished").exists()
    assert not list((tmp_path / "killed").glob(".*"))


def snapshot(t: int) -> ns.Snapshot:
    rng = np.random.default_rng(t)
    scores = Metrics(*(rng.normal(size=(1, 3)) for _ in Metrics._fields))
    state = [rng.normal(size=shape).astype(np.float32) for shape in ((1, 5), (1, 4, 5), (1,))]
    ids = rng.integers(0, 9, (t, 1, 2), np.int32)
    seen = Diagnosis(rng.normal(size=(t, 1)), None, rng.normal(size=(t, 1)), None)
    return ns.Snapshot(
        t, state, np.arange(3), scores, ids, ids > 4, 1.5 * t, rng.normal(size=(1, 5)), seen, rng.normal(size=(1, 5))
    )


def same(one: ns.Snapshot, other: ns.Snapshot) -> bool:
    def flat(snapshot: ns.Snapshot) -> list[np.ndarray | None]:
        assert snapshot.diagnosis is not None
        return [*map(np.asarray, snapshot[:1]), *snapshot.state, *snapshot.scores, *snapshot.diagnosis, *snapshot[4:7]]

    pairs = zip(flat(one), flat(other), strict=True)
    return all(a is b if a is None or b is None else np.array_equal(a, b) for a, b in pairs)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "unfinished" / "gm.npz")
    assert kept.newest() == (None, None)
    for t in (4, 8):
        kept.save(snapshot(t))
        found, note = kept.newest()
        assert found is not None
        assert same(found, snapshot(t))
        assert note is None
    assert [file.name for file in sorted(kept.file.parent.iterdir())] == ["gm.npz", "gm.npz.before"]
    (kept.file.parent / ".gm.npz.123").write_bytes(b"half of it, by a process that was killed")
    kept.forget()
    assert not kept.file.parent.exists()


@settings(max_examples=60)
@given(data=st.data())
def test_a_torn_or_changed_file_makes_way_for_the_one_before(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = Checkpoints(Path(folder) / "gm.npz")
        for t in (4, 8):
            kept.save(snapshot(t))
        content = bytearray(kept.file.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans(), label="torn"):
            del content[place:]
        else:
            content[place] ^= data.draw(st.integers(1, 255))
        kept.file.write_bytes(content)
        found, note = kept.newest()
        assert found is not None
        assert same(found, snapshot(4))
        assert note == "the newest checkpoint of gm is damaged: the one before it is used, after 4 rounds"
        kept.save(snapshot(12))  # the damaged one is gone: two whole ones are there again
        kept.file.write_bytes(b"")
        found, _ = kept.newest()
        assert found is not None
        assert found.t == 4


def test_a_kill_between_two_renames_leaves_the_one_before(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "gm.npz")
    kept.save(snapshot(4))
    kept.file.replace(tmp_path / "gm.npz.before")
    found, note = kept.newest()
    assert found is not None
    assert (found.t, note) == (4, None)


def test_where_nothing_is_whole_the_run_starts_over(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "gm.npz")
    for name in ("gm.npz", "gm.npz.before"):
        (tmp_path / name).write_bytes(b"PK nothing")
    assert kept.newest() == (None, "no checkpoint of gm is whole: it starts over")


def test_large_checkpoints_come_less_often(
    federation: ns.Federation, model: ns.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock of our own: a round takes 1 s, writing 4 s; at most a twentieth of the time may go into writing."""
    now, written = [0.0], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    class Slow(Checkpoints):
        def save(self, snapshot: ns.Snapshot) -> None:
            written.append(snapshot.t)
            now[0] += 4.0

    def tick(number: int, evaluated: bool) -> None:
        now[0] += 1.0

    run = ns.Simulation(federation, model, ns.algorithms.fedavg(0.1, steps=1), sampled=4, rounds=200, evaluate_every=1)
    assert play([run], [Slow(tmp_path / "x.npz")], Clock(), tick, seconds_between=30.0)
    assert written == [30, 110, 190]


def test_a_run_in_a_folder_that_is_taken_is_told(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL, "utf-8")
    spec = load(str(file))
    with alone_in(tmp_path / "out"), pytest.raises(BusyError, match="out is in use by process"):
        complete(spec, RunFolder.of(spec, tmp_path / "out"), PlainLines(Console(quiet=True)))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["lock"]


HOLDS = (
    "import sys, time, pathlib, noshow.lock as l\nwith l.alone_in(pathlib.Path(sys.argv[1])): print(); time.sleep(600)"
)


def test_a_second_process_is_told_and_a_killed_one_leaves_the_folder_free(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-uc", HOLDS, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            assert taken(tmp_path)
            with (
                pytest.raises(BusyError, match=f"is in use by process {holder.pid} on .*: wait until"),
                alone_in(tmp_path),
            ):
                pass
        finally:
            holder.kill()
    assert not taken(tmp_path)
    with alone_in(tmp_path):
        assert (tmp_path / "lock").read_text().startswith(f"process {os.getpid()} on ")
