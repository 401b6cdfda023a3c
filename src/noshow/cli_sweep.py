"""The command `noshow sweep`: every cell of a grid, run by one worker or many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from noshow import cli_names
from noshow.interrupt import told_when_stopped


def sweep(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="GRID|FILE.toml", help="A grid's name (see --list) or a file.", autocompletion=cli_names.grids
        ),
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            metavar="here|pool|ray|ray://HOST:PORT",
            help="This process, processes of their own, a Ray cluster on this machine, or one that is there.",
        ),
    ] = "here",
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Cells at a time; as many as there are cores if left out.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The store; runs/GRID if left out.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value in every cell, as in `noshow run`."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="0,1,2", help="The seeds of every cell.")] = None,
    setting: Annotated[
        str | None, typer.Option(metavar="written|published", help="The paper's text, or what the authors ran.")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(metavar="paper|quick", help="As long as the paper, or minutes on a laptop.")
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="The grids that come with noshow.")] = False,
) -> None:
    """Run every cell of a grid into one store and print the table. What is in the store is not run again."""
    from noshow.sweep import sweep as run_sweep
    from noshow.sweep_display import cells_for
    from noshow.sweep_grid import load_grid
    from noshow.sweep_table import shown

    console = Console()
    if list_them or source is None:
        _list(console)
        return
    changes = [*(assignments or []), *([f"seeds=[{seeds}]"] if seeds is not None else [])]
    grid = load_grid(source, changes, setting, scale)
    with (
        told_when_stopped("stopped at once; the same command goes on from the last checkpoints"),
        cells_for(console) as watcher,
    ):
        swept = run_sweep(grid, on, workers, out, watcher)
    if swept.rows:
        console.print(shown(swept.rows, grid.keys))
    for entry in swept.failed:
        console.print(f"failed: {entry.cell.name}: {entry.why}", soft_wrap=True, highlight=False, markup=False)
    files = f"table: {swept.table} and {swept.table.with_suffix('.csv').name}"
    console.print(files, soft_wrap=True, highlight=False, markup=False)
    if swept.failed:
        raise typer.Exit(1)
    if not swept.complete:
        console.print("stopped; the same command goes on from here")
        raise typer.Exit(130)


def _list(console: Console) -> None:
    from noshow.sweep_grid import grid_names, load_grid

    table = Table("grid", "what it is", "cells", "runs", box=None)
    for name in grid_names():
        grid = load_grid(name)
        runs = sum(len(cell.spec.labels) for cell in grid.cells if cell.spec)
        table.add_row(name, Text(grid.description), str(len(grid.cells)), str(runs))
    console.print(table)
