"""How a claim in words becomes a number: small pure functions of curves, one number a seed.

Seeds are paired: seed s of every algorithm has the same samples, batches and silences, so algorithms are compared
seed by seed. The *spread* is the sample standard deviation over seeds; one seed has none. The *tail* is the last
quarter of a run.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from noshow.paper.results import Curves

LOSS, ACCURACY = "train_loss", "test_accuracy"
TAIL = 0.75
CLOSE = {ACCURACY: 0.01, LOSS: 0.05}
"""What counts as similar: 0.01 of accuracy, 5 % of the smaller loss."""
FAR = 3.0
"""How many spreads a large difference has."""
RISEN = 1.1
"""How many times its lowest a loss is when it has risen again."""

Verdict = Literal["holds", "does not hold", "depends", "not decidable", "not run", "no measurement"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
OPEN: Verdict = "not decidable"


def level(curve: Curves, what: str, since: float = TAIL, until: float = 1.0) -> np.ndarray:
    """The mean over the evaluations after `since` and up to `until` of the run's length [seeds].

    Example:
        >>> level(example(accuracy=[[0.0, 0.1, 0.2, 0.3, 0.5]]), ACCURACY, since=0.5).round(3).tolist()
        [0.4]
    """
    return _part(curve, what, since, until)[1].mean(1)


def spread(values: np.ndarray) -> float:
    """The sample standard deviation over seeds; no number where there is one seed.

    Example:
        >>> spread(np.array([1.0, 2.0, 3.0])), spread(np.array([1.0]))
        (1.0, nan)
    """
    if len(values) == 1:
        return float("nan")
    return float(np.std(values, ddof=1)) if np.isfinite(values).all() else float("inf")


def gain(mine: np.ndarray, theirs: np.ndarray, what: str) -> np.ndarray:
    """How much better my levels are, seed by seed: more accuracy or less loss. A loss that is no number is infinite.

    Example:
        >>> gain(np.array([1.0, 2.0]), np.array([1.5, np.nan]), LOSS).tolist()
        [0.5, inf]
    """
    if what == ACCURACY:
        return mine - theirs
    own, other = (np.where(np.isnan(values), np.inf, values) for values in (mine, theirs))
    with np.errstate(invalid="ignore"):
        return other - own


def yardstick(gains: np.ndarray, close: float) -> float:
    """What a mean gain is held against: its own spread, or, where one seed has none, what counts as similar.

    Example:
        >>> yardstick(np.array([1.0, 2.0, 3.0]), close=0.5), yardstick(np.array([1.0]), close=0.5)
        (1.0, 0.5)
    """
    return close if len(gains) == 1 else spread(gains)


def beats(gains: np.ndarray, close: float = float("inf")) -> Verdict:
    """Whether the gain has one sign in every seed and a mean above its own spread; undecided where it has not.

    One seed has no spread: its gain must be above `close`, the difference that counts as similar (see `near`).

    Example:
        >>> beats(np.array([0.2, 0.3, 0.1])), beats(np.array([-0.2, -0.3, -0.1])), beats(np.array([0.2, 0.3, -0.1]))
        ('holds', 'does not hold', 'not decidable')
        >>> beats(np.array([0.02]), close=0.01), beats(np.array([0.02]))
        ('holds', 'not decidable')
    """
    if _clear(gains, close):
        return HOLDS
    return FAILS if _clear(-gains, close) else OPEN


def beats_by_far(mine: np.ndarray, theirs: np.ndarray, what: str) -> Verdict:
    """Whether mine beat theirs by more than three times the larger of the two spreads.

    Example:
        >>> beats_by_far(np.array([0.5, 0.52]), np.array([0.1, 0.12]), ACCURACY)
        'holds'
    """
    gains = gain(mine, theirs, what)
    return HOLDS if beats(gains) == HOLDS and spreads_apart(mine, theirs, what) > FAR else FAILS


def spreads_apart(mine: np.ndarray, theirs: np.ndarray, what: str) -> float:
    """The mean gain in units of the larger spread.

    Example:
        >>> round(spreads_apart(np.array([4.0, 5.0, 6.0]), np.array([1.0, 1.0, 1.0]), ACCURACY), 3)
        4.0
    """
    wide = max(spread(mine), spread(theirs))
    mean = float(gain(mine, theirs, what).mean())
    return mean / wide if wide > 0 else float(np.sign(mean)) * float("inf")


def similar(mine: np.ndarray, theirs: np.ndarray, what: str) -> tuple[Verdict, str]:
    """Whether two algorithms' levels are alike, and by which measure.

    The mean difference is within 0.01 of accuracy or 5 % of the smaller loss. Levels that are neither alike nor clearly
    apart are undecided: that seeds scatter widely makes nobody alike.

    Example:
        >>> similar(np.array([0.50, 0.51]), np.array([0.505, 0.507]), ACCURACY)
        ('holds', 'within 0.01')
        >>> similar(np.array([1.5, 2.0]), np.array([1.2, 2.1]), LOSS)
        ('not decidable', 'between alike and apart')
    """
    gains = gain(mine, theirs, what)
    if abs(float(gains.mean())) <= near(mine, theirs, what):
        return HOLDS, "within 0.01" if what == ACCURACY else "within 5 %"
    undecided = beats(gains, near(mine, theirs, what)) == OPEN
    return (OPEN, "between alike and apart") if undecided else (FAILS, "apart")


def near(mine: np.ndarray, theirs: np.ndarray, what: str) -> float:
    """The difference that counts as similar.

    Example:
        >>> near(np.array([2.0, 2.0]), np.array([3.0, 3.0]), LOSS)
        0.1
    """
    return CLOSE[what] * (1.0 if what == ACCURACY else min(abs(float(mine.mean())), abs(float(theirs.mean()))))


def roughness(curve: Curves, what: str, since: float = TAIL) -> np.ndarray:
    """The standard deviation of the tail around its own straight line [seeds]; infinite where a loss is no number.

    The line is taken off so that a curve that still falls, but evenly, is not rough.

    Example:
        >>> curve = example(loss=[[9, 4, 3, 2, 1, 0], [9, 4, 4, 2, 2, 0]])
        >>> roughness(curve, LOSS, since=0).round(3).tolist()
        [0.0, 0.49]
    """
    times, values = _part(curve, what, since, 1.0)
    return np.array([_around_line(times, row) for row in values])


def steps(curve: Curves, what: str) -> np.ndarray:
    """The second reading of roughness: the median change between successive evaluations [seeds].

    After the first 100 rounds, or the first sixth of a short run.

    Example:
        >>> steps(example(loss=[[9, 4, 4, 2, 2, 1]]), LOSS).tolist()
        [0.5]
    """
    after = min(100, curve.evaluated[-1] // 6)
    values = np.asarray(getattr(curve.scores, what), np.float64)[:, curve.evaluated > after]
    with np.errstate(invalid="ignore"):
        moves = np.abs(np.diff(values, axis=1))
    return np.median(np.where(np.isnan(moves), np.inf, moves), axis=1)


def lower(mine: np.ndarray, theirs: np.ndarray, times: float = 1.0) -> Verdict:
    """Whether `times` mine is below theirs in every seed; undecided where seeds disagree.

    Example:
        >>> lower(np.array([1.0, 2.0]), np.array([2.0, 3.0])), lower(np.array([1.0, 2.0]), np.array([2.0, 1.0]))
        ('holds', 'not decidable')
    """
    if (times * mine < theirs).all():
        return HOLDS
    return FAILS if (times * mine >= theirs).all() else OPEN


def later(mine: np.ndarray, theirs: np.ndarray, apart: float) -> Verdict:
    """Whether mine need more rounds than theirs by more than evaluations are `apart`; undecided where seeds disagree.

    Example:
        >>> later(np.array([90.0]), np.array([60.0]), apart=15), later(np.array([75.0]), np.array([60.0]), apart=15)
        ('holds', 'does not hold')
        >>> later(np.array([90.0, 30.0]), np.array([60.0, np.inf]), apart=15)
        'not decidable'
    """
    more = mine > theirs + apart
    if more.all():
        return HOLDS
    return OPEN if more.any() else FAILS


def drift(curve: Curves, what: str) -> np.ndarray:
    """By how much the tail's straight line falls or rises over the tail [seeds].

    Example:
        >>> drift(example(loss=[[9, 9, 9, 9, 9, 9, 5, 4, 3]]), LOSS).round(3).tolist()
        [-1.0]
    """
    times, values = _part(curve, what, TAIL, 1.0)
    return np.array([_slope(times, row) * (times[-1] - times[0]) for row in values])


def converged(curve: Curves, what: str) -> np.ndarray:
    """Whether the tail has come to rest [seeds], by what counts as similar.

    It swings by no more, and in a run twice as long it would drift by no more: the tail is a quarter of the run. A
    drift below the roughness cannot be told from it.

    Example:
        >>> falling, resting, restless = [5, 4.95, 4.9, 4.85, 4.8], [5, 4.9, 5, 4.9, 5], [5, 4, 6, 4, 5]
        >>> converged(example(loss=[[9] * 15 + tail for tail in (falling, resting, restless)]), LOSS).tolist()
        [False, True, False]
    """
    moves, rough, close = np.abs(drift(curve, what)), roughness(curve, what), near_itself(curve, what)
    still: np.ndarray = (rough <= close) & ((moves <= rough) | (moves <= close * (1 - TAIL)))
    return still


def near_itself(curve: Curves, what: str) -> np.ndarray:
    """The difference that counts as similar to the curve's own level [seeds]."""
    own = level(curve, what)
    return np.full(len(own), CLOSE[what]) if what == ACCURACY else CLOSE[what] * np.abs(own)


def rounds_to(curve: Curves, what: str, target: np.ndarray) -> np.ndarray:
    """The round at which the mean of the last five evaluations first reaches the target [seeds]; infinite if never.

    Example:
        >>> rounds_to(example(loss=[[9, 9, 9, 9, 9, 4, 4]]), LOSS, np.array([8.0])).tolist()
        [50.0]
    """
    values = np.asarray(getattr(curve.scores, what), np.float64)
    running = np.lib.stride_tricks.sliding_window_view(values, 5, axis=1).mean(-1)
    there = running >= target[:, None] if what == ACCURACY else running <= target[:, None]
    first = curve.evaluated[4:][there.argmax(1)].astype(np.float64)
    return np.where(there.any(1), first, np.inf)


def lowest_eighth(curve: Curves) -> float:
    """The lowest that the train loss is over an eighth of the run, on average over seeds.

    Example:
        >>> lowest_eighth(example(loss=[[9, 9, 9, 5, 3, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]]))
        2.0
    """
    return min(float(level(curve, LOSS, k / 8, (k + 1) / 8).mean()) for k in range(8))


def risen(curve: Curves) -> bool:
    """Whether the train loss ends well above what it was in some eighth of the run.

    Example:
        >>> falling = [9, 9, 9, 5, 3, 2, 2, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2]
        >>> risen(example(loss=[falling])), risen(example(loss=[falling[:-4] + [6, 6, 7, 7]]))
        (False, True)
    """
    return float(level(curve, LOSS).mean()) > RISEN * lowest_eighth(curve)


def rank_correlation(ours: np.ndarray, others: np.ndarray) -> float:
    """Spearman's: the correlation of the ranks, equal numbers sharing theirs; no number where all are equal.

    Example:
        >>> rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([5.0, 6.0, 7.0]))
        1.0
    """
    mine, theirs = (np.array([(row < x).sum() + (row == x).sum() / 2 for x in row]) for row in (ours, others))
    if np.ptp(mine) == 0 or np.ptp(theirs) == 0:
        return float("nan")
    return round(float(np.corrcoef(mine, theirs)[0, 1]), 12)


def example(loss: object = None, accuracy: object = None) -> Curves:
    """Curves with an evaluation every ten rounds, for examples and tests; what is left out is zero."""
    from noshow.evaluate import Metrics

    rows = np.asarray(loss if loss is not None else accuracy, np.float64)
    nothing = np.zeros_like(rows)
    scores = Metrics(rows if loss is not None else nothing, nothing, rows if accuracy is not None else nothing)
    rounds = np.zeros((len(rows), 10 * (rows.shape[1] - 1)))
    return Curves("example", np.arange(len(rows)), 10 * np.arange(rows.shape[1]), scores, rounds, rounds)


def _clear(gains: np.ndarray, close: float) -> bool:
    if not (gains > 0).all():
        return False
    return bool(np.isinf(gains).any() or gains.mean() > yardstick(gains, close))


def _part(curve: Curves, what: str, since: float, until: float) -> tuple[np.ndarray, np.ndarray]:
    last = curve.evaluated[-1]
    chosen = (curve.evaluated > since * last) & (curve.evaluated <= until * last)
    return curve.evaluated[chosen], np.asarray(getattr(curve.scores, what), np.float64)[:, chosen]


def _slope(times: np.ndarray, values: np.ndarray) -> float:
    centred = times - times.mean()
    return float(centred @ values / (centred @ centred))


def _around_line(times: np.ndarray, values: np.ndarray) -> float:
    if not np.isfinite(values).all():
        return float("inf")
    centred = times - times.mean()
    return float(np.std(values - _slope(times, values) * centred))
