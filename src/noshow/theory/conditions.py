"""Which of the theorems' conditions hold for given constants, by how much, and which fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from noshow.errors import nearest, require
from noshow.theory.constants import Method, Numbers, Problem, numbers
from noshow.theory.recursions import non_convex_contraction, strongly_convex_contraction
from noshow.theory.steps import smallest_alpha, step_cap, strongly_convex_step_cap

Theorem = Literal["non-convex", "strongly convex", "lower bound"]
"""The paper's Theorems nonconvex, strongly_convex and nonconvex-lb-dropout-G."""

_ROUNDING = 1e-12  # relative; a step that is set to its cap shall not fail for a last digit


class Condition(NamedTuple):
    """One condition: `number` must be `relation` ("<=", ">=" or ">") `bound`; `margin` is negative where it fails.

    All but the name and the relation are arrays where the constants are.

    Example:
        >>> first = conditions(Problem(epsilon=0.04, L=1.0, K=5, M=10), "fedavg", "non-convex")[0]
        >>> bool(first.holds), round(float(first.number), 3), first.relation, round(float(first.bound), 3)
        (False, 0.2, '<=', 0.1)
    """

    name: str
    holds: bool | np.ndarray
    number: Numbers
    bound: Numbers
    margin: Numbers
    relation: Literal["<=", ">=", ">"]


def conditions(
    problem: Problem,
    method: Method,
    theorem: Theorem,
    step: Numbers | None = None,
    alpha: Numbers | None = None,
) -> list[Condition]:
    """What a theorem asks for, and whether these constants give it.

    Non-convex (Theorem nonconvex): sqrt(epsilon) B <= 0.1 and eta <= `step_cap`. Strongly convex (Theorem
    strongly_convex): sqrt(epsilon) B <= 0.1 mu / L, alpha >= `smallest_alpha` and alpha / gamma <=
    `strongly_convex_step_cap`. For both the last line says whether the explicit curves of `noshow.theory.upper` hold,
    which takes a positive contraction only. Lower bound (Theorem nonconvex-lb-dropout-G): all clients are sampled, and
    epsilon M is whole; for other constants the floors use `hidden_share`.

    Args:
        problem: the constants. What no theorem can do without, such as B >= 1, is checked when they are made.
        method: "fedavg" or "fedprox".
        theorem: "non-convex", "strongly convex" or "lower bound".
        step: the largest step; alpha / gamma in the strongly convex theorem. Left out: that line is left out, and the
            contraction is that of steps near zero.
        alpha: of the rate alpha / (t + gamma). Left out: that line is left out.

    Example:
        >>> problem = Problem(epsilon=0.04, L=1.0, K=5, M=10)
        >>> print(table(conditions(problem, "fedavg", "non-convex", step=0.05)))
        condition        number      bound  margin  holds
        sqrt(epsilon) B     0.2  <=    0.1    -0.1  no
        largest step       0.05  <=   0.05       0  yes
        contraction        0.75   >      0    0.75  yes
    """
    known = get_args(Theorem)
    require(theorem in known, f"there is no theorem {theorem!r}: {nearest(str(theorem), known)}")
    if theorem == "lower bound":
        return _lower_bound(problem)
    adversary = np.sqrt(problem.epsilon) * problem.B
    largest = numbers("step", 0.0 if step is None else step, low=0)
    if theorem == "non-convex":
        limit: Numbers = np.float64(0.1)
        cap, contraction = step_cap(problem, method), non_convex_contraction(problem, method, largest)
    else:
        limit = 0.1 * problem.strong_convexity / problem.L
        cap, contraction = (
            strongly_convex_step_cap(problem, method),
            strongly_convex_contraction(problem, method, largest),
        )
    rows = [_at_most("sqrt(epsilon) B", adversary, limit)]
    if alpha is not None and theorem == "strongly convex":
        rows.append(_at_least("alpha", numbers("alpha", alpha, low=0), smallest_alpha(problem, method)))
    if step is not None:
        rows.append(_at_most("largest step", largest, cap))
    return [*rows, Condition("contraction", contraction > 0, contraction, 0.0, contraction, ">")]


def failures(rows: Sequence[Condition]) -> list[Condition]:
    """The conditions that fail, somewhere if they are arrays.

    Example:
        >>> problem = Problem(epsilon=0.04, L=1.0)
        >>> [row.name for row in failures(conditions(problem, "fedavg", "non-convex"))]
        ['sqrt(epsilon) B']
    """
    return [row for row in rows if not np.all(row.holds)]


def table(rows: Sequence[Condition]) -> str:
    """The conditions as lines of text, one a condition; for single numbers, not arrays.

    Example:
        >>> problem = Problem(epsilon=0.5, L=1.0, K=10, M=10)
        >>> print(table(conditions(problem, "fedavg", "lower bound")))
        condition            number      bound  margin  holds
        K / M                     1  >=      1       0  yes
        epsilon M, as whole       5  <=      5       0  yes
    """
    require(
        all(np.ndim(row.margin) == 0 for row in rows),
        "the conditions are arrays, and a table shows single numbers: give a problem of single numbers",
    )
    lines: list[tuple[str, ...]] = [("condition", "number", "", "bound", "margin", "holds")]
    for row in rows:
        shown = [f"{value:.4g}" for value in (row.number, row.bound, row.margin)]
        lines.append((row.name, shown[0], row.relation, *shown[1:], "yes" if row.holds else "no"))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    return "\n".join("  ".join([*_aligned(line, widths), line[-1]]) for line in lines)


def _aligned(line: tuple[str, ...], widths: Sequence[int]) -> list[str]:
    """The name to the left, the rest to the right."""
    return [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:], strict=True))]


def _lower_bound(problem: Problem) -> list[Condition]:
    hidden = problem.epsilon * problem.M
    return [
        _at_least("K / M", problem.p, np.float64(1)),
        _at_most("epsilon M, as whole", hidden, np.floor(hidden * (1 + _ROUNDING))),
    ]


def _at_most(name: str, number: Numbers, bound: Numbers) -> Condition:
    margin = bound - number
    return Condition(name, margin >= -_ROUNDING * np.abs(bound), number, bound, margin, "<=")


def _at_least(name: str, number: Numbers, bound: Numbers) -> Condition:
    margin = number - bound
    return Condition(name, margin >= -_ROUNDING * np.abs(bound), number, bound, margin, ">=")
