"""Where, when and with what a benchmark ran."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax

from noshow.commit import commit
from noshow.machine import cores_allowed
from noshow.version import __version__

PACKAGES = ("jax", "numpy", "torch", "pfl", "flwr", "ray", "fedjax", "byzfl", "byzpy")


def about() -> dict[str, str]:
    """What a reader needs to judge a time: machine, load, date, commit, versions, command.

    Example:
        >>> sorted(about())
        ['command', 'commit', 'date', 'load', 'machine', 'versions']
    """
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "machine": f"{_processor()}, {cores_allowed()} cores, {jax.devices()[0].device_kind}, {platform.system()}",
        "load": f"{load} at the start",
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": commit(),
        "versions": ", ".join([f"noshow {__version__}", f"Python {platform.python_version()}", *_versions()]),
        "command": " ".join([_program(), *sys.argv[1:]]),
    }


def _program() -> str:
    name = Path(sys.argv[0]).name
    return "python -m noshow.bench" if name == "__main__.py" else name


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found
