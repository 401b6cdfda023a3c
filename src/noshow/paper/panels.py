"""One panel of a figure: curves, levels, epsilon_t. What it leaves out is told above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from noshow.figure import draw_curve, styles_for, width_for
from noshow.paper.readings import ACCURACY, LOSS, TAIL, level
from noshow.paper.results import Curves
from noshow.paper.stuck import in_tail, stuck

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Levels = Mapping[str, Curves]
"""Curves of this or another experiment whose last quarter is drawn as a line, by what the line is called."""
FIRST = 100
"""Rounds in which a loss may jump; where that would flatten all that follows, it leaves the panel."""
BLOWN_UP = 100.0
"""A rule with so many times the loss of others is not drawn to its end."""
LONG = 5.5
"""Levels that reach over so many times the lowest are drawn on a logarithmic axis."""
TALL = 3.0
"""A panel so many times as high as the levels in it is cut."""
ALIKE = 0.01
"""Lines that are mostly within this share of their height are told to coincide."""
SMOOTHED = 50
"""Rounds over which the share of the silenced data is averaged."""
NOTE: dict[str, Any] = {"fontsize": 8, "color": "#666666"}
LAW = "#b00020"


def scores_of(axes: Axes, curves: Sequence[Curves], what: str) -> None:
    _curves(axes, curves, what)
    axes.set_title(what.replace("_", " "), loc="left")
    if _coincide(curves, what):
        note(axes, "all lines coincide")
    elif what == ACCURACY:
        note(axes, stuck(curves))
    if what == LOSS:
        _frame(axes, curves)


def level_lines(axes: Axes, levels: Levels, what: str) -> None:
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


def silence(axes: Axes, curves: Sequence[Curves], law: float | None) -> None:
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


def end(axes: Axes, curves: Sequence[Curves]) -> None:
    """The last quarter, as high as its own losses."""
    _curves(axes, curves, LOSS)
    axes.set_title(f"train loss of {' and '.join(curve.label for curve in curves)}, last quarter", loc="left")
    tails = [finite(curve.scores.train_loss[:, in_tail(curve)]) for curve in curves]
    if any(tail.size for tail in tails):
        shown = np.concatenate(tails)
        axes.set_xlim(TAIL * curves[0].evaluated[-1], curves[0].evaluated[-1])
        axes.set_ylim(0.97 * shown.min(), 1.03 * shown.max())


def note(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="right", **NOTE)


def _curves(axes: Axes, curves: Sequence[Curves], what: str) -> None:
    styles = styles_for([curve.label for curve in curves])
    for curve in curves:
        values = getattr(curve.scores, what)
        draw_curve(axes, curve.evaluated, values, styles[curve.label], curve.label, width_for(curve.label))


def _coincide(curves: Sequence[Curves], what: str) -> bool:
    """Whether several lines lie on each other at most evaluations."""
    means = [getattr(curve.scores, what).mean(0) for curve in curves]
    if len(means) < 2 or len({len(mean) for mean in means}) > 1 or not np.isfinite(means).all():
        return False
    return bool(np.median(np.ptp(means, axis=0)) <= ALIKE * np.ptp(means))


def _frame(axes: Axes, curves: Sequence[Curves]) -> None:
    """Let a panel of losses show how levels compare: what would flatten them leaves it, and a note says so."""
    drawn = [np.asarray(curve.scores.train_loss, np.float64) for curve in curves]
    later = [finite(values.mean(0)[_settling(curve)]) for curve, values in zip(curves, drawn, strict=True)]
    tops = sorted(float(means.max()) for means in later if means.size)
    if not tops:
        return
    usual = tops[(len(tops) - 1) // 2]
    kept = [k for k, means in enumerate(later) if means.size and means.max() <= BLOWN_UP * usual]
    settled = np.concatenate([later[k] for k in kept])
    high = float(np.percentile(settled, 95))  # not the highest: a spike is none of the levels
    whole = max(float(finite(drawn[k]).max()) for k in kept)
    lowest = min(float(finite(values).min()) for values in drawn if finite(values).size)
    if lowest > 0 and high > LONG * settled.min():
        _logarithmic(axes)
        top = 1.1 * whole
    else:
        top = 1.05 * whole if whole <= TALL * high else 1.15 * high
    if top > lowest:
        axes.set_ylim(0.95 * lowest, top)
    highest = max(float(values.max()) for values in map(finite, drawn) if values.size)
    if highest > top:
        note(axes, f"cut: what leaves the panel reaches {highest:.3g}")


def _settling(curve: Curves) -> np.ndarray:
    """Which evaluations come after the first rounds."""
    after: np.ndarray = curve.evaluated > min(FIRST, curve.evaluated[-1] // 6)
    return after


def finite(values: np.ndarray) -> np.ndarray:
    chosen: np.ndarray = values[np.isfinite(values)]
    return chosen


def _logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.set_title("train loss, logarithmic", loc="left")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
