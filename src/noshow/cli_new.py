"""The command `noshow new`: something to start from."""

from __future__ import annotations

import json
import keyword
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from string import Template
from typing import Annotated

import typer
from rich.console import Console

from noshow.errors import NoshowError, nearest, require

app = typer.Typer(name="new", help="Something to start from: a Flower app.", no_args_is_help=True)

TEMPLATES = resources.files("noshow") / "flower" / "templates"
CLIENTS = {"torch": ("numpy", "torch"), "numpy": ("numpy",)}
"""What a client's model may be written in, and the packages that it needs beside Flower."""
FLOWER = "flwr==1.41.*"
SERVER = ("noshow[flower]", "flwr[simulation]==1.41.*")
DATA = ("synthetic",)
IMPORTED = ("flwr", "noshow", "numpy", "torch")
"""Packages that an app imports: its own must be called otherwise."""


@app.callback()
def new() -> None:
    """Something to start from."""


@app.command("flower-app")
def flower_app(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; a new or an empty one.")],
    client: Annotated[
        str, typer.Option(metavar="torch|numpy", help="What the client's model is written in.")
    ] = "torch",
    data: Annotated[str, typer.Option(metavar="synthetic", help="What the clients hold.")] = "synthetic",
) -> None:
    """Write a small, complete Flower app with noshow's strategy, which `flwr run` runs at once."""
    require(client in CLIENTS, f"client is {client!r}: {nearest(client, CLIENTS)}")
    require(data in DATA, f"data is {data!r}: {nearest(data, DATA)}")
    place = folder.expanduser().absolute()
    require(
        not place.exists() or (place.is_dir() and not any(place.iterdir())),
        f"{folder} is there already and is no empty folder: choose another",
    )
    name, package = names_for(place.name)
    files = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{package}/__init__.py": "init.py",
        f"{package}/server_app.py": "server_app.py",
        f"{package}/client_app.py": "client_app.py",
        f"{package}/data.py": f"data.{data}.py",
        f"{package}/model.py": f"model.{client}.py",
    }
    words = {
        "name": name,
        "package": package,
        "folder": json.dumps(str(place / "state"), ensure_ascii=False),
        "needs": _quoted((*SERVER, *CLIENTS[client])),
        "client_needs": _quoted((FLOWER, *CLIENTS[client])),
    }
    _write(place, {file: _filled(template, words) for file, template in files.items()})
    for line in (f"a Flower app: {place}", f"run it:       cd {folder} && cat README.md"):
        Console().print(line, soft_wrap=True, highlight=False, markup=False)


def names_for(folder: str) -> tuple[str, str]:
    """The app's name and its Python package's, after the folder's.

    Example:
        >>> names_for("Night shift 2"), names_for("numpy")
        (('night-shift-2', 'night_shift_2'), ('app-numpy', 'app_numpy'))
    """
    words = re.findall("[a-z0-9]+", folder.lower())
    require(bool(words), f"{folder!r} has no letters to name an app by: choose another folder")
    taken = {*sys.stdlib_module_names, *keyword.kwlist, *IMPORTED}
    parts = words if words[0][0].isalpha() and "_".join(words) not in taken else ["app", *words]
    return "-".join(parts), "_".join(parts)


def _quoted(packages: Iterable[str]) -> str:
    """Packages as a shell takes them."""
    return " ".join(shlex.quote(package) for package in packages)


def _filled(template: str, words: dict[str, str]) -> str:
    return Template((TEMPLATES / f"{template}.template").read_text("utf-8")).substitute(words)


def _write(place: Path, files: dict[str, str]) -> None:
    """All files or none: beside, then renamed; or into the empty folder that is there, where a shell may stand."""
    there = place.is_dir()
    part = place if there else place.with_name(f".{place.name}.{os.getpid()}")
    done = False
    try:
        for file, text in files.items():
            (part / file).parent.mkdir(parents=True, exist_ok=True)
            (part / file).write_text(text, "utf-8")
        if not there:
            part.replace(place)
        done = True
    except OSError as error:
        raise NoshowError(f"{place} cannot be written: {error.strerror or error}") from None
    finally:
        if not done:
            _remove({part / Path(file).parts[0] for file in files} if there else {part})


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # a folder, gone by now, or never written
            path.unlink()
