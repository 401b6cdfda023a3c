"""The paper's figures, drawn from results as the paper lays them out: train loss left, test accuracy right.

Lines are means over seeds, bands go from the lowest seed to the highest; epsilon_t is that of the first seed. A line
ends in a cross where a seed diverges. What a panel leaves out, and seeds that learn nothing, are told above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from noshow.figure import draw_curve, styles_for, width_for
from noshow.paper.panels import Levels, end, finite, level_lines, note, scores_of, silence
from noshow.paper.readings import ACCURACY, LOSS, level
from noshow.paper.results import Curves
from noshow.paper.stuck import stuck, stuck_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VARIANTS = ("fedavg_variant", "fedprox_variant")
BASELINES = ("fedavg", "fedavg_variant", "fedprox", "fedprox_variant", "mifa")
BYZANTINE = ("gm", "cclip", "bucketing_gm", "bucketing_cclip")
SILENCE, END = "epsilon_t", "end"

Runs = Mapping[str, Mapping[str, Curves]]
"""The curves of each cell of an experiment, by label; a plain experiment has the one cell `""`."""


def draw(
    name: str, runs: Runs, title: str, levels: Levels | None = None, law: float | None = None
) -> dict[str, Figure]:
    """The figures of an experiment, by the end of their file names; `law` is the epsilon that epsilon_t keeps to."""
    if name == "round-robin":
        return {"loss": _grid(runs, LOSS, title), "accuracy": _grid(runs, ACCURACY, title)}
    if name == "random-response":
        return {"": _against_probability(runs, title)}
    return {"": _rows(runs[""], LAYOUTS[name](runs[""]), title, levels or {}, law)}


def _two(*labels: str) -> list[tuple[str, Sequence[str]]]:
    return [(LOSS, labels), (ACCURACY, labels)]


Layout = list[list[tuple[str, Sequence[str]]]]
"""Rows of panels: what is drawn, and whose."""


def _cifar10(curves: Mapping[str, Curves]) -> Layout:
    return [_two(*BASELINES), _two(*BYZANTINE, *VARIANTS)]


def _synthetic(curves: Mapping[str, Curves]) -> Layout:
    silence: list[tuple[str, Sequence[str]]] = [(SILENCE, (label,)) for label in VARIANTS]
    return [_two(*BASELINES), _two(*BASELINES[:-1]), silence, _two(*BYZANTINE, *VARIANTS)]


def _synthetic_long(curves: Mapping[str, Curves]) -> Layout:
    """The paper's two boxes that zoom in have a row of their own, where they cover nothing."""
    return [_two(*curves), [(END, ("fedavg", "fedavg_variant")), (END, ("fedprox", "fedprox_variant"))]]


LAYOUTS: dict[str, Callable[[Mapping[str, Curves]], Layout]] = {
    "cifar10-0.8": _cifar10,
    "cifar10-0.2": _cifar10,
    "cifar10-long": lambda curves: [_two(*BYZANTINE)],
    "shakespeare-0.7": lambda curves: [_two("fedavg", "fedavg_variant", "mifa"), _two(*BYZANTINE)],
    "shakespeare-random": lambda curves: [_two("fedavg", "fedavg_variant")],
    "synthetic-0.9": _synthetic,
    "synthetic-0.7": _synthetic,
    "synthetic-long": _synthetic_long,
}
HEIGHTS = {SILENCE: 1.5, END: 2.0}


def _rows(curves: Mapping[str, Curves], layout: Layout, title: str, levels: Levels, law: float | None) -> Figure:
    from matplotlib.figure import Figure

    heights = [HEIGHTS.get(row[0][0], 3.0) for row in layout]
    figure = Figure(figsize=(10.5, 1.2 + 0.95 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(layout), 2, squeeze=False, height_ratios=heights)
    for row, axes_of_row in zip(layout, panels, strict=True):
        for (what, labels), axes in zip(row, axes_of_row, strict=True):
            there = [curves[label] for label in labels if label in curves]
            if what == SILENCE:
                silence(axes, there, law)
            elif what == END:
                end(axes, there)
            else:
                scores_of(axes, there, what)
                level_lines(axes, levels, what)
            axes.set_xlabel("round")
    return _finished(figure, title)


def _grid(runs: Runs, what: str, title: str) -> Figure:
    """Rows by K, columns by r, in the order of the cells."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 9), layout="constrained")
    panels = figure.subplots(3, 3, sharex=True, sharey=True)
    for axes, (cell, curves) in zip(panels.flat, runs.items(), strict=True):
        for curve in curves.values():
            _with_beta(axes, curve, what)
        axes.set_title(cell.replace("-", ", ").replace("K", "K = ").replace("r", "r = "), loc="left")
        if what == ACCURACY:
            note(axes, fill(stuck(curves.values()), 30))
    for axes in panels[-1]:
        axes.set_xlabel("round")
    cut = ""
    if what == LOSS:
        # Single spikes in a cell or a seed must not flatten nine panels: they leave them.
        drawn = [getattr(curve.scores, what) for curves in runs.values() for curve in curves.values()]
        top = 1.1 * float(np.percentile(finite(np.concatenate([values.mean(0) for values in drawn])), 99))
        every = finite(np.concatenate([values.ravel() for values in drawn]))
        panels.flat[0].set_ylim(0.95 * every.min(), top)
        cut = f", cut at {top:.1f}: spikes leave the panels and reach {every.max():.3g}" if every.max() > top else ""
    return _finished(figure, f"{title}: {what.replace('_', ' ')}{cut}")


ROOT, ONE = "-beta-root", "-beta-1"
CALLED = {ROOT: ", beta = sqrt(M/K)", ONE: ", beta = 1"}
BETA_WIDTHS = {f"fedavg_variant{ROOT}": 2.6, f"fedprox_variant{ROOT}": 1.8}
"""The wider line of a variant is that of beta = sqrt(M/K); FedAvg's, which the paper says wins, stands out."""


def _with_beta(axes: Axes, curve: Curves, what: str) -> None:
    """A variant has one colour and line whatever its beta, which the width tells."""
    beta = next((beta for beta in CALLED if curve.label.endswith(beta)), "")
    family = curve.label.removesuffix(beta)
    width = BETA_WIDTHS.get(curve.label, 0.9)
    values = getattr(curve.scores, what)
    draw_curve(axes, curve.evaluated, values, styles_for([family])[family], family + CALLED.get(beta, ""), width)
    if width == max(BETA_WIDTHS.values()):
        axes.get_lines()[-1].set_zorder(4)


def _against_probability(runs: Runs, title: str) -> Figure:
    """The level over the last quarter of the run against the probability to answer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    labels = list(dict.fromkeys(label for curves in runs.values() for label in curves))
    styles = styles_for(labels)
    for axes, what in zip(figure.subplots(1, 2), (LOSS, ACCURACY), strict=True):
        for label in labels:
            cells = [(float(cell.removeprefix("p")), curves[label]) for cell, curves in runs.items() if label in curves]
            chances = np.array([chance for chance, _ in cells])
            values = np.array([level(curve, what) for _, curve in cells]).T
            draw_curve(axes, chances, values, styles[label], label, width_for(label))
            axes.get_lines()[-1].set(marker="o", markersize=1.8 + width_for(label))
        axes.set_xlabel("probability to answer")
        axes.set_title(f"{what.replace('_', ' ')}, last quarter", loc="left")
        if what == ACCURACY:
            note(axes, stuck_at(runs, labels))
    return _finished(figure, title)


def _finished(figure: Figure, title: str) -> Figure:
    from matplotlib.lines import Line2D

    handles: dict[str, Any] = {}
    for axes in figure.axes:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    longest = max(map(len, handles), default=0)
    columns = min(5, int(10 / (0.55 + 0.07 * longest)))  # of ten inches: a handle and so many letters each
    legend = figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False)
    for shown in legend.legend_handles:
        if isinstance(shown, Line2D) and shown.get_marker() == ".":
            shown.set(markersize=6)  # a dot alone would be too small to be seen
    figure.suptitle(title, x=0.01, ha="left")
    return figure
