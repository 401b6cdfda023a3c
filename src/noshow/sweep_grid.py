"""A grid of experiments: a TOML file that names one experiment and lists values for its settings.

    experiment = "synthetic-0.9"      # a preset, or a spec file beside the grid file
    scale = "quick"                   # its scale and its setting, if they are not the usual ones

    [set]                             # the same in every cell
    rounds = 300

    [[grid]]                          # every combination of the values in the lists
    rate = [0.001, 0.01, 0.1]
    "data.alpha" = [0.1, 1.0]

    [[grid]]                          # a value that is no list is a list of one: this is a single cell
    rate = 1.0

Keys are those of `noshow run --set`; those with a dot are written in quotes.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from noshow.errors import NoshowError, nearest, require
from noshow.spec import Spec
from noshow.spec_file import assignment, load_with, preset_names

GRIDS = resources.files("noshow") / "presets" / "grids"
KEYS = ("description", "experiment", "setting", "scale", "set", "grid")


class Cell(NamedTuple):
    """One combination of values, and its spec; or, where it is none, what is wrong with it."""

    values: dict[str, Any]
    spec: Spec | None
    problem: str = ""

    @property
    def name(self) -> str:
        """The values in words.

        Example:
            >>> Cell({"rate": 0.1, "algorithms": ["mifa", "gm", "cclip"]}, None).name
            'rate=0.1,algorithms=mifa+2'
        """
        return ",".join(f"{key}={in_words(value)}" for key, value in self.values.items()) or "as it is"


class Grid(NamedTuple):
    """All cells of a grid; equal ones are in it once."""

    name: str
    description: str
    cells: list[Cell]

    @property
    def keys(self) -> list[str]:
        """The settings that the grid gives values for."""
        return list(dict.fromkeys(key for cell in self.cells for key in cell.values))


def grid_names() -> list[str]:
    """The grids that come with noshow.

    Example:
        >>> "paper-grid" in grid_names()
        True
    """
    return sorted(entry.name.removesuffix(".toml") for entry in GRIDS.iterdir() if entry.name.endswith(".toml"))


def load_grid(
    source: str, assignments: Iterable[str] = (), setting: str | None = None, scale: str | None = None
) -> Grid:
    """The grid in a file, or of that name. `assignments` (`key=value`) go on top of what is the same in every cell.

    Example:
        >>> grid = load_grid("paper-grid", ["rounds=60"])
        >>> len(grid.cells), grid.cells[-1].values["mu"], grid.cells[-1].spec.rounds
        (30, 1.0, 60)
    """
    tables, name, experiment = _read(source)
    for key in ("setting", "scale"):
        require(isinstance(tables.get(key, ""), str), f"{source}: {key} is {tables.get(key)!r}: give a name")
    setting, scale = setting or tables.get("setting"), scale or tables.get("scale")
    asked = [assignment(text) for text in assignments]
    common = [*_pairs(tables.get("set", {}), source, "set").items(), *asked]
    cells = []
    for values in _combinations(tables["grid"], source):
        for key, _ in asked:
            require(key not in values, f"--set {key}=…: {source} has values of its own for {key}; change them there")
        try:
            cells.append(Cell(values, load_with(experiment, [*common, *values.items()], setting, scale)))
        except NoshowError as error:
            cells.append(Cell(values, None, str(error)))
    require(any(cell.spec for cell in cells), f"{source}: no cell is an experiment; the first: {cells[0].problem}")
    return Grid(name, str(tables.get("description", "")), _distinct(cells))


def in_words(value: Any) -> str:
    """A value as part of a folder's name; of longer lists their first entry, and how many come after it."""
    if isinstance(value, Mapping):
        return "+".join(in_words(item) for item in value.values())
    if isinstance(value, list):
        return "+".join(map(in_words, value if len(value) <= 2 else [value[0], len(value) - 1]))
    return re.sub(r"[^A-Za-z0-9._+-]", "_", str(value))


def _read(source: str) -> tuple[dict[str, Any], str, str]:
    """The file's tables, the grid's name, and where its experiment is found."""
    ours = source in grid_names()
    require(
        ours or source.endswith(".toml"),
        f"there is no grid {source!r}: {nearest(source, grid_names())} (a file's name ends in .toml)",
    )
    try:
        text = ((GRIDS / f"{source}.toml") if ours else Path(source)).read_text("utf-8")
        tables = tomllib.loads(text)
    except FileNotFoundError:
        raise NoshowError(f"there is no file {source}: give a grid ({', '.join(grid_names())}) or a file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise NoshowError(f"{source} cannot be read: {error}") from None
    for key in tables:
        require(key in KEYS, f"{source}: {key} is not part of a grid: {nearest(key, KEYS)}")
    experiment = tables.get("experiment", 0)
    require(isinstance(experiment, str), f'{source} names no experiment: add experiment = "…", a preset or a spec file')
    grid = tables.get("grid")
    require(
        isinstance(grid, list) and bool(grid) and all(isinstance(table, dict) for table in grid),
        f"{source} has no grid: write [[grid]], and under it each setting's values, such as rate = [0.01, 0.1]",
    )
    found = experiment if experiment in preset_names() else str(Path(source).parent / experiment)
    return tables, Path(source).name.removesuffix(".toml"), found


def _combinations(tables: list[dict[str, Any]], source: str) -> list[dict[str, Any]]:
    combined = []
    for table in tables:
        values = _pairs(table, source, "grid")
        lists = [value if isinstance(value, list) else [value] for value in values.values()]
        for key, choices in zip(values, lists, strict=True):
            require(bool(choices), f"{source}: grid.{key} is an empty list: give at least one value")
        combined += [dict(zip(values, choice, strict=True)) for choice in itertools.product(*lists)]
    return combined


def _pairs(table: Any, source: str, where: str) -> dict[str, Any]:
    require(isinstance(table, dict), f"{source}: {where} is no table: write [{where}] and its values under it")
    for key, value in table.items():
        if isinstance(value, dict) and "name" not in value:
            raise NoshowError(
                f'{source}: write keys with a dot in quotes, such as "{key}.{next(iter(value), "…")}" = …'
            )
    return dict(table)


def _distinct(cells: list[Cell]) -> list[Cell]:
    """Without those whose experiment came before: 1 and 1.0, or two tables that overlap."""
    first: dict[str, Cell] = {}
    for cell in cells:
        first.setdefault(cell.spec.digest if cell.spec else repr(cell.values), cell)
    return list(first.values())
