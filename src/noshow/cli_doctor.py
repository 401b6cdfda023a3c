"""The command `noshow doctor`: what there is here, and one line of advice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from noshow.doctor import Facts


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="All facts as JSON, for a bug report.")] = False,
) -> None:
    """Say what there is to compute with, where data and caches lie, and what would help."""
    from noshow.doctor import examine

    facts = examine()
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    console = Console()
    table = Table.grid(padding=(0, 2))
    for name, line in lines(facts).items():
        table.add_row(name, line)
    console.print(table, highlight=False, markup=False)
    console.print(f"advice: {facts['advice']}", highlight=False, markup=False, soft_wrap=True)


def lines(facts: Facts) -> dict[str, str]:
    """A line for each group of facts, in words.

    Example:
        >>> lines({"memory": {"there": 16e9, "free": 4e9}, "data": {"problem": "PermissionError: …"}})
        {'memory': '16 GB, 4.0 GB of it free', 'data': 'PermissionError: …'}
    """
    return {
        name: found["problem"] if "problem" in found else WORDS[name](found)
        for name, found in facts.items()
        if name in WORDS
    }


def _versions(found: Facts) -> str:
    needed = ", ".join(f"{name} {version}" for name, version in found.items() if name != "extras")
    extras = ", ".join(f"{name} {version or 'not installed'}" for name, version in found["extras"].items())
    return f"{needed}; extras: {extras}"


def _devices(found: Facts) -> str:
    from noshow.machine import in_words

    memory = f", {in_words(found['memory'])} each" if found["memory"] else ""
    return f"{found['count']} x {found['kind']} ({found['platform']}){memory}"


def _cores(found: Facts) -> str:
    paid = "" if found["paid"] is None else f", the container gives the time of {found['paid']:g}"
    return f"{found['allowed']} of {found['there']} usable{paid}"


def _memory(found: Facts) -> str:
    from noshow.machine import in_words

    return f"{in_words(found['there'])}, {in_words(found['free'])} of it free"


def _data(found: Facts) -> str:
    sets = ", ".join(f"{name} {'there' if place else 'not there'}" for name, place in found["sets"].items())
    return f"{found['folder']}{'' if found['there'] else ' (no such folder yet)'}: {sets}"


def _cache(found: Facts) -> str:
    from noshow.machine import in_words

    size = f"{found['files']} files, {in_words(found['bytes'])}"
    return f"{found['folder']}: {size}, {'writable' if found['writable'] else 'NOT writable'}"


WORDS = {
    "versions": _versions,
    "system": lambda found: " ".join(found.values()),
    "devices": _devices,
    "cores": _cores,
    "memory": _memory,
    "data": _data,
    "cache": _cache,
}
