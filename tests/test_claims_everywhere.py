"""The claims about all experiments at once: made-up curves of a known outcome."""

from __future__ import annotations

import numpy as np
import pytest
from test_claims import BY_NUMBER, evidence_of, made, nine, verdict

from noshow.paper.claims_everywhere import EVERYWHERE
from noshow.paper.experiments import EXPERIMENTS
from noshow.paper.findings import Evidence

ALL = {name.replace("0.", "point").replace("-", "_"): nine() for name in EVERYWHERE}


def test_a_variant_trains_where_it_ends_below_its_start_and_a_blind_guess() -> None:
    assert verdict("1b", **ALL) == "holds"
    bad_start = made("fedavg_variant", 0.1, 2.35)
    bad_start.scores.train_loss[:, 0] = 3.4
    assert verdict("1b", **ALL | {"cifar10_point8": nine() | {"fedavg_variant": bad_start}}) == "depends"
    assert verdict("1b", **ALL | {"shakespeare_point7": nine() | {"fedavg_variant": bad_start}}) == "holds"


def test_a_variant_that_diverges_does_not_train() -> None:
    gone = made("fedavg_variant", 0.1, 1.5)
    gone.scores.train_loss[:, 40:] = np.nan
    found = BY_NUMBER["1b"].finding(evidence_of(cifar10_point8={"fedavg_variant": gone}))
    assert found.words.startswith("So far, without cifar10-0.2, ")
    assert ": does not hold." in found.words


@pytest.mark.parametrize(("lowest", "expected"), [(1.3, "depends"), (1.4, "holds")])
def test_a_variant_whose_loss_rises_again_does_not_train(lowest: float, expected: str) -> None:
    # It ends at 1.501, the mean over seeds: 1.15 times 1.3, and 1.07 times 1.4.
    risen = made("fedavg_variant", 0.4, 1.5)
    risen.scores.train_loss[:, 1:40] += lowest - 1.5
    found = BY_NUMBER["1b"].finding(
        Evidence(
            "written",
            {name: {"": nine()} for name in EVERYWHERE} | {"cifar10-0.8": {"": nine() | {"fedavg_variant": risen}}},
        )
    )
    assert found.verdict == expected
    assert ("lowest eighth 1.300, risen again" in found.brief) == (expected == "depends")


def test_all_experiments_are_all_cells_of_the_grid_too() -> None:
    """Smoother variants, on a par with all but MIFA: 6 experiments of 2 x 7 x 2 comparisons, 9 cells of 2 x 3 x 2."""
    calm = {"fedavg_variant": (0.4, 1.5, 0.001), "fedprox_variant": (0.4, 1.5, 0.001)}
    runs = {name: {"": nine(**calm)} for name in EVERYWHERE}
    labels = EXPERIMENTS["round-robin"].specs("written", "paper")["K5-r4"].labels
    rough = {label: 0.001 if label.endswith("-1") else 0.02 if label.endswith("-root") else 0.01 for label in labels}
    cell = {label: made(label, 0.4, 1.5, rough[label]) for label in labels} | {"mifa": made("mifa", 0.6, 0.5)}
    whole = Evidence("written", {**runs, "round-robin": dict.fromkeys(EXPERIMENTS["round-robin"].cells, cell)})
    # With beta = sqrt(M/K) the variants are twice as rough as their originals; with beta = 1 they do not count.
    smooth, level = (BY_NUMBER[number].finding(whole) for number in ("38", "38b"))
    assert smooth.label == "depends (24 of 60)"
    assert smooth.brief.startswith(
        "In round-robin 0 of 36, on Synthetic(1,1) 12 of 12, elsewhere 12 of 12; denied by fedavg 18, fedprox 18"
    )
    assert level.label == "depends (240 of 276)"
    assert level.brief.startswith(
        "In round-robin 72 of 108, on Synthetic(1,1) 84 of 84, elsewhere 84 of 84; "
        "against FedAvg, FedProx and MIFA alone 144 of 180; denied by mifa 36"
    )
    without = BY_NUMBER["38"].finding(Evidence("written", runs))
    assert without.label == "not run"
    assert without.words.startswith("So far, without round-robin: holds.")
