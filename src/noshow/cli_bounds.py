"""The command `noshow bounds`: what absence must cost and what it costs at most, for given constants or for a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.table import Table

from noshow.errors import NoshowError, require
from noshow.interrupt import told_when_stopped

if TYPE_CHECKING:
    from noshow.measured import Measured
    from noshow.theory.constants import Method, Problem
    from noshow.theory.overview import Overview


def bounds(
    context: typer.Context,
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run folder; or give constants instead.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The adversary's share of the data, from 0 to below 1.")] = None,
    L: Annotated[float | None, typer.Option("--L", help="Smoothness of the clients' losses.")] = None,  # noqa: N803
    B: Annotated[float, typer.Option("--B", help="Dissimilarity that grows with the gradient, at least 1.")] = 1.0,  # noqa: N803
    G: Annotated[float, typer.Option("--G", help="Dissimilarity that stays at a minimum.")] = 0.0,  # noqa: N803
    sigma: Annotated[float, typer.Option(help="Noise of the clients' batch gradients.")] = 0.0,
    mu: Annotated[float, typer.Option(help="Strong convexity of F; 0 if it has none.")] = 0.0,
    L_minus: Annotated[  # noqa: N803
        float | None, typer.Option("--L-minus", help="Largest downward curvature (FedProx); L if left out.")
    ] = None,
    sampled: Annotated[int, typer.Option("--K", help="Clients sampled in a round.")] = 1,
    clients: Annotated[int, typer.Option("--M", help="Clients in all.")] = 1,
    steps: Annotated[int, typer.Option("--s", help="Local steps of FedAvg.")] = 1,
    beta: Annotated[float | None, typer.Option(help="The server's amplification; M/K if left out.")] = None,
    method: Annotated[str, typer.Option(metavar="fedavg|fedprox", help="Which of the paper's variants.")] = "fedavg",
    rounds: Annotated[int, typer.Option(help="How far to look.")] = 10_000,
    gap: Annotated[float, typer.Option(help="F(theta_0) - F_min, for the non-convex theorem.")] = 1.0,
    distance: Annotated[float, typer.Option(help="||theta_0 - theta*||, for the strongly convex theorem.")] = 1.0,
) -> None:
    """What absence must cost, and what it costs at most: for given constants, or beside what a run measures."""
    console = Console()
    if run is not None:
        sources = [context.get_parameter_source(name) for name in context.params if name != "run"]
        require(
            all(source is not None and source.name == "DEFAULT" for source in sources),
            "a run brings its own constants: leave out RUN, or the constants",
        )
        _of_run(console, run)
        return
    if epsilon is None or L is None:
        raise NoshowError("give --epsilon and --L at least, or the folder of a run")
    from noshow.theory import Problem

    left_out = {name: value for name, value in (("beta", beta), ("L_minus", L_minus)) if value is not None}
    problem = Problem(epsilon=epsilon, L=L, B=B, G=G, sigma=sigma, mu=mu, s=steps, K=sampled, M=clients, **left_out)
    _of_constants(console, problem, cast("Method", method), rounds, gap, distance)  # checked where it is used


def _of_constants(console: Console, problem: Problem, method: Method, rounds: int, gap: float, distance: float) -> None:
    from noshow.theory.overview import non_convex_overview, strongly_convex_overview

    _show(
        console, "E ||grad F(theta_R)||^2, steps eta_0 / sqrt(t + 1)", non_convex_overview(problem, method, rounds, gap)
    )
    if problem.mu > 0:
        seen = strongly_convex_overview(problem, method, rounds, distance)
        _show(console, "E ||theta_t - theta*||^2, steps alpha / (t + gamma)", seen)


def _of_run(console: Console, path: Path) -> None:
    from noshow.figure import keep_figure
    from noshow.measured import measure
    from noshow.measured_figure import draw
    from noshow.run import title_of
    from noshow.spec import realise
    from noshow.store import RunFolder

    folder = RunFolder.open(path)
    experiment = realise(folder.spec)
    experiment = experiment._replace(adversary=folder.keeping(experiment.adversary))

    def begun(label: str) -> None:
        console.print(f"playing {label} again, with diagnostics", markup=False, highlight=False)

    with told_when_stopped("stopped; nothing was written"):
        measured = measure(folder.spec, experiment, begun)
    picture = folder.path / "bounds.png"
    keep_figure(picture, draw(measured, title_of(folder.spec)))
    _show_measured(console, measured)
    console.print(f"figure: {picture}", soft_wrap=True, highlight=False, markup=False)


def _show_measured(console: Console, measured: Measured) -> None:
    found, problem = measured.constants, measured.problem
    constants = {
        "L": found.L,
        "L_minus": found.L_minus,
        "mu": found.mu,
        "sigma": found.sigma,
        "B": float(problem.B),
        "G": float(problem.G),
    }
    listed = ", ".join(f"{name} {value:.4g}" for name, value in constants.items())
    console.print(f"constants at the visited models: {listed}", markup=False, highlight=False)
    table = Table("algorithm", "measured", "floor", "ceiling", "", box=None)
    for label, run in measured.played.items():
        ceiling = measured.ceilings[label]
        values = run.diagnostics.mean_square_gradient[:, -1]
        last = "none" if ceiling.bound is None else _number(float(ceiling.bound[-1]))
        failing = [row.name for row in ceiling.conditions if not row.holds]
        why = ceiling.reason or (f"the theorem's own fails: {', '.join(failing)}" if failing else "")
        table.add_row(label, _number(float(values.mean())), _number(measured.floor), last, why)
    console.print(table)


def _show(console: Console, what: str, seen: Overview) -> None:
    """One theorem: its bounds at some times, where they end, and its conditions."""
    from noshow.theory.conditions import table

    console.print(what, style="bold", markup=False, highlight=False)
    bounds = Table("round", "floor", "explicit bound", "theorem", box=None)
    for time, explicit, closed in zip(seen.times, seen.explicit, seen.closed, strict=True):
        bounds.add_row(f"{time:,}", _number(seen.floor), _number(explicit), _number(closed))
    bounds.add_row("limit", _number(seen.floor), _number(seen.limit), "")
    console.print(bounds)
    console.print(table(seen.conditions), markup=False, highlight=False)
    console.print()


def _number(value: float) -> str:
    return "no bound" if value != value else f"{value:.4g}"
