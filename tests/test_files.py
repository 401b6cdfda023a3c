"""Whatever the file system does, files and folders are there whole or not at all, and earlier ones stay."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import small_federation

import noshow as ns
from noshow import trace
from noshow.checkpoint import Checkpoints
from noshow.datasets.folder import remember
from noshow.evaluate import Metrics
from noshow.figure import keep_figure
from noshow.files import mend_folder, write_whole, write_whole_folder
from noshow.paper.results import Results
from noshow.progress import Progress
from noshow.spec import validate
from noshow.store import RunFolder
from noshow.sweep_grid import Grid
from noshow.sweep_table import Row, keep

SPEC = validate(
    {
        "name": "small",
        "rounds": 4,
        "sampled": 4,
        "epsilon": "off",
        "seeds": [0],
        "data": {"name": "synthetic", "clients": 8, "sizes": 20},
        "model": {"name": "logistic"},
        "adversary": {"name": "nobody"},
        "algorithms": [{"name": "fedavg", "rate": 0.01}],
    }
)


class Facts(NamedTuple):
    """What writers need."""

    history: ns.History
    snapshot: ns.Snapshot


@pytest.fixture(scope="module")
def facts() -> Facts:
    run = ns.Simulation(
        small_federation(), ns.models.logistic(4, 3), ns.algorithms.fedavg(0.01), sampled=4, rounds=4, evaluate_every=2
    )
    while not run.done:
        run.advance()
    return Facts(run.history(), run.snapshot())


ROW = Row("cell", {"rate": 0.1}, "fedavg", Metrics(1.0, 1.0, 0.5), 4, 1)
WRITERS: dict[str, Callable[[Path, Facts], object]] = {
    "results": lambda place, facts: RunFolder(place, SPEC).save(facts.history),
    "paper results": lambda place, facts: Results(place, SPEC).add(facts.history),
    "grid": lambda place, facts: keep([ROW], Grid("grid", "", []), place),
    "trace": lambda place, facts: trace.write(
        place / "trace.parquet", trace.of_history(facts.history, small_federation(), 0)
    ),
    "data folder": lambda place, facts: remember(place),
    "run folder": lambda place, facts: RunFolder(place, SPEC).begin(anew=True),
    "checkpoint": lambda place, facts: Checkpoints(place / "fedavg.npz").save(facts.snapshot),
    "figure": lambda place, facts: keep_figure(place / "figure.png", facts.history.plot()),
}


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("fault", ["fsync", "rename", "no space"])
def test_a_write_that_fails_leaves_what_was_there(
    name: str, fault: str, facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = WRITERS[name]
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place))
    write(place, facts)
    before = content(place)
    assert before

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if fault == "fsync":
            patch.setattr(os, "fsync", fail)
        elif fault == "rename":
            for method in ("rename", "replace"):
                patch.setattr(Path, method, fail)
        else:
            patch.setattr("builtins.open", _full(open))
            patch.setattr(Path, "open", _full(Path.open))
            patch.setattr("pyarrow.parquet.write_table", fail)
            patch.setattr("matplotlib.figure.Figure.savefig", fail)
        with pytest.raises(ns.NoshowError, match="cannot be written: No space left on device") as told:
            write(place, facts)
    assert "\n" not in str(told.value)
    # The same files: a checkpoint may have become the one before.
    assert sorted(content(place).values()) == sorted(before.values())
    assert not list(place.rglob(".*"))
    write(place, facts)
    assert content(place).keys() >= before.keys()


def _full(way: Callable[..., object]) -> Callable[..., object]:
    """The way to open a file, on a disk that is full."""

    def opened(*args: object, **kwargs: object) -> object:
        mode = str(kwargs.get("mode", next((word for word in args[1:] if isinstance(word, str)), "r")))
        if set(mode) & set("wax+"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return way(*args, **kwargs)

    return opened


def test_a_folder_whose_writer_died_between_two_names_comes_back(tmp_path: Path) -> None:
    place = tmp_path / "notes"
    write_whole_folder(place, lambda part: (part / "note").write_text("first"))

    place.rename(tmp_path / ".notes.earlier")  # the moment between the two renames
    mend_folder(place)
    assert (place / "note").read_text() == "first"
    shutil.copytree(place, tmp_path / ".notes.earlier")  # the moment after them
    (place / "note").write_text("second")
    mend_folder(place)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    assert (place / "note").read_text() == "second"


def test_a_file_that_is_written_again_in_a_moment_does_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    Progress(tmp_path).write()
    assert waited == []
    write_whole(tmp_path / "lasting", lambda part: part.write_text("."))
    assert len(waited) == 2  # the file, and the folder that has its name


def can_mount() -> bool:
    tried = ["unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return shutil.which("unshare") is not None and subprocess.run(tried, capture_output=True).returncode == 0


TOML = """
name = "small"
rounds = 6
sampled = 4
epsilon = "off"
evaluate_every = 2
data = { name = "synthetic", clients = 8, sizes = 20 }
model = { name = "logistic" }
adversary = { name = "nobody" }
[[algorithms]]
name = "fedavg"
rate = 0.01
[[algorithms]]
name = "mifa"
rate = 0.01
"""
SMALL_DISK = """
mount -t tmpfs -o size=44k tmpfs disk
noshow run small.toml --out disk/run; echo code $?
ls -A disk/run; ls disk/run/fedavg
mount -o remount,size=4m disk
noshow run small.toml --out disk/run; echo code $?
noshow run small.toml --out whole > /dev/null
for label in fedavg mifa; do for file in metrics roll_call; do
    cmp disk/run/$label/$file.parquet whole/$label/$file.parquet && echo equal
done; done
mount -o remount,ro disk
noshow run small.toml --out disk/run --again; echo code $?
HOME=$PWD/disk MPLCONFIGDIR=$PWD noshow run small.toml --out whole --again > /dev/null; echo code $?
"""


@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="this machine lets nobody mount a disk of its own (unshare -Urm)")
@pytest.mark.long
def test_a_full_disk_and_a_read_only_one(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(TOML)
    (tmp_path / "disk").mkdir()
    (tmp_path / "noshow").write_text(f'#!/bin/sh\nexec {sys.executable} -m noshow "$@"\n')
    (tmp_path / "noshow").chmod(0o755)
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", SMALL_DISK],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    told = done.stderr.splitlines()
    assert [line.split(": ")[-1] for line in told] == ["No space left on device", "Read-only file system"], done.stderr
    assert all(line.startswith("noshow: disk/run") for line in told)
    said = done.stdout
    assert [line for line in said.splitlines() if line.startswith("code")] == ["code 2", "code 0", "code 2", "code 0"]
    assert "fedavg: finished before, not run again" in said
    assert said.count("equal") == 4
    assert not [line for line in said.splitlines() if line.startswith(".")]
