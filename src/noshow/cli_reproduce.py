"""The command `noshow reproduce`: the paper's experiments, run and drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from noshow import cli_names
from noshow.cli_flags import Cores, Device, start_on
from noshow.errors import NoshowError, require
from noshow.interrupt import asked_to_stop, told_when_stopped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from noshow.clock import Clock
    from noshow.paper.copies import Copies
    from noshow.paper.experiments import Experiment
    from noshow.workbench import Bench


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME…", help="Experiments; see --list.", autocompletion=cli_names.experiments),
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="What there is, what it costs here, what is done.")] = False,
    setting: Annotated[
        str, typer.Option(metavar="written|published|both", help="The paper's text, or what the authors ran.")
    ] = "both",
    scale: Annotated[str, typer.Option(metavar="paper|quick", help="As the paper, or minutes on a laptop.")] = "paper",
    seeds: Annotated[
        str | None, typer.Option(metavar="0,1,2", help="The seeds to run, all at once; the experiment's if left out.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Stop after so many minutes; the same command goes on later.")
    ] = None,
    claims: Annotated[bool, typer.Option("--claims", help="Hold the results against the paper's claims.")] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where results and figures go.")] = Path("results"),
    device: Device = None,
    cores: Cores = None,
) -> None:
    """Run what is missing of the paper's experiments and draw their figures."""
    from noshow.clock import Clock
    from noshow.paper.experiments import COPIES, SETTINGS, find
    from noshow.workbench import Bench

    start_on(device, cores)
    require(setting in (*SETTINGS, "both"), f"setting is {setting!r}: give 'written', 'published' or 'both'")
    chosen = SETTINGS if setting == "both" else (setting,)
    whole = None if seeds is None else _numbers(seeds)
    console = Console()
    require(
        not claims or (setting, scale) == ("both", "paper"),
        "--claims is about both settings at the paper's size: leave out --setting and --scale",
    )
    if list_them or not (names or claims):
        _list(console, out, chosen, scale, whole)
        return
    found = [find(name) for name in names or []]
    bench, clock = Bench(), Clock(minutes)
    for experiment in found:
        if experiment == COPIES:
            for each in chosen:
                _copies(console, each, scale, whole, out, bench, clock)
        elif isinstance(experiment, str):
            _picture(console, experiment, out)
        else:
            for each in chosen:
                _experiment(console, experiment, each, scale, whole, out, bench, clock)
    if claims:
        _claims(console, whole, out)


BESIDE = {
    "cifar10-long": ("cifar10-0.2", ("fedavg_variant", "fedprox_variant")),
    "shakespeare-0.7": ("shakespeare-0.7", ("fedavg_variant",)),
    "shakespeare-random": ("shakespeare-0.7", ("fedavg", "fedavg_variant")),
}
"""Which levels of which experiment are drawn as lines, where the paper does so or what a figure is held against."""


def folder_of(out: Path, name: str, setting: str, scale: str, cell: str) -> Path:
    """Where the results of one cell lie."""
    return out / name / (setting if scale == "paper" else f"{setting}-{scale}") / cell


def _numbers(seeds: str) -> tuple[int, ...]:
    try:
        return tuple(int(seed) for seed in seeds.split(","))
    except ValueError:
        raise NoshowError(f"seeds is {seeds!r}: give whole numbers, such as 0,1,2") from None


def _experiment(
    console: Console,
    experiment: Experiment,
    setting: str,
    scale: str,
    seeds: tuple[int, ...] | None,
    out: Path,
    bench: Bench,
    clock: Clock,
) -> None:
    from noshow.display import display_for
    from noshow.paper.driver import run_missing
    from noshow.paper.results import Results

    specs = experiment.specs(setting, scale, seeds)
    cells = {cell: Results(folder_of(out, experiment.name, setting, scale, cell), spec) for cell, spec in specs.items()}
    for cell, results in cells.items():
        there = f"{len(results.finished)} of {len(results.spec.labels)} there"
        console.print(f"{experiment.name} {cell} ({setting}): {there}")
    with (
        told_when_stopped("stopped at once; finished algorithms are kept, and the same command goes on from there"),
        asked_to_stop(clock.stop, "putting the run aside; once more to stop at once"),
        display_for(console) as display,
    ):
        complete = run_missing(cells, bench, display, clock)
    if clock.stopped:
        console.print(f"{experiment.name} ({setting}): stopped; the same command goes on from here")
        raise typer.Exit(130)
    if not complete:
        console.print(f"{experiment.name} ({setting}): time is up; the same command goes on from here")
        return
    _draw(console, experiment, setting, scale, seeds, out)


def _draw(
    console: Console, experiment: Experiment, setting: str, scale: str, seeds: tuple[int, ...] | None, out: Path
) -> None:
    from noshow.paper.experiments import find
    from noshow.paper.figures import draw
    from noshow.paper.results import Results

    def curves_of(experiment: Experiment, cell: str) -> Results:
        spec = experiment.specs(setting, scale, seeds)[cell]
        return Results(folder_of(out, experiment.name, setting, scale, cell), spec)

    runs = {cell: curves_of(experiment, cell).curves() for cell in experiment.cells}
    law = next(iter(experiment.specs(setting, scale, seeds).values())).epsilon  # one in all cells
    levels = {}
    if experiment.name in BESIDE:
        beside, labels = BESIDE[experiment.name]
        other = find(beside)
        assert not isinstance(other, str)
        there = curves_of(other, "").curves()
        where = "its level" if other is experiment else f"its level in {beside}"
        levels = {f"{label}, {where}": there[label] for label in labels if label in there}
    count = len(seeds or experiment.seeds)
    size = "" if scale == "paper" else f", {scale} scale"
    title = f"{experiment.name} ({setting}{size}), {count} {'seed' if count == 1 else 'seeds'}"
    for end, figure in draw(experiment.name, runs, title, levels, law).items():
        file = folder_of(out, experiment.name, setting, scale, "") / f"figure{'-' if end else ''}{end}.png"
        _keep(console, file, figure)


def _keep(console: Console, file: Path, figure: Figure) -> None:
    from noshow.figure import keep_figure

    keep_figure(file, figure, dpi=110)
    console.print(f"figure: {file}", soft_wrap=True, highlight=False, markup=False)


def _picture(console: Console, name: str, out: Path) -> None:
    from noshow.paper.pictures import PICTURES

    file = out / f"{name}.png"
    _keep(console, file, PICTURES[name]())


def _copies_in(out: Path, setting: str, scale: str, seeds: tuple[int, ...] | None) -> Copies:
    from noshow.paper.copies import Copies
    from noshow.paper.experiments import COPIES, SEEDS

    return Copies(folder_of(out, COPIES, setting, scale, ""), setting, scale, seeds or SEEDS)


def _copies(
    console: Console, setting: str, scale: str, seeds: tuple[int, ...] | None, out: Path, bench: Bench, clock: Clock
) -> None:
    from noshow.paper.copies import draw
    from noshow.paper.experiments import COPIES

    kept = _copies_in(out, setting, scale, seeds)
    console.print(f"{COPIES} ({setting}): {len(kept.rehearsed)} of {kept.asked} there")
    with told_when_stopped("stopped; what is rehearsed is kept, and the same command goes on from there"):
        for one in kept.run_missing(bench, clock):
            console.print(f"{one.name}: {one.shared} candidates are the same")
    there = kept.rehearsed
    if len(there) < kept.asked:
        console.print(f"{COPIES} ({setting}): time is up; the same command goes on from here")
        return
    size = "" if scale == "paper" else f", {scale} scale"
    file = kept.path / "figure.png"
    _keep(console, file, draw(there, f"{COPIES} ({setting}{size})"))


def _claims(console: Console, seeds: tuple[int, ...] | None, out: Path) -> None:
    from noshow.files import write_whole
    from noshow.paper.claims_page import pages
    from noshow.paper.experiments import EXPERIMENTS, SETTINGS
    from noshow.paper.results import Results

    def results_of(experiment: Experiment, setting: str) -> dict[str, Results]:
        specs = experiment.specs(setting, "paper", seeds)
        return {
            cell: Results(folder_of(out, experiment.name, setting, "paper", cell), spec) for cell, spec in specs.items()
        }

    found = {
        setting: {name: results_of(experiment, setting) for name, experiment in EXPERIMENTS.items()}
        for setting in SETTINGS
    }
    texts = pages(found, {setting: _copies_in(out, setting, "paper", seeds) for setting in SETTINGS})
    for name, text in texts.items():
        write_whole(out / name, partial(Path.write_text, data=text, encoding="utf-8"))
        console.print(f"claims: {out / name}", soft_wrap=True, highlight=False, markup=False)


def _list(console: Console, out: Path, settings: tuple[str, ...], scale: str, seeds: tuple[int, ...] | None) -> None:
    from noshow.paper.costs import Costs
    from noshow.paper.experiments import COPIES, COPIES_SHOW, EXPERIMENTS, PICTURES
    from noshow.paper.results import Results

    costs = Costs()
    others: list[str] = []

    def there(look: Callable[[], str]) -> str:
        try:
            return look()
        except NoshowError as error:
            others.append(str(error))
            return "see below"

    def of_runs(experiment: Experiment, setting: str) -> str:
        specs = experiment.specs(setting, scale, seeds)

        def look() -> str:
            places = {cell: folder_of(out, experiment.name, setting, scale, cell) for cell in specs}
            finished = sum(len(Results(places[cell], spec).finished) for cell, spec in specs.items())
            return f"{finished} of {sum(len(spec.labels) for spec in specs.values())}"

        return f"{there(look)}\n{costs.of(list(specs.values()))}"

    def of_copies(setting: str) -> str:
        def look() -> str:
            kept = _copies_in(out, setting, scale, seeds)
            return f"{len(kept.rehearsed)} of {kept.asked}\n{costs.of(kept.as_runs())}"

        return there(look)

    table = Table(Column("experiment", overflow="fold"), "what it shows", *settings, box=None)
    with console.status("measuring what a round costs here; the next time it is known"):
        for experiment in EXPERIMENTS.values():
            table.add_row(experiment.name, experiment.shows, *(of_runs(experiment, setting) for setting in settings))
        table.add_row(COPIES, COPIES_SHOW, *map(of_copies, settings))
    for name, shows in PICTURES.items():
        table.add_row(name, shows, f"{'there' if (out / f'{name}.png').exists() else 'not there'}\nseconds")
    console.print("Under each setting: how many runs are there, and how long all of them take on this machine.")
    console.print(table)
    for sentence in others:
        console.print(sentence, soft_wrap=True, highlight=False, markup=False)
