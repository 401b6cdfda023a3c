"""The command `noshow trace`: traces of who answered, in numbers and in pictures, imported and exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from noshow.trace.summary import Summary

app = typer.Typer(
    name="trace", help="Traces of who answered: numbers, a picture, import, export.", no_args_is_help=True
)

TraceFile = Annotated[Path, typer.Argument(metavar="FILE", help="A trace (.parquet).")]

# What only one command needs is imported inside it, so that --help answers sooner.


@app.command()
def summary(file: TraceFile) -> None:
    """Say how many answered, why the others did not, and how much of the data was silent."""
    from noshow import trace
    from noshow.trace.file import printable

    found, console = trace.summarise(trace.read(file)), Console()
    facts = Table.grid(padding=(0, 2))
    for name, words in facts_of(found).items():
        facts.add_row(name, words)
    console.print(facts, highlight=False)
    if found.reasons:
        reasons = Table("reason", "silences", box=None)
        for reason, count in found.reasons.items():
            reasons.add_row(Text(printable(reason)), f"{count:,}")
        silent = Table("most silent", "silent", "called", "share", box=None)
        for line in found.most_silent:
            share = f"{line.silent / line.called:.1%}"
            silent.add_row(Text(printable(line.client), overflow="fold"), f"{line.silent:,}", f"{line.called:,}", share)
        for table in (reasons, silent):
            console.print()
            console.print(table, highlight=False)


def facts_of(found: Summary) -> dict[str, str]:
    """A line for each of the trace's own numbers."""
    return {
        "rounds": f"{found.rounds:,} ({found.first} to {found.last})",
        "clients": f"{found.clients:,}, {found.sampled:,} sampled a round",
        "answered": f"{found.answered:,} of {found.calls:,} calls ({found.answered / found.calls:.1%})",
        "epsilon_t": f"{found.mean_epsilon_t:.4f} in the mean, {found.largest_epsilon_t:.4f} at most "
        f"(round {found.largest_in})",
    }


@app.command()
def plot(
    file: TraceFile,
    out: Annotated[
        Path | None, typer.Option(metavar="F.png", help="The picture; the trace's name with .png if left out.")
    ] = None,
) -> None:
    """Draw who answered in which round, and each client's total."""
    from noshow import trace
    from noshow.errors import require
    from noshow.files import write_whole

    figure = trace.picture(trace.read(file), file.name)
    place = out or file.with_suffix(".png")
    require(place.resolve() != file.resolve(), f"--out {place} is the trace itself: give the picture another name")
    write_whole(place, lambda part: figure.savefig(part, dpi=150, format="png"))
    _say(f"picture: {place}")


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.csv", help="Columns client,start,end or round,client,status[,reason,n].")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.parquet", help="The trace to write.")],
    round_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="How long a round takes; client,start,end needs it.")
    ] = None,
    examples: Annotated[
        int, typer.Option(metavar="N", help="Each client's examples, where the file does not say.")
    ] = 1,
) -> None:
    """Make a trace of a CSV file: when clients were available, or who answered in which round."""
    from noshow import trace
    from noshow.errors import require

    require(out.resolve() != file.resolve(), f"--out {out} is the CSV file itself: give the trace another name")
    made = trace.from_csv(file, round_seconds, examples)
    trace.write(out, made)
    _say(f"{len(made):,} calls of {len(made.names):,} clients: {out}")


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    label: Annotated[str, typer.Argument(metavar="ALGORITHM", help="An algorithm of the run, by its label.")],
    out: Annotated[Path, typer.Option(metavar="FILE.parquet", help="The trace to write.")],
    seed: Annotated[int | None, typer.Option(metavar="N", help="Which seed; the run's first if left out.")] = None,
) -> None:
    """Make a trace of a simulated run's roll call."""
    from noshow import trace
    from noshow.errors import nearest, require
    from noshow.spec import realise
    from noshow.store import RunFolder

    folder = RunFolder.open(run)
    require(label in folder.finished, f"{run} has no finished {label!r}: {nearest(label, folder.finished)}")
    history, federation = folder.load(label), realise(folder.spec).federation
    made = trace.of_history(history, federation, int(history.seeds[0]) if seed is None else seed)
    trace.write(out, made)
    _say(f"{len(made):,} calls of {len(made.names):,} clients: {out}")


def _say(line: str) -> None:
    Console().print(line, soft_wrap=True, highlight=False, markup=False)
