"""What there is to compute with, where data and caches lie, and what would help: facts for people and bug reports."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from noshow import machine
from noshow.version import __version__

Facts = dict[str, Any]
"""Plain values by name, fit for JSON. What could not be found out is `{"problem": why}`."""


def examine() -> Facts:
    """All facts, and one line of advice on them. Never raises.

    Example:
        >>> sorted(examine())
        ['advice', 'cache', 'cores', 'data', 'devices', 'memory', 'system', 'versions']
    """
    parts: dict[str, Callable[[], Facts]] = {
        "versions": _versions,
        "system": _system,
        "devices": _devices,
        "cores": _cores,
        "memory": lambda: {"there": machine.memory_there(), "free": machine.memory_free()},
        "data": _data,
        "cache": _cache,
    }
    facts = {name: _found(part) for name, part in parts.items()}
    return facts | {"advice": advice(facts)}


def advice(facts: Facts) -> str:
    """The one thing to do next, by the facts.

    Example:
        >>> advice({"cores": {"there": 8, "allowed": 1, "paid": None}})
        'only 1 of 8 cores may be used: start noshow with a wider CPU affinity (taskset, or your batch system)'
    """
    problems = {name: found["problem"] for name, found in facts.items() if "problem" in found}
    devices, cores, cache, data = (facts.get(name, {}) for name in ("devices", "cores", "cache", "data"))
    if "devices" in problems:
        return f"JAX does not start ({problems['devices']}): unset JAX_PLATFORMS, or install jax anew"
    if devices.get("gpus_seen") and devices.get("platform") == "cpu":
        return 'a GPU is here but JAX computes on the CPU: install its CUDA build, `pip install "jax[cuda13]"`'
    if cores.get("allowed", 1) < cores.get("there", 1):
        return (
            f"only {cores['allowed']} of {cores['there']} cores may be used: start noshow with a wider CPU affinity "
            "(taskset, or your batch system)"
        )
    paid = cores.get("paid")
    if paid is not None and paid < cores.get("allowed", 1):
        whole = max(1, int(paid))
        return f"the container shows {cores['allowed']} cores and gives the time of {paid:g}: use --cores {whole}"
    if cache.get("writable") is False:
        return f"compiled programs cannot be kept in {cache['folder']}: make it writable, or set XDG_CACHE_HOME"
    if problems:
        name, why = next(iter(problems.items()))
        return f"{name} could not be looked at: {why}"
    missing = [name for name, place in data.get("sets", {}).items() if place is None]
    if missing:
        return (
            f"{' and '.join(missing)} not in {data['folder']}: `noshow data get {missing[0]}`, "
            "or `noshow data use DIR` (synthetic data need no files)"
        )
    return "all is in place"


def _found(part: Callable[[], Facts]) -> Facts:
    try:
        return part()
    except Exception as error:  # whatever is broken here is what the user wants to know
        return {"problem": f"{type(error).__name__}: {error}".strip(": ").partition("\n")[0]}


def _versions() -> Facts:
    names = ("jax", "jaxlib", "numpy")
    return {
        "noshow": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in names},
        "extras": {extra: _version(package) for package, extra in _extras()},
    }


def _extras() -> list[tuple[str, str]]:
    """The packages that noshow can use and does not need, each with the name of its extra."""
    asked = importlib.metadata.requires("noshow") or []
    found = (re.match(r"([\w-]+).*extra == ['\"]([\w-]+)['\"]", line) for line in asked)
    return [(match[1], match[2]) for match in found if match is not None and match[2] != "dev"]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _system() -> Facts:
    return {"system": platform.system(), "release": platform.release(), "machine": platform.machine()}


def _devices() -> Facts:
    found = jax.devices()
    stats = found[0].memory_stats() or {}
    return {
        "platform": found[0].platform,
        "kind": found[0].device_kind,
        "count": len(found),
        "memory": stats.get("bytes_limit"),
        "gpus_seen": len([*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("kfd")]),
    }


def _cores() -> Facts:
    return {"there": machine.cores_there(), "allowed": machine.cores_allowed(), "paid": machine.cores_paid()}


def _data() -> Facts:
    from noshow.datasets import cifar10_files, shakespeare_files
    from noshow.datasets.folder import VARIABLE, data_folder

    folder = data_folder()
    places = {files.NAME: files.find(folder) for files in (cifar10_files, shakespeare_files)}
    return {
        "folder": str(folder),
        "there": folder.is_dir(),
        VARIABLE: os.environ.get(VARIABLE),
        "sets": {name: None if place is None else str(place) for name, place in places.items()},
    }


def _cache() -> Facts:
    from noshow.datasets.folder import cache_dir

    folder = cache_dir()
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {
        "folder": str(folder),
        "bytes": sum(file.stat().st_size for file in files),
        "files": len(files),
        "writable": _writable(folder),
        "compiled": jax.config.jax_compilation_cache_dir,  # type: ignore[attr-defined]
    }


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
