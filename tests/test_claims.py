"""The paper's claims: each has a row, and made-up curves of a known outcome get it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import noshow as ns
from noshow import cli
from noshow.adversaries.shadow import Changes
from noshow.evaluate import Metrics
from noshow.paper import claims_synthetic, copies
from noshow.paper.claims import CLAIMS, SECTIONS, SETTLED_LATE
from noshow.paper.claims_general import SHADOW
from noshow.paper.claims_page import VERDICTS
from noshow.paper.experiments import EXPERIMENTS
from noshow.paper.figures import BASELINES, BYZANTINE
from noshow.paper.findings import Evidence, Finding
from noshow.paper.results import Curves

ROOT = Path(__file__).parents[1]
NINE = (*BASELINES, *BYZANTINE)
BY_NUMBER = {claim.number: claim for claim in CLAIMS}


def made(
    label: str,
    accuracy: float,
    loss: float,
    rough: float = 0.01,
    rounds: int = 2000,
    every: int = 15,
    answering: int = 2,
) -> Curves:
    """Three seeds around these levels: seed s is s/1000 higher, and every other evaluation is up or down by `rough`."""
    evaluated = np.append(np.arange(0, rounds, every), rounds)
    swing = rough * (-1.0) ** np.arange(len(evaluated)) * (1 + 0.01 * np.arange(3)[:, None])
    shift = np.arange(3)[:, None] / 1000
    scores = Metrics(loss + shift + swing, loss + shift + 0 * swing, accuracy + shift + swing)
    scores.train_loss[:, 0] = 2.3
    used = np.full((3, rounds), 1 - answering / 10)
    return Curves(label, np.arange(3), evaluated, scores, used, np.full((3, rounds), answering))


def nine(**changes: tuple[float, float, float]) -> dict[str, Curves]:
    """Nine algorithms on a par, but for the changes: accuracy, loss and roughness."""
    return {label: made(label, *changes.get(label, (0.4, 1.5, 0.01))) for label in NINE}


def evidence_of(**runs: Mapping[str, Curves]) -> Evidence:
    named = {name.replace("_", "-").replace("point", "0."): {"": curves} for name, curves in runs.items()}
    return Evidence("written", named)


def verdict(number: str, **runs: Mapping[str, Curves]) -> str:
    return BY_NUMBER[number].finding(evidence_of(**runs)).verdict


def test_every_claim_has_its_row() -> None:
    assert [claim.number for claim in CLAIMS] == [
        *("1", "1b", "2", "2b", "3", "3b", "3c", "3d", "4", "4b", "5", "6", "6b", "7", "7b"),
        *(*map(str, range(8, 16)), "15b"),
        *(*map(str, range(16, 22)), "21b", *map(str, range(22, 26)), "25b", "26", "26b"),
        *(*map(str, range(27, 33)), "32b", *map(str, range(33, 38)), "37b", "38", "38b"),
        *map(str, range(39, 50)),
    ]
    assert [claim for claims in SECTIONS.values() for claim in claims] == list(CLAIMS)
    assert set(SETTLED_LATE) <= set(BY_NUMBER)
    assert {name for claim in CLAIMS for name in claim.needs} <= set(EXPERIMENTS)
    assert all(claim.says and claim.where for claim in CLAIMS)


def test_without_results_nothing_is_said_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOSHOW_DATA", str(tmp_path))
    found = {claim.number: claim.finding(Evidence("written", {})).verdict for claim in CLAIMS}
    unmeasured = {number for number, said in found.items() if said == "no measurement"}
    assert unmeasured == {"1", "2b", "3", "3b", "3c", "3d", "4b", "6", "36", "49"}
    assert {number for number, said in found.items() if said == "holds"} == {"39"}
    assert found["22"] == "depends"
    assert set(found.values()) == {"no measurement", "holds", "depends", "not run"}


def grid_of(labels: tuple[str, ...]) -> dict[str, dict[str, Curves]]:
    """Round robin: a larger K is smoother, beta = sqrt(M/K) better, and falls to its level at once."""
    grid = {}
    for cell in EXPERIMENTS["round-robin"].cells:
        sampled, groups = (int(number) for number in re.findall(r"\d+", cell))
        curves = {label: made(label, 0.3, 2.0, rough=0.3 / sampled) for label in labels}
        curves["fedavg_variant-beta-root"] = made("fedavg_variant-beta-root", 0.5, 1.0, rough=0.3 / sampled)
        for label, curve in curves.items():
            if label.endswith("-1"):
                curve.scores.train_loss[:, :100] = 2.2
            silent = np.tile(np.repeat([0.0, 1.0], [groups - 1, 1]), (3, 2000 // groups))
            curves[label] = curve._replace(epsilon_t=silent)
        grid[cell] = curves
    return grid


ROBIN = tuple(EXPERIMENTS["round-robin"].specs("written", "paper")["K5-r4"].labels)


def test_every_claim_can_be_read_once_all_results_are_there() -> None:
    spoken = {
        label: made(label, 0.4, 1.5, rounds=60, every=1, answering=6) for label in ("fedavg", "fedavg_variant", "mifa")
    }
    spoken |= {label: made(label, 0.3, 1.8, rounds=1000, answering=6) for label in BYZANTINE}
    runs: dict[str, dict[str, dict[str, Curves]]] = {name: {"": nine()} for name in EXPERIMENTS}
    runs |= {
        "cifar10-long": {"": {label: made(label, 0.4, 1.5, rounds=4000) for label in BYZANTINE}},
        "synthetic-long": {"": {label: made(label, 0.4, 1.5, rounds=4000) for label in NINE}},
        "shakespeare-0.7": {"": spoken},
        "shakespeare-random": {"": {label: spoken[label] for label in ("fedavg", "fedavg_variant")}},
        "round-robin": grid_of(ROBIN),
        "random-response": {cell: nine() for cell in EXPERIMENTS["random-response"].cells},
    }
    evidence = Evidence("written", runs, [foretold(preset, seed) for preset in copies.PRESETS for seed in (0, 1, 2)])
    for claim in CLAIMS:
        found = claim.finding(evidence)
        assert found.verdict in VERDICTS
        assert re.search(r"\d", found.words) or found.verdict in ("no measurement", "not run"), claim.number
        assert "|" not in found.words  # it would break the table
        if claim.number not in ("7", "7b", "15b", "48"):
            assert found.verdict != "not run", claim.number


@pytest.mark.parametrize(
    ("changes", "number", "expected"),
    [
        ({"fedavg_variant": (0.6, 1.0, 0.01), "fedprox_variant": (0.6, 1.0, 0.01)}, "8", "holds"),
        ({"fedavg_variant": (0.6, 1.0, 0.01), "fedprox_variant": (0.3, 1.8, 0.01)}, "8", "depends"),
        ({"fedavg_variant": (0.6, 1.8, 0.01), "fedprox_variant": (0.6, 1.0, 0.01)}, "8", "depends"),
        (dict.fromkeys(("fedavg_variant", "fedprox_variant", "mifa"), (0.6, 1.0, 0.01)), "8", "not decidable"),
        (
            {"fedavg_variant": (0.6, 1, 0.01), "fedprox_variant": (0.6, 1, 0.01), "gm": (0.7, 0.9, 0)},
            "8",
            "does not hold",
        ),
        ({"fedavg_variant": (0.3, 1.8, 0.01), "fedprox_variant": (0.3, 1.8, 0.01)}, "8", "does not hold"),
        ({}, "8", "not decidable"),
        ({"fedavg_variant": (0.4, 1.5, 0.001), "fedprox_variant": (0.4, 1.5, 0.001)}, "9", "holds"),
        ({"fedavg_variant": (0.4, 1.5, 0.02), "fedprox_variant": (0.4, 1.5, 0.02)}, "9", "does not hold"),
        ({"fedavg_variant": (0.4, 1.5, 0.001), "fedprox_variant": (0.4, 1.5, 0.02)}, "9", "depends"),
        ({"fedavg_variant": (0.5, 1.4, 0.01), "fedprox_variant": (0.5, 1.4, 0.01)}, "10", "holds"),
        ({"fedavg_variant": (0.402, 1.498, 0.01), "fedprox_variant": (0.402, 1.498, 0.01)}, "10", "does not hold"),
        ({"mifa": (0.5, 1.2, 0.01)}, "11", "holds"),
        ({"mifa": (0.5, 1.2, 0.01)}, "12", "does not hold"),
        ({"mifa": (0.5, 1.7, 0.01)}, "12", "depends"),
        (dict.fromkeys(BYZANTINE, (0.1, 2.3, 0.01)), "13", "holds"),
        ({"cclip": (0.5, 1.2, 0.01)}, "13", "does not hold"),
        ({}, "14", "holds"),
    ],
)
def test_cifar10_of_a_known_outcome(changes: dict[str, tuple[float, float, float]], number: str, expected: str) -> None:
    assert verdict(number, cifar10_point8=nine(**changes)) == expected


def test_two_experiments_are_compared_claim_by_claim() -> None:
    winning = {"fedavg_variant": (0.6, 1.0, 0.001), "fedprox_variant": (0.6, 1.0, 0.001)}
    assert verdict("15", cifar10_point8=nine(**winning), cifar10_point2=nine(**winning)) == "holds"
    assert verdict("15", cifar10_point8=nine(**winning), cifar10_point2=nine()) == "depends"
    assert verdict("15", cifar10_point8=nine(**winning)) == "not run"


def test_the_rules_are_excepted_where_the_paper_excepts_them() -> None:
    """At 0.8 the rules are far behind, at 0.2 on a par: claim 13, of which the appendix says something else."""
    winning = {"fedavg_variant": (0.6, 1.0, 0.001), "fedprox_variant": (0.6, 1.0, 0.001)}
    near = winning | dict.fromkeys(BYZANTINE, (0.599, 1.001, 0.01))
    runs = {"cifar10_point8": nine(**winning), "cifar10_point2": nine(**near)}
    assert verdict("15", **runs) == "depends"
    assert verdict("27", **runs | {"cifar10_point2": nine(**winning)}) == "holds"
    found = [BY_NUMBER[number].finding(evidence_of(**runs)).words for number in ("15", "27")]
    assert ["claim 13" in words for words in found] == [True, False]


@pytest.mark.parametrize(
    ("at_low", "expected"),
    [
        ((0.55, 1.2), "holds"),  # 0.05 of 0.2 of accuracy and 0.2 of 0.5 of loss are left
        ((0.45, 1.35), "does not hold"),  # 0.15 of 0.2, and 0.35 of 0.5
        ((0.55, 1.35), "depends"),
    ],
)
def test_the_rules_come_near_where_less_than_half_of_the_gap_is_left(
    at_low: tuple[float, float], expected: str
) -> None:
    ahead = {"fedavg_variant": (0.6, 1.0, 0.01)}
    high = nine(**ahead | dict.fromkeys(BYZANTINE, (0.4, 1.5, 0.01)))
    low = nine(**ahead | dict.fromkeys(BYZANTINE, (*at_low, 0.01)))
    assert verdict("32b", cifar10_point8=high, cifar10_point2=low) == expected


@pytest.mark.parametrize(
    ("used", "answering", "expected"), [(0.2, 1, "holds"), (0.201, 1, "depends"), (0.2, 0, "depends")]
)
def test_the_law_and_one_who_answers_in_every_round(used: float, answering: int, expected: str) -> None:
    runs = {name: {"": nine()} for name in SHADOW}
    for name, cells in runs.items():
        law = EXPERIMENTS[name].specs("written", "paper")[""].epsilon
        cells[""] = {label: c._replace(epsilon_t=np.full((3, 5), law, np.float32)) for label, c in cells[""].items()}
    curve = runs["cifar10-0.2"][""]["mifa"]
    rounds = np.full((3, 5), used, np.float32), np.full((3, 5), answering)
    runs["cifar10-0.2"][""]["mifa"] = curve._replace(epsilon_t=rounds[0], responders=rounds[1])
    assert BY_NUMBER["6b"].finding(Evidence("written", runs)).verdict == expected


def test_prolonged_training_by_hand() -> None:
    curves = {label: made(label, 0.3, 2.0, rough=0.0, rounds=4000) for label in BYZANTINE}
    assert verdict("34", cifar10_long=curves) == "not decidable"
    for curve in curves.values():
        late = curve.evaluated > 2000
        curve.scores.test_accuracy[:, late] += 0.1
        curve.scores.train_loss[:, late] -= 0.1
    found = BY_NUMBER["34"].finding(Evidence("written", {"cifar10-long": {"": curves}}))
    assert found.verdict == "holds"
    assert found.words.count("+0.100 ± 0.000") == 6
    best = {"fedprox_variant": (0.5, 1.5, 0.01)}
    assert verdict("35", cifar10_long=curves, cifar10_point2=nine(**best)) == "depends"  # its loss is fedavg_variant's
    best = {"fedprox_variant": (0.5, 1.2, 0.01)}
    assert verdict("35", cifar10_long=curves, cifar10_point2=nine(**best)) == "holds"


def foretold(preset: str, seed: int, noise: float = 0.1) -> copies.Rehearsed:
    """Changes on the data as on the copy, but for some noise."""
    rng = np.random.default_rng(seed)
    on_copy = Changes(rng.lognormal(size=100), rng.lognormal(size=100))
    return copies.Rehearsed(preset, seed, on_copy, Changes(*(v * rng.lognormal(0, noise, 100) for v in on_copy)))


@pytest.mark.parametrize(("noise", "expected"), [(0.1, "holds"), (30.0, "does not hold")])
def test_what_copies_foretell(noise: float, expected: str) -> None:
    seen = [foretold(preset, seed, noise) for preset in copies.PRESETS for seed in (0, 1)]
    found = BY_NUMBER["5"].finding(Evidence("written", {}, seen))
    assert found.verdict == expected
    assert (
        f"of 35, seed by seed: synthetic-0.9 {seen[0].shared}/{seen[1].shared}, by chance 12.2; cifar10" in found.words
    )
    assert BY_NUMBER["5"].finding(Evidence("written", {})) == Finding("not run", "needs shadow-copies")


@pytest.mark.parametrize(
    ("at_random", "epsilon", "lawful", "harmful"),
    [
        (0.5, 0.7, "holds", "holds"),
        (0.3, 0.7, "holds", "does not hold"),
        (0.5, 0.71, "does not hold", "holds"),
    ],
)
def test_silence_at_random_is_held_against_that_of_the_largest(
    at_random: float, epsilon: float, lawful: str, harmful: str
) -> None:
    def both(accuracy: float, loss: float) -> dict[str, dict[str, Curves]]:
        labels = ("fedavg", "fedavg_variant")
        curves = {label: made(label, accuracy, loss, rounds=60, every=1, answering=6) for label in labels}
        return {"": {label: c._replace(epsilon_t=np.full_like(c.epsilon_t, epsilon)) for label, c in curves.items()}}

    runs = {"shakespeare-0.7": both(0.4, 1.5), "shakespeare-random": both(at_random, 1.9 - at_random)}
    evidence = Evidence("written", runs)
    assert [BY_NUMBER[number].finding(evidence).verdict for number in ("21", "21b")] == [lawful, harmful]


def spoken(**rising_until: int) -> dict[str, Curves]:
    """Shakespeare: three that stay where they are for 60 rounds, and rules whose accuracy rises until a round."""
    three = ("fedavg", "fedavg_variant", "mifa")
    curves = {label: made(label, 0.4, 1.5, rough=0.005, rounds=60, every=1) for label in three}
    for label in BYZANTINE:
        curve = made(label, 0.0, 1.8, rough=0.005, rounds=1000)
        curve.scores.test_accuracy[:] += 0.4 * np.minimum(1.0, curve.evaluated / rising_until.get(label, 500))
        curves[label] = curve
    return curves


@pytest.mark.parametrize(("rough", "expected"), [(0.001, "holds"), (0.02, "does not hold")])
def test_smoothness_is_read_alike_of_text_and_images(rough: float, expected: str) -> None:
    curves = spoken() | {"fedavg_variant": made("fedavg_variant", 0.4, 1.5, rough, rounds=60, every=1)}
    assert verdict("16", shakespeare_point7=curves) == expected


def test_rules_that_need_a_thousand_rounds_are_at_rest_then_and_not_after_sixty() -> None:
    assert verdict("19", shakespeare_point7=spoken()) == "holds"
    for until in (1000, 30):  # still rising, and there at once
        found = BY_NUMBER["19"].finding(Evidence("written", {"shakespeare-0.7": {"": spoken(gm=until)}}))
        assert found.verdict == "depends"
        denied = {part.words[:25] for part in found.parts if part.verdict == "does not hold"}
        assert denied == {"at rest by round 1000: gm" if until == 1000 else "not by round 60: gm has 9"}


@pytest.mark.parametrize(("until", "expected"), [(900, "holds"), (505, "does not hold"), (200, "does not hold")])
def test_a_rule_is_slow_by_more_than_evaluations_are_apart(until: int, expected: str) -> None:
    curves = spoken(gm=until, bucketing_gm=until)
    found = BY_NUMBER["20"].finding(Evidence("written", {"shakespeare-0.7": {"": curves}}))
    assert found.verdict == expected
    assert ("Does not hold: gm slower than cclip; " in found.words) == (expected != "holds")


def test_fedavgs_normaliser_is_told_beside_its_roughness() -> None:
    curves = nine(fedavg_variant=(0.4, 1.5, 0.001))
    alone = Evidence("written", {"cifar10-0.8": {"": curves}})
    constant = BY_NUMBER["2"].finding(alone).words
    assert ": holds. 1 / (sum of w) is the same in every round of some: 50.0 in cifar10-0.8. There its size" in constant
    assert "cifar10-0.8, 1 / (sum of w) 50.0 in every round: fedavg_variant" in constant
    curves["fedavg"].responders[:, ::2] = 4
    assert ": holds. cifar10-0.8, 1 / (sum of w) 37.5 ± 12.5 over rounds" in BY_NUMBER["2"].finding(alone).words


def test_synthetic_of_a_known_outcome() -> None:
    wild = {"mifa": (0.4, 1.5, 0.1)} | dict.fromkeys(BYZANTINE, (0.4, 1.5, 0.1))
    assert verdict("26", synthetic_point9=nine(**wild)) == "holds"
    assert verdict("23", synthetic_point9=nine(**wild)) == "holds"  # who is so rough is not at rest
    wild["mifa"] = (0.4, 1.5, 0.0001)
    assert verdict("23", synthetic_point9=nine(**wild, fedavg_variant=(0.4, 1.5, 0.00001))) == "depends"
    assert verdict("24", synthetic_point9=nine(**wild)) == "holds"
    curves = nine()
    for label in curves:
        used = np.tile([0.0, 0.3, 0.69], (3, 700)).astype(np.float32)
        curves[label] = curves[label]._replace(epsilon_t=used)
    assert verdict("25", synthetic_point9=curves) == verdict("37b", synthetic_point7=curves) == "holds"
    for largest, held in ((0.9, 3), (0.91, 2)):  # the law is kept, and the caption's is not
        curves["fedavg_variant"].epsilon_t[0, 0] = largest
        found = BY_NUMBER["25"].finding(Evidence("written", {"synthetic-0.9": {"": curves}}))
        assert found.label == f"depends ({held} of 4)"


def test_round_robin_of_a_known_outcome() -> None:
    evidence = Evidence("written", {"round-robin": grid_of(ROBIN)})
    found = {number: BY_NUMBER[number].finding(evidence) for number in ("44", "45", "47")}
    assert {number: finding.verdict for number, finding in found.items()} == {
        "44": "holds",
        "45": "holds",
        "47": "holds",
    }
    assert found["44"].words.startswith("Nine cells, by accuracy and by loss: 18 of 18 won")
    assert found["45"].label == "holds (84 of 84)"
    ahead = {cell: curves | {"mifa": made("mifa", 0.6, 0.9)} for cell, curves in grid_of(ROBIN).items()}
    beaten = BY_NUMBER["44"].finding(Evidence("written", {"round-robin": ahead}))
    assert beaten.verdict == "does not hold"
    assert beaten.words.startswith("Nine cells, by accuracy and by loss: 0 of 18 won")
    assert "K5-r4, accuracy: better than 5 of 6, worse than mifa (worst: over mifa, accuracy -0.100" in beaten.words
    faster = BY_NUMBER["46"].finding(evidence)
    # The FedAvg variant gets there at once, the FedProx variant is the same with both betas but for its first rounds.
    assert faster.verdict == "holds"
    assert "K5-r4, fedavg_variant: 60/60/60 v" in faster.words


def test_what_is_heard_is_what_the_roll_call_says() -> None:
    federation = ns.datasets.synthetic(1, 1, clients=20)
    shadow = ns.adversaries.shadow(ns.algorithms.fedavg(0.01), ns.algorithms.cclip(0.01), candidates="all")
    history = ns.simulate(
        federation,
        ns.models.logistic(),
        ns.algorithms.fedavg_variant(0.01, steps=1),
        shadow,
        sampled=5,
        rounds=9,
        epsilon=0.7,
        seeds=[0, 3],
    )
    call = history.roll_call
    expected = (federation.weights[call.sampled] * call.answered).sum(-1) * 20 / 5
    heard = claims_synthetic.heard(history.seeds, call.epsilon_t, federation.held, sampled=5)
    np.testing.assert_allclose(heard, expected, atol=1e-6)


def rows_of_claims(page: str) -> list[str]:
    return re.findall(r"^\| (\d+[bcd]?) \|", page.split("## Claims")[1].split("\n## ")[0], re.MULTILINE)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOSHOW_DATA", str(tmp_path))

    def command(*arguments: str) -> str:
        done = CliRunner().invoke(cli.app, ["reproduce", *arguments, "--out", str(tmp_path)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    assert "README.md" in command("--claims")
    page = (tmp_path / "README.md").read_text("utf-8")
    assert rows_of_claims(page) == [claim.number for claim in CLAIMS]
    assert "| cifar10-0.8 | written | 0 of 9 | not run |" in page
    with pytest.raises(ns.NoshowError, match="leave out --setting and --scale"):
        command("--claims", "--setting", "written")
    with pytest.raises(ns.NoshowError, match="two seeds or more"):
        command("--claims", "--seeds", "0")
