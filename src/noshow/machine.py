"""What this machine has and lets this program use: cores and memory, a container's limits included."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def cores_there() -> int:
    """The machine's CPU cores."""
    return os.cpu_count() or 1


def cores_allowed() -> int:
    """The cores that this process may run on (its affinity, e.g. by `taskset` or a batch system)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores_there()


def cores_paid() -> float | None:
    """How many cores' worth of time the container gives; `None` without such a limit."""
    quota, _, period = _read(CGROUPS / "cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        return int(quota) / int(period)
    old = _number(CGROUPS / "cpu" / "cpu.cfs_quota_us"), _number(CGROUPS / "cpu" / "cpu.cfs_period_us")
    return None if old[0] is None or not old[1] else old[0] / old[1]


def memory_there() -> int:
    """The machine's memory in bytes, or what the container may use of it."""
    return int(min(_meminfo("MemTotal") or _physical(), _container_limit()))


def memory_free() -> int:
    """Memory in bytes that this program can still take.

    Example:
        >>> 0 < memory_free() <= memory_there()
        True
    """
    left = _container_limit() - _container_use()
    return int(max(0, min(_meminfo("MemAvailable") or _physical(), left)))


def in_words(size: float) -> str:
    """Bytes as people write them.

    Example:
        >>> in_words(74_407_200), in_words(8e9), in_words(512)
        ('74 MB', '8.0 GB', '512 bytes')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if size >= unit:
            number = size / unit
            return f"{number:.1f} {name}" if number < 10 else f"{number:,.0f} {name}"
    return f"{size:.0f} bytes"


def _container_limit() -> float:
    limits = _number(CGROUPS / "memory.max"), _number(CGROUPS / "memory" / "memory.limit_in_bytes")
    return min((limit for limit in limits if limit is not None), default=math.inf)


def _container_use() -> float:
    used = _number(CGROUPS / "memory.current"), _number(CGROUPS / "memory" / "memory.usage_in_bytes")
    # Files that the kernel keeps in memory only because nobody else needed it yet count as used, and can go.
    cached = _fields(CGROUPS / "memory.stat").get("inactive_file", 0)
    return max(0, max((use for use in used if use is not None), default=0) - cached)


def _meminfo(key: str) -> int | None:
    found = _fields(Path("/proc/meminfo")).get(f"{key}:")
    return None if found is None else found * 1024


def _physical() -> int:
    """All memory, where the kernel has no `/proc`; what is free of it is not known."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**62


def _fields(file: Path) -> dict[str, int]:
    lines = (line.split() for line in _read(file).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _number(file: Path) -> int | None:
    text = _read(file)
    return int(text) if text.isdigit() else None


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except OSError:
        return ""
