"""Which condition holds, by how much, and which fails."""

from __future__ import annotations

import numpy as np
import pytest

from noshow.errors import NoshowError
from noshow.theory import Problem, conditions, failures, smallest_alpha, step_cap, strongly_convex_step_cap, table


def test_numbers_bounds_and_margins_by_hand() -> None:
    problem = Problem(epsilon=0.0004, L=4.0, mu=2.0, B=2.0, s=5, K=1, M=2)
    adversary, alpha, step, contraction = conditions(problem, "fedavg", "strongly convex", step=0.001, alpha=0.1)
    assert adversary[1:] == (True, pytest.approx(0.04), pytest.approx(0.05), pytest.approx(0.01), "<=")
    assert alpha[1:] == (False, 0.1, pytest.approx(0.2), pytest.approx(-0.1), ">=")
    assert step[1:] == (False, 0.001, pytest.approx(2 / 12800), pytest.approx(2 / 12800 - 0.001), "<=")
    assert contraction.holds
    assert [row.name for row in failures([adversary, alpha, step, contraction])] == ["alpha", "largest step"]


@pytest.mark.parametrize("method", ["fedavg", "fedprox"])
def test_steps_at_their_caps_hold(method: str) -> None:
    problem = Problem(epsilon=0.01 / 9, L=3.0, mu=3.0, B=3.0, s=7, K=3, M=7)
    assert not failures(conditions(problem, method, "non-convex", step=step_cap(problem, method)))
    alpha = smallest_alpha(problem, method)
    gamma = alpha / strongly_convex_step_cap(problem, method)
    assert not failures(conditions(problem, method, "strongly convex", step=alpha / gamma, alpha=alpha))


def test_a_contraction_can_hold_where_the_theorem_does_not_apply() -> None:
    problem = Problem(epsilon=0.25, L=1.0)
    assert [row.name for row in failures(conditions(problem, "fedavg", "non-convex"))] == ["sqrt(epsilon) B"]
    edge = conditions(Problem(epsilon=0.25, L=1.0, B=2.0), "fedavg", "non-convex")[-1]
    assert (edge.number, bool(edge.holds)) == (0, False)  # the curves divide by it
    problem = Problem(epsilon=0.25, L=1.0, B=2.5)
    failed = failures(conditions(problem, "fedavg", "non-convex"))
    assert [row.name for row in failed] == ["sqrt(epsilon) B", "contraction"]
    assert failed[1].margin == pytest.approx(-0.25)


def test_the_lower_bound_wants_all_clients_and_whole_ones() -> None:
    assert not failures(conditions(Problem(epsilon=0.29, L=1.0, K=100, M=100), "fedavg", "lower bound"))
    failed = failures(conditions(Problem(epsilon=0.25, L=1.0, K=5, M=10), "fedavg", "lower bound"))
    assert [float(row.margin) for row in failed] == [-0.5, -0.5]


def test_arrays() -> None:
    rows = conditions(Problem(epsilon=[0.01, 0.04], L=1.0), "fedavg", "non-convex", step=np.array([[0.1], [0.2]]))
    np.testing.assert_array_equal(rows[0].holds, [True, False])
    np.testing.assert_array_equal(rows[1].holds, [[True], [False]])
    with pytest.raises(NoshowError, match="give a problem of single numbers"):
        table(rows)


def test_the_table_has_a_line_a_condition() -> None:
    lines = table(conditions(Problem(epsilon=0.5, L=1.0, mu=0.1), "fedprox", "strongly convex")).split("\n")
    assert [line.split()[-1] for line in lines] == ["holds", "no", "no"]
    assert len({line.index(word) for line, word in zip(lines, ("holds", "no", "no"), strict=True)}) == 1


def test_nonsense_gets_a_sentence() -> None:
    with pytest.raises(NoshowError, match=r"no theorem 'nonconvex'.*did you mean 'non-convex'"):
        conditions(Problem(epsilon=0.1, L=1.0), "fedavg", "nonconvex")  # type: ignore[arg-type]
    with pytest.raises(NoshowError, match="mu is 0"):
        conditions(Problem(epsilon=0.1, L=1.0), "fedavg", "strongly convex")
    with pytest.raises(NoshowError, match=r"step is -1\.0"):
        conditions(Problem(epsilon=0.1, L=1.0), "fedavg", "non-convex", step=-1.0)
