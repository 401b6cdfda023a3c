"""The command `noshow export`: what a run has left behind, as files for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from noshow.errors import nearest, require

if TYPE_CHECKING:
    from noshow.store import RunFolder

# What only one command needs is imported inside it, so that --help answers sooner.


def export(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    model: Annotated[
        Path | None,
        typer.Option("--model", "-o", metavar="FILE.safetensors", help="Write an algorithm's final model."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write a table of all algorithms and seeds.")
    ] = None,
    table: Annotated[
        str, typer.Option(metavar="metrics|roll_call|diagnostics", help="Which table; the columns of the Parquet file.")
    ] = "metrics",
    algorithm: Annotated[
        str | None, typer.Option(metavar="LABEL", help="This algorithm only; a model needs one, if there are several.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="The seed of the model; the first if left out.")] = None,
) -> None:
    """Write a run's final model as .safetensors, its numbers as CSV."""
    from noshow.store import RunFolder

    require(
        model is not None or csv is not None, "there is nothing to export: give --model FILE or --csv FILE, or both"
    )
    require(seed is None or model is not None, "--seed says which model: give --model FILE; a table has all seeds")
    folder = RunFolder.open(path)
    labels = _labels(folder, algorithm)
    lines = []
    if model is not None:
        lines.append(_export_model(folder, labels, seed, model))
    if csv is not None:
        lines.append(_export_table(folder, labels, table, csv))
    for line in lines:
        Console().print(line, soft_wrap=True, highlight=False, markup=False)


def _labels(folder: RunFolder, algorithm: str | None) -> list[str]:
    require(len(folder.finished) > 0, f"{folder.path} has no finished algorithm yet: let the run go on first")
    if algorithm is None:
        return folder.finished
    known = folder.spec.labels
    require(algorithm in known, f"{folder.path} has no algorithm {algorithm!r}: {nearest(algorithm, known)}")
    require(algorithm in folder.finished, f"{algorithm} is not finished in {folder.path}: let the run go on first")
    return [algorithm]


def _export_model(folder: RunFolder, labels: list[str], seed: int | None, file: Path) -> str:
    from noshow import weights
    from noshow.spec import untrained_model

    require(file.suffix == ".safetensors", f"a model is written as .safetensors: {file} ends otherwise")
    require(len(labels) == 1, f"a file holds one model: give --algorithm, one of {', '.join(labels)}")
    history = folder.load(labels[0])
    seeds = history.seeds.tolist()
    chosen = seeds[0] if seed is None else seed
    require(chosen in seeds, f"{labels[0]} has no seed {chosen}: give one of {', '.join(map(str, seeds))}")
    place = seeds.index(chosen)
    weights.save(file, untrained_model(folder.spec.model), history.models[place])
    gone = history.diverged_at[place]
    when = f"round {history.evaluated[-1]}" if gone is None else f"the evaluation before it diverged by round {gone}"
    return f"model: {file} ({labels[0]}, seed {chosen}, {when})"


def _export_table(folder: RunFolder, labels: list[str], name: str, file: Path) -> str:
    import pyarrow as pa

    from noshow.tables import table_of, write_csv

    tables = [table_of(folder.load(label), name) for label in labels]  # type: ignore[arg-type]  # it looks itself
    rows = pa.concat_tables(tables, promote_options="default")
    write_csv(file, rows)
    return f"{name}: {file} ({rows.num_rows:,} rows: {', '.join(labels)})"
