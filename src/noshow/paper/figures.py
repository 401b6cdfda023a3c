"""The paper's figures, drawn from results as the paper lays them out: train loss left, test accuracy right.

Lines are means over seeds, bands go from the lowest seed to the highest; epsilon_t is that of the first seed. A line
ends in a cross where a seed diverges. What a panel leaves out, and seeds that learn nothing, are told above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from noshow.figure import draw_curve, styles_for, width_for
from noshow.paper.readings import ACCURACY, LOSS, TAIL, level
from noshow.paper.results import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VARIANTS = ("fedavg_variant", "fedprox_variant")
BASELINES = ("fedavg", "fedavg_variant", "fedprox", "fedprox_variant", "mifa")
BYZANTINE = ("gm", "cclip", "bucketing_gm", "bucketing_cclip")
SILENCE, END = "epsilon_t", "end"
FIRST = 100
"""Rounds in which a loss may jump; where that would flatten all that follows, it leaves the panel."""
BLOWN_UP = 100.0
"""A rule with so many times the loss of others is not drawn to its end."""
LONG = 5.5
"""Levels that reach over so many times the lowest are drawn on a logarithmic axis."""
TALL = 3.0
"""A panel so many times as high as the levels in it is cut."""
SMOOTHED = 50
"""Rounds over which the share of the silenced data is averaged."""
FEW = 5
"""So few equal evaluations may be chance."""
NOTHING_LEARNT = 0.03
"""The accuracy of a model that learns nothing may be so far from what it began with."""
ALIKE = 0.01
"""Lines that are mostly within this share of their height are told to coincide."""
NOTE: dict[str, Any] = {"fontsize": 8, "color": "#666666"}
LAW = "#b00020"

Runs = Mapping[str, Mapping[str, Curves]]
"""The curves of each cell of an experiment, by label; a plain experiment has the one cell `""`."""
Levels = Mapping[str, Curves]
"""Curves of this or another experiment whose last quarter is drawn as a line, by what the line is called."""


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
                _silence(axes, there, law)
            elif what == END:
                _end(axes, there)
            else:
                _lines(axes, there, what)
                _level_lines(axes, levels, what)
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
            _note(axes, fill(_stuck(curves.values()), 30))
    for axes in panels[-1]:
        axes.set_xlabel("round")
    cut = ""
    if what == LOSS:
        # Single spikes in a cell or a seed must not flatten nine panels: they leave them.
        drawn = [getattr(curve.scores, what) for curves in runs.values() for curve in curves.values()]
        top = 1.1 * float(np.percentile(_finite(np.concatenate([values.mean(0) for values in drawn])), 99))
        every = _finite(np.concatenate([values.ravel() for values in drawn]))
        panels.flat[0].set_ylim(0.95 * every.min(), top)
        cut = f", cut at {top:.1f}: spikes leave the panels and reach {every.max():.3g}" if every.max() > top else ""
    return _finished(figure, f"{title}: {what.replace('_', ' ')}{cut}")


ROOT, ONE = "-beta-root", "-beta-1"
CALLED = {ROOT: ", beta = sqrt(M/K)", ONE: ", beta = 1"}
BETA_WIDTHS = {f"fedavg_variant{ROOT}": 2.6, f"fedprox_variant{ROOT}": 1.8}
"""The wider line of a variant is that of beta = sqrt(M/K); FedAvg's, which the paper says wins, stands out."""


def _with_beta(axes: Axes, curve: Curves, what: str) -> None:
    """A variant has one colour and line whatever its beta, which the width tells."""
    end = next((end for end in CALLED if curve.label.endswith(end)), "")
    family = curve.label.removesuffix(end)
    width = BETA_WIDTHS.get(curve.label, 0.9)
    values = getattr(curve.scores, what)
    draw_curve(axes, curve.evaluated, values, styles_for([family])[family], family + CALLED.get(end, ""), width)
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
            _note(axes, _stuck_at(runs, labels))
    return _finished(figure, title)


def _curves(axes: Axes, curves: Sequence[Curves], what: str) -> None:
    styles = styles_for([curve.label for curve in curves])
    for curve in curves:
        values = getattr(curve.scores, what)
        draw_curve(axes, curve.evaluated, values, styles[curve.label], curve.label, width_for(curve.label))


def _lines(axes: Axes, curves: Sequence[Curves], what: str) -> None:
    _curves(axes, curves, what)
    axes.set_title(what.replace("_", " "), loc="left")
    if _coincide(curves, what):
        _note(axes, "all lines coincide")
    elif what == ACCURACY:
        _note(axes, _stuck(curves))
    if what == LOSS:
        _frame(axes, curves)


def _frame(axes: Axes, curves: Sequence[Curves]) -> None:
    """Let a panel of losses show how levels compare: what would flatten them leaves it, and a note says so."""
    drawn = [np.asarray(curve.scores.train_loss, np.float64) for curve in curves]
    later = [_finite(values.mean(0)[_settling(curve)]) for curve, values in zip(curves, drawn, strict=True)]
    tops = sorted(float(means.max()) for means in later if means.size)
    if not tops:
        return
    usual = tops[(len(tops) - 1) // 2]
    kept = [k for k, means in enumerate(later) if means.size and means.max() <= BLOWN_UP * usual]
    settled = np.concatenate([later[k] for k in kept])
    high = float(np.percentile(settled, 95))  # not the highest: a spike is none of the levels
    whole = max(float(_finite(drawn[k]).max()) for k in kept)
    lowest = min(float(_finite(values).min()) for values in drawn if _finite(values).size)
    if lowest > 0 and high > LONG * settled.min():
        _logarithmic(axes)
        top = 1.1 * whole
    else:
        top = 1.05 * whole if whole <= TALL * high else 1.15 * high
    if top > lowest:
        axes.set_ylim(0.95 * lowest, top)
    highest = max(float(values.max()) for values in map(_finite, drawn) if values.size)
    if highest > top:
        _note(axes, f"cut: what leaves the panel reaches {highest:.3g}")


def _coincide(curves: Sequence[Curves], what: str) -> bool:
    """Whether several lines lie on each other at most evaluations."""
    means = [getattr(curve.scores, what).mean(0) for curve in curves]
    if len(means) < 2 or len({len(mean) for mean in means}) > 1 or not np.isfinite(means).all():
        return False
    return bool(np.median(np.ptp(means, axis=0)) <= ALIKE * np.ptp(means))


def _settling(curve: Curves) -> np.ndarray:
    """Which evaluations come after the first rounds."""
    after: np.ndarray = curve.evaluated > min(FIRST, curve.evaluated[-1] // 6)
    return after


def _finite(values: np.ndarray) -> np.ndarray:
    chosen: np.ndarray = values[np.isfinite(values)]
    return chosen


def _logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.set_title("train loss, logarithmic", loc="left")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _stuck(curves: Iterable[Curves]) -> str:
    """Which curves have seeds that learn nothing for a quarter of the rounds, which widens their bands."""
    told = []
    for curve in curves:
        quarters = np.array_split(np.arange(len(curve.evaluated)), 4)
        held = np.array([_held(curve, quarter) for quarter in quarters])
        if np.isfinite(held).any():
            last = int(np.flatnonzero(np.isfinite(held).any(1))[-1])
            told.append(f"{_seeds_at(curve.label, held)} up to round {curve.evaluated[quarters[last][-1]]}")
    return "\n".join(told)


def _stuck_at(runs: Runs, labels: Sequence[str]) -> str:
    """The same for the last quarter alone, with the probabilities at which it is so."""
    told = []
    for label in labels:
        held = {cell: _held(curves[label], _in_tail(curves[label])) for cell, curves in runs.items() if label in curves}
        stuck = {cell: seeds for cell, seeds in held.items() if np.isfinite(seeds).any()}
        told += [f"{_seeds_at(label, seeds[None])} for {cell.replace('p', 'p = ')}" for cell, seeds in stuck.items()]
    return "\n".join(told)


def _seeds_at(label: str, held: np.ndarray) -> str:
    """In words, from what each seed was held at [quarters, seeds]."""
    return f"{label}: {np.isfinite(held).any(0).sum()} of {held.shape[1]} seeds stuck at {np.nanmin(held):.2f}"


def _held(curve: Curves, chosen: np.ndarray) -> np.ndarray:
    """What the accuracy of a seed is held at in more than half of these evaluations, no number if it is not [seeds].

    That is what a model that gives one answer whatever it is asked gets; it is near what it began with.
    """
    accuracy = np.asarray(curve.scores.test_accuracy, np.float64)
    held = np.full(len(accuracy), np.nan)
    rows = accuracy[:, chosen]
    for seed, row in enumerate(rows if rows.shape[1] > FEW else ()):
        values, counts = np.unique(row, return_counts=True)
        most = values[counts.argmax()]
        if counts.max() > max(len(row) / 2, FEW) and abs(most - accuracy[seed, 0]) < NOTHING_LEARNT:
            held[seed] = most
    return held


def _in_tail(curve: Curves) -> np.ndarray:
    chosen: np.ndarray = curve.evaluated > TAIL * curve.evaluated[-1]
    return chosen


def _note(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="right", **NOTE)


def _level_lines(axes: Axes, levels: Levels, what: str) -> None:
    styles = styles_for([curve.label for curve in levels.values()])
    values = {called: float(level(curve, what).mean()) for called, curve in levels.items()}
    for called, curve in levels.items():
        colour, line = styles[curve.label]
        level_line = "-." if line == "-" else ":"  # an original and its variant have one colour
        axes.axhline(values[called], color=colour, linestyle=level_line, linewidth=1, label=called)
        # Two levels may be close to each other: their names go apart.
        side = "center" if len(values) == 1 else "bottom" if values[called] == max(values.values()) else "top"
        where, beside = (1.01, values[called]), axes.get_yaxis_transform()
        axes.text(*where, f"level of\n{curve.label}", color=colour, fontsize=8, va=side, transform=beside)
    if levels:
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.95 * min(values.values())), max(high, 1.05 * max(values.values())))


def _silence(axes: Axes, curves: Sequence[Curves], law: float | None) -> None:
    for curve in curves:
        used = curve.epsilon_t[0]
        rounds = np.arange(len(used))
        (dots,) = axes.plot(rounds, used, ".", color="#333333", label="epsilon_t of a round")
        dots.set(markersize=2.4, alpha=0.45, markeredgewidth=0)
        if len(used) >= SMOOTHED:
            means = np.convolve(used, np.full(SMOOTHED, 1 / SMOOTHED), "valid")
            axes.plot(rounds[SMOOTHED - 1 :], means, color="#000000", label=f"mean of the last {SMOOTHED} rounds")
        title = f"epsilon_t of {curve.label}, seed {curve.seeds[0]}, from {used.min():.2f} to {used.max():.2f}"
        axes.set_title(title, loc="left")
    if law is not None:
        axes.axhline(law, color=LAW, linewidth=1, label="the law, epsilon")
    axes.set_ylim(0, 1)


def _end(axes: Axes, curves: Sequence[Curves]) -> None:
    """The last quarter, as high as its own losses."""
    _curves(axes, curves, LOSS)
    axes.set_title(f"train loss of {' and '.join(curve.label for curve in curves)}, last quarter", loc="left")
    tails = [_finite(curve.scores.train_loss[:, _in_tail(curve)]) for curve in curves]
    if any(tail.size for tail in tails):
        shown = np.concatenate(tails)
        axes.set_xlim(TAIL * curves[0].evaluated[-1], curves[0].evaluated[-1])
        axes.set_ylim(0.97 * shown.min(), 1.03 * shown.max())


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
