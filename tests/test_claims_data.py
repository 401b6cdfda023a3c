"""The claims that need no run: counted in the data, and in what algorithms keep."""

from __future__ import annotations

import re

import numpy as np
import pytest
from conftest import DATA

from noshow.paper import claims_data
from noshow.paper.findings import Evidence


def test_memory_is_counted() -> None:
    # LeNet-5: 456 + 2416 + 48120 + 10164 + 850 parameters, four bytes each, for 100 clients.
    found = claims_data.memory(Evidence("written", {}))
    assert found.verdict == "holds"
    assert "d = 62,006" in found.words
    assert "24.8 MB" in found.words


@pytest.mark.skipif(not DATA.is_dir(), reason="the images of CIFAR-10 are not here")
def test_the_pictures_of_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOSHOW_DATA", str(DATA))
    evidence, rng = Evidence("written", {}), np.random.default_rng(0)
    two = claims_data.two_classes(evidence)
    assert two.label == "holds (2 of 2)"
    # Two labels of a half each, of which all have a tenth each: 8 tenths are not in common.
    assert two.words.endswith(
        "yardstick 0.5: 0.800 on average, from 0.800 to 0.800; 100 of 100 clients hold exactly 2 of the 10 classes."
    )
    assert claims_data.label_skew(evidence).verdict == "holds"
    falls = claims_data.skew_by_alpha(evidence)
    assert falls.verdict == "holds"
    seen = [float(mean) for mean in re.findall(r"(\S+) at", falls.words)]
    # Independent draws of Dirichlet(alpha), without the fit to equal sizes, differ from 1/10 by about as much.
    drawn = [np.abs(rng.dirichlet([alpha] * 10, 4000) - 0.1).sum(1).mean() / 2 for alpha in (0.1, 0.3, 0.5, 1, 2)]
    np.testing.assert_allclose(seen, drawn, atol=0.05)


@pytest.mark.skipif(not DATA.is_dir(), reason="the text of Shakespeare is not here")
def test_the_text_has_leafs_counts_and_its_groups_do_not_hold_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOSHOW_DATA", str(DATA))
    counted = claims_data.text_counted(Evidence("written", {}))
    assert counted.label == "depends (2 of 3)"
    assert counted.words.startswith(
        "Holds: 1,129 roles (LEAF: 1,129), 4,226,158 examples (LEAF: 4,226,158), 660 groups"
    )
    # 3,678,451 examples to train on and 356,921 to test: between them a group loses the windows that reach into both.
    (held,) = re.findall(r"with ([\d,]+) of the examples", counted.words)
    assert int(held.replace(",", "")) == 3_678_451 + 356_921 + 660 * 79
