"""The picture of a run between the floor and the ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noshow.figure import styles_for
from noshow.measured import Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(measured: Measured, title: str) -> Figure:
    """Mean square gradients so far over rounds, both axes logarithmic; the ceilings above, the floor below.

    Lines are means over seeds, bands from the lowest to the highest; a ceiling is dotted, in its algorithm's colour.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.2), layout="constrained")
    axes = figure.add_subplot()
    styles = styles_for(list(measured.played))
    for label, run in measured.played.items():
        colour, line = styles[label]
        values = run.diagnostics.mean_square_gradient
        rounds = np.arange(1, values.shape[1] + 1)
        axes.plot(rounds, values.mean(0), color=colour, linestyle=line, linewidth=1.4, label=label)
        if len(values) > 1:
            axes.fill_between(rounds, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)
        bound = measured.ceilings[label].bound
        if bound is not None:
            axes.plot(rounds, bound, color=colour, linestyle=":", linewidth=1.8, label=f"ceiling of {label}")
    if measured.floor > 0:
        axes.axhline(measured.floor, color="#b00020", linewidth=1.2, label="floor of the worst such problem")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rounds")
    axes.set_title("mean of $\\|\\nabla F(\\theta_t)\\|^2$ so far, weighted by $\\eta_t$", loc="left")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure
