"""The command `noshow`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from jax.errors import JaxRuntimeError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from noshow import cli_names, distributed
from noshow.cli_bench import bench
from noshow.cli_bounds import bounds
from noshow.cli_data import app as data_app
from noshow.cli_doctor import doctor
from noshow.cli_export import export
from noshow.cli_flags import (
    Coordinator,
    Cores,
    Device,
    Limit,
    Process,
    Processes,
    Products,
    bytes_of,
    join_others,
    start_on,
)
from noshow.cli_new import app as new_app
from noshow.cli_report import report
from noshow.cli_reproduce import reproduce
from noshow.cli_sweep import sweep
from noshow.cli_trace import app as trace_app
from noshow.cli_watch import watch
from noshow.devices import keep_compiled
from noshow.errors import NoshowError
from noshow.interrupt import asked_to_stop, told_when_stopped
from noshow.version import __version__

app = typer.Typer(
    name="noshow",
    help="Federated learning that holds when clients don't show up.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(data_app)
app.add_typer(trace_app)
app.add_typer(new_app)
app.command()(reproduce)
app.command()(doctor)
app.command()(bounds)
app.command()(bench)
app.command()(sweep)
app.command()(report)
app.command()(watch)
app.command()(export)

# What only one command needs is imported inside it, so that --help and --version answer sooner.


def _version(asked: bool) -> None:
    if asked:
        print(f"noshow {__version__}")
        raise typer.Exit


@app.callback()
def noshow(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Federated learning that holds when clients don't show up."""


@app.command()
def run(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FILE.toml",
            help="A preset's name (`noshow presets`) or a file.",
            autocompletion=cli_names.presets,
        ),
    ],
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a value: rounds=60, beta=5, data.clients=50, algorithms.fedavg.rate=0.1.",
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="0,1,2", help="The seeds to run, all at once.")] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            metavar="written|published",
            help="The paper's text (unless the file says otherwise), or what the authors ran.",
        ),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(metavar="paper|quick", help="As long as the paper, or minutes on a laptop.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run folder; runs/NAME-… if left out.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Run what is finished anew.")] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="mlflow|tensorboard|wandb", help="Follow the run there, too; may be given several times."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, as things happen, instead of bars and tables.")
    ] = False,
    html: Annotated[
        bool, typer.Option("--report", help="Write report.html into the run folder, too; see `noshow report`.")
    ] = False,
    device: Device = None,
    cores: Cores = None,
    precision: Products = None,
    memory: Limit = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
) -> None:
    """Run an experiment and print its table. What is finished already is not run again."""
    from noshow import spec_file
    from noshow.clock import Clock
    from noshow.display import display_for, result_table
    from noshow.json_lines import JsonLines
    from noshow.report import write_report
    from noshow.run import run as run_spec
    from noshow.store import RunFolder
    from noshow.trackers import tracker
    from noshow.trackers.telling import Telling

    start_on(device, cores, lambda: join_others(coordinator, processes, process))
    limit = None if memory is None else bytes_of(memory)
    flags = {"seeds": None if seeds is None else f"[{seeds}]", "precision": precision}
    changes = [*(assignments or []), *(f"{key}={value}" for key, value in flags.items() if value is not None)]
    spec = spec_file.load(source, changes, setting, scale)
    console = Console(quiet=as_json or not distributed.first())
    clock = Clock()
    with (
        distributed.mirrored(out or RunFolder.place(spec)) as place,
        told_when_stopped("stopped at once; the same command goes on from the last checkpoint"),
        asked_to_stop(clock.stop, "putting the run aside; once more to stop at once"),
        JsonLines() if as_json and distributed.first() else display_for(console) as display,
    ):
        folder = RunFolder.of(spec, place)
        told = [tracker(name, folder.path) for name in track or [] if distributed.first()]
        histories = run_spec(spec, folder, Telling(display, told, spec), again, clock, limit)
    if histories is None:
        console.print(f"stopped; the same command {'starts over' if again else 'goes on from here'}")
        raise typer.Exit(130)
    files = {"run folder": folder.path, "figure": folder.path / "figure.png"}
    if html and distributed.first():
        files["report"] = folder.path / "report.html"
        write_report([folder.path], files["report"])
    console.print(result_table(histories))
    if as_json and distributed.first():
        print(json.dumps({"event": "done", **{name: str(file) for name, file in files.items()}}))
    for name, file in files.items():
        console.print(f"{f'{name}:':<11} {file}", soft_wrap=True, highlight=False, markup=False)


@app.command()
def presets() -> None:
    """List the experiments that come with noshow."""
    from noshow import spec_file

    table = Table("preset", "what it is", "rounds", "algorithms", box=None)
    for name in spec_file.preset_names():
        spec = spec_file.load(name)
        table.add_row(name, Text(spec.description), str(spec.rounds), str(len(spec.algorithms)))
    Console().print(table)


@app.command()
def show(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    spec: Annotated[
        bool, typer.Option("--spec", help="Print the resolved spec instead: a file that runs it again.")
    ] = False,
) -> None:
    """Show a run: what it was, what is finished, its table."""
    from noshow.display import result_table
    from noshow.store import RunFolder

    folder = RunFolder.open(path)
    if spec:
        print(folder.spec.to_toml(), end="")
        return
    console = Console()
    console.print(Text(folder.spec.name, "bold"), f"({folder.spec.setting}): {folder.spec.description}", markup=False)
    for key, value in folder.about().items():
        console.print(f"  {key:<10} {value}", highlight=False, markup=False)
    console.print(result_table([folder.load(label) for label in folder.finished]))
    missing = [label for label in folder.spec.labels if label not in folder.finished]
    if missing:
        goes_on = f"not finished: {', '.join(missing)}; `noshow run {path}/spec.toml --out {path}` goes on"
        console.print(goes_on, markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command; bad input ends in one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ± shows another sign instead of failing
    keep_compiled()
    try:
        app()
    except NoshowError as error:
        _stop(str(error))
    except MemoryError:
        _stop("there is not enough memory for this experiment: make it smaller")
    except JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        _stop("the device has not enough memory for this experiment: run fewer seeds at a time, or make it smaller")
    except OSError as error:
        _stop(f"{error.filename or 'a file'}: {error.strerror or error}")


def _stop(sentence: str) -> NoReturn:
    print(f"noshow: {sentence}", file=sys.stderr)
    distributed.leave_at_once(2)
    sys.exit(2)
