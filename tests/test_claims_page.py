"""The page of results: its lines on what differs, and that it is the page of the results beside it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from test_claims import nine
from typer.testing import CliRunner

import noshow as ns
from noshow import cli
from noshow.paper import differences, summary
from noshow.paper.claims import CLAIMS, SECTIONS, SETTLED_LATE
from noshow.paper.figures import BYZANTINE
from noshow.paper.findings import Evidence, Finding
from noshow.paper.results import Curves

ROOT = Path(__file__).parents[1]


def test_what_differs_is_said_only_where_it_does() -> None:
    def lines(curves: dict[str, Curves], setting: str = "published") -> str:
        evidence = {name: Evidence(name, {}) for name in ("written", "published")}
        evidence[setting] = Evidence(setting, {"cifar10-0.8": {"": curves}})
        return "\n".join(differences.differences(evidence))

    as_authors = {
        "fedavg_variant": (0.46, 1.45, 0.01),
        "fedprox": (0.34, 1.8, 0.01),
        "fedprox_variant": (0.52, 1.2, 0.01),
    }
    apart = {"bucketing_cclip": (0.41, 1.501, 0.01)}
    assert lines(nine(**as_authors, **apart)) == "Nothing yet."
    assert "cclip and bucketing_cclip have train losses within 0.0005" in lines(nine(**as_authors))
    # One level, and losses that are apart at every other evaluation.
    assert lines(nine(**as_authors, bucketing_cclip=(0.4, 1.5, 0.011))) == "Nothing yet."
    assert "MIFA has the best accuracy, better than every other" in lines(
        nine(**as_authors, **apart, mifa=(0.6, 1, 0.01))
    )
    flat = nine(**as_authors | {"fedprox": (0.34, 1.8, 0.0)}, **apart)
    assert "fedprox learns nothing in 3 of 3 seeds: the accuracy is 0.34 at more than half" in lines(flat)
    late = flat["fedprox"].evaluated > 1900  # a fifth of the tail
    flat["fedprox"].scores.test_accuracy[0, late] += 0.1
    assert "fedprox learns nothing in 3 of 3 seeds" in lines(flat)
    flat["fedprox"].scores.test_accuracy[0, flat["fedprox"].evaluated > 1700] += np.linspace(0.1, 0.2, 21)
    assert "fedprox learns nothing in 2 of 3 seeds" in lines(flat)
    assert "fedprox 0.401 ± 0.001 against about 0.34" in lines(
        nine(**as_authors | {"fedprox": (0.4, 1.8, 0.01)}, **apart)
    )
    blind = dict.fromkeys(BYZANTINE, (0.1, 2.3, 0.01))
    assert "learnt next to nothing" in lines(nine(**blind), "written")
    assert "learnt next to nothing" not in lines(nine(), "written")


def test_who_is_too_large_to_be_silenced() -> None:
    held = ns.datasets.synthetic(1, 1).held
    large = [size for size in held.tolist() if size > 0.9 * 10 * held.sum() / 100]
    there = {"written": Evidence("written", {"synthetic-0.9": {"": nine()}}), "published": Evidence("published", {})}
    assert f"{len(large)} of the 100 clients hold {sum(large) / held.sum():.0%}" in "".join(
        differences.differences(there)
    )


def test_the_page_beside_the_results_is_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever adds results writes the page again: `noshow reproduce --claims`."""
    kept = ROOT / "results"
    if not (kept / "README.md").is_file():
        pytest.skip("no results here")
    monkeypatch.setenv("NOSHOW_DATA", str(tmp_path))
    for beside in kept.iterdir():
        if beside.suffix != ".md":
            (tmp_path / beside.name).symlink_to(beside)
    CliRunner().invoke(cli.app, ["reproduce", "--claims", "--out", str(tmp_path)], catch_exceptions=False)

    def lines(file: Path) -> list[str]:
        # Without images and text, four claims and the counts say so.
        about_data = re.compile(r"\| (7|7b|15b|48) \||- `(written|published)`, \d+ claims")
        return [line for line in file.read_text("utf-8").splitlines() if not about_data.match(line)]

    for page in ("README.md", "evidence.md"):
        assert lines(kept / page) == lines(tmp_path / page)


def test_what_is_too_long_for_a_row_is_told_beside_it() -> None:
    """A reader gets from a row to all of its comparisons."""
    page, evidence = ((ROOT / "results" / name).read_text("utf-8") for name in ("README.md", "evidence.md"))
    assert max(map(len, re.findall(r"\| (?:.(?!\| ))*", page.partition("## What stands out")[0]))) < 700
    asked = set(re.findall(r"\(evidence\.md#(claim-\w+)\)", page))
    assert asked == {f"claim-{number}" for number in re.findall(r"^## Claim (\w+)$", evidence, re.MULTILINE)}
    for number, parts in (("8", 4 * 2), ("9", 0), ("40", 36 * 2), ("44", 18 * 2), ("37", 0)):
        section = evidence.partition(f"## Claim {number}\n")[2].partition("\n## ")[0]
        assert len(re.findall(r"^- (?:holds|does not hold|depends|not decidable): ", section, re.MULTILINE)) == parts


def test_the_summary_says_only_what_is_so() -> None:
    def lines(leader: str = "mifa", **counts: tuple[int, int]) -> str:
        seen = {number: Finding("depends", "", counts=counts.get(f"claim_{number}", (1, 2))) for number in numbers}
        found = {number: {"written": one, "published": one} for number, one in seen.items()}
        curves = {"cifar10-0.8": {"": nine(**{leader: (0.6, 1.0, 0.01)})}}
        evidence = {"written": Evidence("written", {}), "published": Evidence("published", curves)}
        return "\n".join(summary.in_short(found, evidence))

    numbers = [claim.number for claim in CLAIMS]
    assert "(claim 38b: 1 of 2, 1 of 2)" in lines()
    assert "38b" not in lines(claim_38b=(2, 2))
    for number in ("38", "13", "46"):
        assert f"(claim {number}: 3 of 4, 3 of 4)" in lines(**{f"claim_{number}": (3, 4)})
        assert f"claim {number}:" not in lines(**{f"claim_{number}": (2, 4)})
    for number in ("18", "40", "44"):
        assert f"(claim {number}: 1 of 4, 1 of 4)" in lines(**{f"claim_{number}": (1, 4)})
        assert f"claim {number}:" not in lines(**{f"claim_{number}": (2, 4)})
    assert "In `published`, MIFA, which the paper has behind the variants, beats them all" in lines()
    assert "accuracy 0.601 ± 0.001, then" in lines()
    assert "MIFA" not in lines("fedprox_variant")


def test_what_is_not_run_is_not_in_the_summary() -> None:
    missing = {claim.number: dict.fromkeys(("written", "published"), Finding("not run", "")) for claim in CLAIMS}
    assert summary.in_short(missing, {name: Evidence(name, {}) for name in ("written", "published")}) == []


def test_the_page_goes_from_the_answer_to_its_making() -> None:
    page = (ROOT / "results" / "README.md").read_text("utf-8")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == [
        *("In short", "Words", "Claims", "What stands out", "Levels"),
        *("How things are measured", "How the results were made"),
    ]
    claims = page.partition("\n## Claims\n")[2].partition("\n## ")[0]
    assert re.findall(r"^### (.+)$", claims, re.MULTILINE) == list(SECTIONS)
    assert f"yardsticks of claims {', '.join(SETTLED_LATE[:-1])} and {SETTLED_LATE[-1]} and" in page.replace("\n", " ")


def test_a_row_has_its_picture_its_count_or_the_row_that_it_repeats() -> None:
    page = (ROOT / "results" / "README.md").read_text("utf-8")
    rows = {
        row.split(" | ")[0]: row.split(" | ")[2:] for row in re.findall(r"^\| (\d+\w? \| .*) \|$", page, re.MULTILINE)
    }
    assert rows["7"][0] == "Fig. 1; [ours](dirichlet-populations.png)"
    assert rows["22"][0] == "Fig. 4; [ours](power-law.png)"
    assert "(shadow-copies/published/figure.png)" in rows["5"][0]
    assert re.fullmatch(r"\*\*depends \(\d+ of 36\)\*\*", rows["40"][1])
    assert (rows["37"][1], rows["37"][3]) == (rows["26b"][1], rows["26b"][3])
    assert rows["37"][2] == rows["37"][4] == "As 26b."
