"""The command `noshow data`: what data sets there are, where they lie, and how they get there."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from noshow.errors import NoshowError, nearest, require

app = typer.Typer(name="data", help="Data sets: list them, fetch them, say where they are.", no_args_is_help=True)

# What only one command needs is imported inside it, so that --help answers sooner.


@app.command("list")
def list_sets() -> None:
    """List the data sets that are read from files, and where they are."""
    from noshow.datasets.folder import data_folder

    folder = data_folder()
    table = Table("data set", "what it is", "size", box=None)
    table.add_column("where", overflow="fold")
    for name, files in _sets().items():
        table.add_row(name, files.WHAT, f"{files.BYTES / 1e6:,.0f} MB", _where(files, folder))
    console = Console()
    console.print(table)
    _say(console, f"data folder: {folder}")


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set's name (`noshow data list`).")],
    to: Annotated[
        str | None, typer.Option("--dir", metavar="DIR", help="The data folder; from then on it is found by itself.")
    ] = None,
) -> None:
    """Download a data set into the data folder. What broke off goes on; what is there is not fetched again."""
    from noshow.datasets.folder import data_folder
    from noshow.interrupt import told_when_stopped

    sets = _sets()
    require(name in sets, f"there is no data set {name!r} to get: {nearest(name, sets)}")
    folder, console = data_folder(to), Console()
    if to is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NoshowError(f"{folder} cannot be made ({error.strerror}): give another --dir") from None
        _set_folder(folder, console)
    files = sets[name]
    if found := files.find(folder):
        _say(console, f"{name} is here already: {found}")
        return
    if part := _part(files, folder):
        _say(console, f"{part}: all of {name} is fetched, to be read in its place")
    with told_when_stopped("stopped; the same command goes on from there"):
        _say(console, f"{name}: fetched to {files.get(folder)}")


@app.command()
def use(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with data files.")]) -> None:
    """Name the folder that has the data files; from then on it is found by itself."""
    folder, console = folder.expanduser(), Console()
    require(folder.is_dir(), f"{folder} is no folder: make it, or give the one that has the data")
    _set_folder(folder, console)
    for name, files in _sets().items():
        _say(console, f"{name}: {_where(files, folder)}")


def _set_folder(folder: Path, console: Console) -> None:
    from noshow.datasets.folder import VARIABLE, remember

    remember(folder)
    _say(console, f"data folder: {folder.absolute()}")
    if os.environ.get(VARIABLE):
        _say(console, f"but {VARIABLE} is set to {os.environ[VARIABLE]} and goes first: unset it")


def _sets() -> dict[str, ModuleType]:
    from noshow.datasets import cifar10_files, shakespeare_files

    return {files.NAME: files for files in (cifar10_files, shakespeare_files)}


def _where(files: ModuleType, folder: Path) -> str:
    return str(files.find(folder) or _part(files, folder) or "not here")


def _part(files: ModuleType, folder: Path) -> str:
    """What is there of a set whose files are not all there, and what is not; nothing for sets that are one file."""
    from noshow.datasets import cifar10_files

    begun = cifar10_files.begun(folder) if files is cifar10_files else None
    return f"{begun} has no {', '.join(cifar10_files.missing(begun))}" if begun else ""


def _say(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)
