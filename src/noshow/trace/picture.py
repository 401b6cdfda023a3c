"""A trace as a picture: clients and rounds, and each client's total."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noshow.trace.file import Trace, printable
from noshow.trace.presence import HAS_ANSWERED, IS_SILENT, NOT_CALLED, presence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue and vermilion differ in lightness too, so they are told apart without colour vision and in print.
COLOURS = {HAS_ANSWERED: "#56b4e9", IS_SILENT: "#b33c00", NOT_CALLED: "#f4f4f4"}
WORDS = {HAS_ANSWERED: "answered", IS_SILENT: "silent", NOT_CALLED: "not called"}
MOST_DRAWN = 2**26
"""A cell of a picture takes up to 60 bytes, so 4 GB."""
MOST_NAMED = 40
"""Up to so many clients, each has its name and its total beside it."""


def picture(trace: Trace, title: str = "") -> Figure:
    """Who answered in which round, a line a client, and beside it how often it answered and was silent.

    Example:
        >>> from datetime import datetime, UTC
        >>> from noshow.trace import Entry
        >>> now = datetime(2030, 1, 1, tzinfo=UTC)
        >>> figure = picture(Trace.of([Entry(1, "a", "answered", "", 50, now)]))
    """
    # Not pyplot: it keeps every figure alive and may want a screen.
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    table = presence(trace, MOST_DRAWN)
    clients = table.shape[1]
    height = 1.6 + (0.22 * clients if clients <= MOST_NAMED else 8.0)
    figure = Figure(figsize=(11, max(height, 3.0)), layout="constrained")
    cells, totals = figure.subplots(1, 2, sharey=True, width_ratios=(5, 1))
    _draw_cells(cells, table, int(trace.rounds[0]))
    _draw_totals(totals, table)
    if clients <= MOST_NAMED:
        cells.set_yticks(np.arange(clients), [_short(name) for name in trace.names], fontsize=8)
    else:
        cells.set_ylabel(f"{clients} clients, in the order of their names")
    handles = [Patch(facecolor=COLOURS[status], edgecolor="#999999", label=WORDS[status]) for status in COLOURS]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    if title:
        figure.suptitle(title, x=0.01, ha="left", parse_math=False)
    return figure


def _draw_cells(axes: Axes, table: np.ndarray, first: int) -> None:
    from matplotlib.colors import to_rgba_array
    from matplotlib.ticker import MaxNLocator

    shades = np.zeros((*table.shape, 3), np.uint8)
    for status, colour in COLOURS.items():
        shades[table == status] = np.rint(255 * to_rgba_array(colour)[0, :3])
    rounds, clients = table.shape
    axes.imshow(shades.swapaxes(0, 1), aspect="auto", extent=(first - 0.5, first + rounds - 0.5, clients - 0.5, -0.5))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")


def _draw_totals(axes: Axes, table: np.ndarray) -> None:
    from matplotlib.ticker import MaxNLocator

    clients = table.shape[1]
    answered, calls = (table == HAS_ANSWERED).sum(0), (table != NOT_CALLED).sum(0)
    edges = np.arange(clients + 1) - 0.5
    for status, totals, start in ((HAS_ANSWERED, answered, 0), (IS_SILENT, calls, answered)):
        axes.stairs(totals, edges, baseline=start, orientation="horizontal", fill=True, color=COLOURS[status])
    if clients <= MOST_NAMED:
        for place, (came, called) in enumerate(zip(answered.tolist(), calls.tolist(), strict=True)):
            axes.text(called, place, f" {came} of {called}", va="center", fontsize=8)
        axes.set_xlim(0, 1.5 * calls.max())
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlabel("answered, of calls")
    axes.spines[["top", "right"]].set_visible(False)


def _short(name: str) -> str:
    """A name as a label: long ones are cut, and a dollar is no formula."""
    short = name if len(name) <= 24 else f"{name[:11]}…{name[-11:]}"
    return printable(short).replace("$", r"\$")
