"""The paper's figures, drawn from results as the paper lays them out: train loss left, test accuracy right.

Lines are means over seeds, bands go from the lowest seed to the highest; epsilon_t is that of the first seed. A line
ends in a cross where a seed diverges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noshow.figure import draw_curve, styles_for
from noshow.paper.readings import ACCURACY, LOSS, level
from noshow.paper.results import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VARIANTS = ("fedavg_variant", "fedprox_variant")
BASELINES = ("fedavg", "fedavg_variant", "fedprox", "fedprox_variant", "mifa")
BYZANTINE = ("gm", "cclip", "bucketing_gm", "bucketing_cclip")

Runs = Mapping[str, Mapping[str, Curves]]
"""The curves of each cell of an experiment, by label; a plain experiment has the one cell `""`."""
Levels = Mapping[str, Curves]
"""Curves of this or another experiment whose last quarter is drawn as a line, by what the line is called."""


def draw(name: str, runs: Runs, title: str, levels: Levels | None = None) -> dict[str, Figure]:
    """The figures of an experiment, by the end of their file names."""
    if name == "round-robin":
        return {"loss": _grid(runs, LOSS, title), "accuracy": _grid(runs, ACCURACY, title)}
    if name == "random-response":
        return {"": _against_probability(runs, title)}
    return {"": _rows(runs[""], LAYOUTS[name](runs[""]), title, levels or {})}


def _two(*labels: str) -> list[tuple[str, Sequence[str]]]:
    return [(LOSS, labels), (ACCURACY, labels)]


Layout = list[list[tuple[str, Sequence[str]]]]
"""Rows of panels: what is drawn, and whose."""


def _cifar10(curves: Mapping[str, Curves]) -> Layout:
    return [_two(*BASELINES), _two(*BYZANTINE, *VARIANTS)]


def _synthetic(curves: Mapping[str, Curves]) -> Layout:
    silence: list[tuple[str, Sequence[str]]] = [("epsilon_t", (label,)) for label in VARIANTS]
    return [_two(*BASELINES), _two(*BASELINES[:-1]), silence, _two(*BYZANTINE, *VARIANTS)]


LAYOUTS: dict[str, Callable[[Mapping[str, Curves]], Layout]] = {
    "cifar10-0.8": _cifar10,
    "cifar10-0.2": _cifar10,
    "cifar10-long": lambda curves: [_two(*BYZANTINE)],
    "shakespeare-0.7": lambda curves: [_two("fedavg", "fedavg_variant", "mifa"), _two(*BYZANTINE)],
    "shakespeare-random": lambda curves: [_two("fedavg", "fedavg_variant")],
    "synthetic-0.9": _synthetic,
    "synthetic-0.7": _synthetic,
    "synthetic-long": lambda curves: [_two(*curves)],
}


def _rows(curves: Mapping[str, Curves], layout: Layout, title: str, levels: Levels) -> Figure:
    from matplotlib.figure import Figure

    heights = [1 if row[0][0] == "epsilon_t" else 3 for row in layout]
    figure = Figure(figsize=(12, 1.2 + 1.05 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(layout), 2, squeeze=False, height_ratios=heights)
    for row, axes_of_row in zip(layout, panels, strict=True):
        for (what, labels), axes in zip(row, axes_of_row, strict=True):
            there = [curves[label] for label in labels if label in curves]
            if what == "epsilon_t":
                _silence(axes, there)
            else:
                _lines(axes, there, what)
                _level_lines(axes, levels, what)
    if "synthetic-long" in title:
        _zoom(panels[0][0], curves)
    return _finished(figure, title)


def _grid(runs: Runs, what: str, title: str) -> Figure:
    """Rows by K, columns by r, in the order of the cells."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 10), layout="constrained")
    panels = figure.subplots(3, 3, sharex=True, sharey=True)
    for axes, (cell, curves) in zip(panels.flat, runs.items(), strict=True):
        _lines(axes, list(curves.values()), what)
        axes.set_title(cell.replace("-", ", ").replace("K", "K = ").replace("r", "r = "), loc="left")
    if what == LOSS:
        # Single spikes in a cell or a seed must not flatten nine panels: they leave them.
        means = [getattr(curve.scores, what).mean(0) for curves in runs.values() for curve in curves.values()]
        panels.flat[0].set_ylim(top=1.1 * float(np.nanpercentile(np.concatenate(means), 99)))
    return _finished(figure, f"{title}: {what.replace('_', ' ')}")


def _against_probability(runs: Runs, title: str) -> Figure:
    """The level over the last quarter of the run against the probability to answer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.6), layout="constrained")
    labels = list(dict.fromkeys(label for curves in runs.values() for label in curves))
    styles = styles_for(labels)
    for axes, what in zip(figure.subplots(1, 2), (LOSS, ACCURACY), strict=True):
        for label in labels:
            cells = [(float(cell.removeprefix("p")), curves[label]) for cell, curves in runs.items() if label in curves]
            chances = [chance for chance, _ in cells]
            values = np.array([level(curve, what) for _, curve in cells])
            colour, line = styles[label]
            axes.plot(chances, values.mean(1), color=colour, linestyle=line, marker="o", markersize=3, label=label)
            axes.fill_between(chances, values.min(1), values.max(1), color=colour, alpha=0.15, linewidth=0)
        axes.set_xlabel("probability to answer")
        axes.set_title(f"{what.replace('_', ' ')}, last quarter of the rounds", loc="left")
    return _finished(figure, title)


def _lines(axes: Axes, curves: Sequence[Curves], what: str) -> None:
    styles = styles_for([curve.label for curve in curves])
    for curve in curves:
        draw_curve(axes, curve.evaluated, getattr(curve.scores, what), styles[curve.label], curve.label)
    axes.set_title(what.replace("_", " "), loc="left")
    axes.set_xlabel("round")
    if what == LOSS and curves:
        # A rule that blows up must not flatten all others: the axis ends where they do, and the line leaves it.
        tops = sorted(float(np.nanmax(getattr(curve.scores, what).mean(0))) for curve in curves)
        finite = [top for top in tops if np.isfinite(top)]
        if finite and finite[-1] > 3 * finite[len(finite) // 2]:
            axes.set_ylim(top=1.3 * finite[len(finite) // 2])


def _level_lines(axes: Axes, levels: Levels, what: str) -> None:
    styles = styles_for([curve.label for curve in levels.values()])
    for called, curve in levels.items():
        colour, line = styles[curve.label]
        level_line = "-." if line == "-" else ":"  # an original and its variant have one colour
        axes.axhline(float(level(curve, what).mean()), color=colour, linestyle=level_line, linewidth=1, label=called)


def _silence(axes: Axes, curves: Sequence[Curves]) -> None:
    for curve in curves:
        rounds = np.arange(curve.epsilon_t.shape[1])
        used = curve.epsilon_t[0]
        axes.plot(rounds, used, color="#333333", linewidth=0.5)
        title = f"epsilon_t of {curve.label}, seed {curve.seeds[0]}, from {used.min():.2f} to {used.max():.2f}"
        axes.set_title(title, loc="left")
    axes.set_xlabel("round")
    axes.set_ylim(0, 1)


def _zoom(axes: Axes, curves: Mapping[str, Curves]) -> None:
    """The last quarter of originals and variants, one box a type."""
    for place, pair in enumerate((("fedavg", "fedavg_variant"), ("fedprox", "fedprox_variant"))):
        box = axes.inset_axes((0.5 + 0.27 * place, 0.58, 0.21, 0.32))
        _lines(box, [curves[label] for label in pair if label in curves], LOSS)
        last = max(curve.evaluated[-1] for curve in curves.values())
        box.set_xlim(0.75 * last, last)
        box.set_xticks([0.8 * last, 0.95 * last])
        tails = [getattr(curves[label].scores, LOSS)[:, curves[label].evaluated > 0.75 * last] for label in pair]
        box.set_ylim(min(tail.min() for tail in tails), max(tail.max() for tail in tails))
        box.set_title(" and ".join(pair), fontsize=7, loc="left")
        box.set_xlabel("")
        box.tick_params(labelsize=7)


def _finished(figure: Figure, title: str) -> Figure:
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure
