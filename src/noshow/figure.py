"""Curves of several runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noshow.divergence import in_words
from noshow.files import write_whole
from noshow.history import History

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One hue a family, solid for the member under test, dashed for its relative. Distinguishable without colour vision.
# A rule and its rule with buckets often coincide: the latter is darker and thinner, so that it shows on the former.
STYLES = {
    "fedavg_variant": ("#0072b2", "-"),
    "fedavg": ("#0072b2", "--"),
    "fedprox_variant": ("#d55e00", "-"),
    "fedprox": ("#d55e00", "--"),
    "mifa": ("#009e73", "-"),
    "gm": ("#cc79a7", "-"),
    "bucketing_gm": ("#a3156b", "--"),
    "cclip": ("#999999", "-"),
    "bucketing_cclip": ("#000000", ":"),
}
WIDTH = 1.4
WIDTHS = {"gm": 3.6, "cclip": 2.6, "bucketing_gm": 1.7, "bucketing_cclip": 1.1}
"""Thinner lines lie over wider ones, so that all four show where they coincide."""
SPARE_COLOURS = ("#e69f00", "#56b4e9", "#8c564b", "#7f7f00", "#1b1b9c")


def compare(histories: Sequence[History], title: str = "") -> Figure:
    """Train loss (log), test accuracy and epsilon_t; lines are means over seeds, bands from the lowest to the highest.

    Example:
        >>> import noshow as ns
        >>> history = ns.simulate(ns.datasets.synthetic(clients=8, sizes=40), ns.models.logistic(),
        ...                       ns.algorithms.fedavg(0.01, steps=2), sampled=4, rounds=4, evaluate_every=2)
        >>> figure = history.plot()
    """
    # Not pyplot: it keeps every figure alive and may want a screen.
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(11, 6.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 1))
    loss, accuracy, used = (
        figure.add_subplot(grid[0, 0]),
        figure.add_subplot(grid[0, 1]),
        figure.add_subplot(grid[1, :]),
    )
    styles = styles_for([history.algorithm for history in histories])
    for history in histories:
        diverged = in_words(history.diverged_at)
        label = f"{history.algorithm} ({diverged})" if diverged else history.algorithm
        for axes, values in ((loss, history.scores.train_loss), (accuracy, history.scores.test_accuracy)):
            draw_curve(axes, history.evaluated, values, styles[history.algorithm], label, width_for(history.algorithm))
    loss.set_yscale("log")
    loss.yaxis.set_major_formatter("{x:g}")
    loss.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    loss.yaxis.set_minor_formatter("{x:g}")
    loss.set_title("train loss", loc="left")
    accuracy.set_title("test accuracy", loc="left")
    _roll_call(used, histories[0])
    for axes in (loss, accuracy, used):
        axes.set_xlabel("round")
        axes.margins(x=0)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = loss.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)), frameon=False)
    if title:
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def keep_figure(file: Path, figure: Figure, dpi: int = 150) -> None:
    """Write a figure as a PNG file, whole or not at all."""
    write_whole(file, lambda part: figure.savefig(part, dpi=dpi, format="png"))


def styles_for(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a line for each name: the nine algorithms' own, spare ones for others."""
    own = [name for name in names if name not in STYLES]
    spare = {
        name: (SPARE_COLOURS[k % len(SPARE_COLOURS)], ("-", "-.")[k // len(SPARE_COLOURS) % 2])
        for k, name in enumerate(own)
    }
    return STYLES | spare


def width_for(name: str) -> float:
    """How wide an algorithm's line is."""
    return WIDTHS.get(name, WIDTH)


DIVERGED = "×"


def draw_curve(
    axes: Axes, evaluated: np.ndarray, values: Any, style: tuple[str, str], label: str, width: float = WIDTH
) -> None:
    """Mean and band over seeds. Where a seed diverges the curve ends in a cross: a mean of those left would flatter."""
    colour, line = style
    values = np.asarray(values, np.float64)
    mean = values.mean(0)
    axes.plot(evaluated, mean, color=colour, linestyle=line, linewidth=width, label=label, zorder=3 - width / 10)
    if len(values) > 1:
        axes.fill_between(evaluated, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)
    if np.isnan(mean).any():
        last = max(0, int(np.isnan(mean).argmax()) - 1)
        axes.text(evaluated[last], mean[last], DIVERGED, color=colour, ha="center", va="center", fontweight="bold")


def _roll_call(axes: Axes, history: History) -> None:
    used = history.roll_call.epsilon_t[0]
    axes.plot(np.arange(len(used)), used, ".", color="#333333", markersize=2, alpha=0.6)
    axes.set_title(f"share of the data silenced, epsilon_t ({history.algorithm}, seed {history.seeds[0]})", loc="left")
    if history.roll_call.epsilon is not None:
        axes.axhline(history.roll_call.epsilon, color="#b00020", linewidth=1)
        axes.text(
            1.0,
            history.roll_call.epsilon,
            " the law",
            color="#b00020",
            va="center",
            transform=axes.get_yaxis_transform(),
        )
    axes.set_ylim(bottom=0)
