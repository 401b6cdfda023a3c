"""One finding from several, and numbers in words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from test_claims import nine

from noshow.paper.findings import Evidence, Finding, gained, rough_in_words, so_far, together, with_spread
from noshow.paper.results import Curves


def test_a_claim_about_all_experiments_waits_for_them() -> None:
    def parts(name: str, curves: Mapping[str, Curves]) -> list[Finding]:
        return [Finding("holds" if name == "a" else "does not hold", f"{name} 1")]

    runs = {name: {"": nine()} for name in ("a", "b")}
    assert so_far(Evidence("written", {}), "ab", parts) == Finding("not run", "needs a, b")
    assert so_far(Evidence("written", {"a": runs["a"]}), "ab", parts).verdict == "not run"
    assert so_far(Evidence("written", runs), "ab", parts).verdict == "depends"
    assert so_far(Evidence("written", runs), "abc", parts).verdict == "depends"
    assert so_far(Evidence("written", runs), "a", parts) == Finding("holds", "a 1.", counts=(1, 1))


def test_many_comparisons_tell_what_fails_and_what_is_tightest() -> None:
    parts = [Finding("holds", f"x{margin}", margin) for margin in range(3, 9)] + [Finding("does not hold", "y", -1.0)]
    assert together(parts) == Finding("depends", "Holds: x3; x4; x5; x6; x7; x8. Does not hold: y.", counts=(6, 7))
    assert together(parts).label == "depends (6 of 7)"
    assert together([together(parts), parts[0]]).label == "depends (7 of 8)"
    assert together(parts[-1:]).words == "Does not hold: y."
    assert together(parts[-1:]).label == "does not hold"
    many = [part._replace(words=part.words * 100) for part in parts]
    found = together(many, "In all")
    assert found.words.startswith(f"In all. Holds: {'x3' * 100}; {'x4' * 100}; ")
    assert found.short == f"In all. 6 hold, the tightest: {'x3' * 100}. 1 does not: {'y' * 100}."
    assert found.brief == found.short
    assert found.parts == many
    undecided = [Finding("not decidable", "z" * 100)] * 8
    assert together(undecided).brief == "8 are not decidable."
    assert together(undecided, "None").brief == "None."
    undecided = [Finding("does not hold", "a"), Finding("not decidable", "b")]
    assert together(undecided).verdict == "does not hold"


def test_numbers_in_words() -> None:
    assert with_spread(np.array([1.0, 2.0, 3.0])) == "2.000 ± 1.000"
    assert with_spread(np.array([0.0, np.nan])) == "nan"
    assert with_spread(np.array([0.004])) == "0.00400"
    assert rough_in_words(np.array([0.25])) == "0.25"
    one = gained(np.array([0.3]), np.array([0.28]), "a over b", "test_accuracy")
    assert one == Finding("holds", "a over b, accuracy +0.020", pytest.approx(2.0))


def test_what_one_seed_loses_by_diverging_has_a_margin_that_can_be_ranked() -> None:
    found = gained(np.array([1.0, 1.1, 1.2]), np.array([1.1, np.nan, 1.3]), "a over b", "train_loss")
    assert (found.verdict, found.margin) == ("holds", np.inf)
