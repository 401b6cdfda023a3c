"""`noshow doctor` finds what is there, never fails, and says the one thing to do next."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import psutil
import pytest

from noshow import doctor, machine
from noshow.cli_doctor import lines

WELL: dict[str, Any] = {
    "devices": {"platform": "cpu", "kind": "cpu", "count": 8, "memory": None, "gpus_seen": 0},
    "cores": {"there": 8, "allowed": 8, "paid": None},
    "memory": {"there": 16e9, "free": 8e9},
    "data": {"folder": "/d", "there": True, "sets": {"cifar10": "/d/c", "shakespeare": "/d/s"}},
    "cache": {"folder": "/c", "bytes": 0, "files": 0, "writable": True},
}


def test_facts_against_other_sources() -> None:
    facts = doctor.examine()
    assert facts["versions"]["python"] == platform.python_version()
    assert facts["versions"]["jax"] == jax.__version__
    assert facts["versions"]["extras"]["pandas"] is not None
    assert facts["devices"]["count"] == len(jax.devices())
    assert facts["cores"]["there"] == psutil.cpu_count()
    assert facts["cores"]["allowed"] == len(psutil.Process().cpu_affinity() or range(psutil.cpu_count() or 1))
    assert facts["memory"]["there"] <= psutil.virtual_memory().total
    assert facts["memory"]["free"] <= 1.1 * psutil.virtual_memory().available
    assert set(lines(facts)) == {"versions", "system", "devices", "cores", "memory", "data", "cache"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "all is in place"),
        ({"devices": WELL["devices"] | {"gpus_seen": 1}}, "a GPU is here but JAX computes on the CPU"),
        ({"devices": {"problem": "RuntimeError: no backend"}}, "JAX does not start (RuntimeError: no backend)"),
        ({"cores": {"there": 8, "allowed": 1, "paid": None}}, "only 1 of 8 cores may be used"),
        ({"cores": {"there": 8, "allowed": 8, "paid": 2.5}}, "gives the time of 2.5: use --cores 2"),
        ({"cache": WELL["cache"] | {"writable": False}}, "compiled programs cannot be kept in /c"),
        ({"data": WELL["data"] | {"sets": {"cifar10": None}}}, "cifar10 not in /d: `noshow data get cifar10`"),
        ({"data": {"problem": "NoshowError: mend that file"}}, "data could not be looked at: NoshowError: mend that"),
    ],
)
def test_advice_names_the_first_thing_to_do(change: dict[str, Any], sentence: str) -> None:
    assert sentence in doctor.advice(WELL | change)


def test_whatever_is_broken_is_told_and_the_rest_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> int:
        raise PermissionError("not allowed\nat all")

    monkeypatch.setattr(machine, "memory_free", broken)
    facts = doctor.examine()
    assert facts["memory"] == {"problem": "PermissionError: not allowed"}
    assert facts["devices"]["count"] >= 1
    assert lines(facts)["memory"] == "PermissionError: not allowed"


@pytest.mark.parametrize(
    ("files", "free", "paid"),
    [
        ({"memory.max": "3000", "memory.current": "1000", "memory.stat": "anon 1\ninactive_file 400"}, 2400, None),
        ({"memory.max": "max", "memory.current": "1000", "cpu.max": "150000 100000"}, None, 1.5),
        ({"memory.max": "3000", "cpu.max": "max 100000"}, 3000, None),
        ({"memory/memory.limit_in_bytes": "5000", "memory/memory.usage_in_bytes": "4000"}, 1000, None),
    ],
)
def test_a_containers_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], free: int | None, paid: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    assert machine.cores_paid() == paid
    if free is None:
        assert machine.memory_free() > 10**6
    else:
        assert machine.memory_free() == free


def test_the_command_is_quick_and_its_json_is_whole(tmp_path: Path) -> None:
    """In a home of its own, with a cache that cannot be written: a file stands in its place."""
    (tmp_path / "cache").write_text("no folder")
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "NOSHOW_DATA": str(tmp_path)}
    command = [sys.executable, "-c", "from noshow.cli import main; main()", "doctor", "--json"]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | home, cwd=tmp_path)
    seconds = time.perf_counter() - begun
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["cache"]["writable"] is False
    assert facts["data"]["sets"] == {"cifar10": None, "shakespeare": None}
    assert facts["advice"].startswith("compiled programs cannot be kept") or facts["cores"]["paid"] is not None
    assert seconds < 30  # 3 on an idle machine
