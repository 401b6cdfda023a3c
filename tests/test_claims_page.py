"""The page of results: its lines on what differs, and that it is the page of the results beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_claims import nine
from typer.testing import CliRunner

import noshow as ns
from noshow import cli
from noshow.paper import differences
from noshow.paper.figures import BYZANTINE
from noshow.paper.findings import Evidence
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
    apart = {"bucketing_cclip": (0.41, 1.5, 0.01)}
    assert lines(nine(**as_authors, **apart)) == "Nothing yet."
    assert "cclip and bucketing_cclip end within 0.0005" in lines(nine(**as_authors))
    assert "MIFA has the best accuracy, better than every other" in lines(
        nine(**as_authors, **apart, mifa=(0.6, 1, 0.01))
    )
    assert "fedprox's accuracy is one and the same number throughout the tail in 3 of 3" in lines(
        nine(**as_authors | {"fedprox": (0.34, 1.8, 0.0)}, **apart)
    )
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
    for folder in kept.iterdir():
        if folder.is_dir():
            (tmp_path / folder.name).symlink_to(folder)
    CliRunner().invoke(cli.app, ["reproduce", "--claims", "--out", str(tmp_path)], catch_exceptions=False)

    def lines(file: Path) -> list[str]:
        # Without images and text, three claims and the counts say so.
        about_data = re.compile(r"\| (7|15b|48) \||- `(written|published)`, 53 claims")
        return [line for line in file.read_text("utf-8").splitlines() if not about_data.match(line)]

    for page in ("README.md", "evidence.md"):
        assert lines(kept / page) == lines(tmp_path / page)


def test_what_is_too_long_for_a_row_is_told_beside_it() -> None:
    """A reader gets from a row to all of its comparisons."""
    page, evidence = ((ROOT / "results" / name).read_text("utf-8") for name in ("README.md", "evidence.md"))
    assert max(map(len, re.findall(r"\| (?:.(?!\| ))*", page))) < 900
    asked = set(re.findall(r"\(evidence\.md#(claim-\w+)\)", page))
    assert asked == {f"claim-{number}" for number in re.findall(r"^## Claim (\w+)$", evidence, re.MULTILINE)}
    for number, parts in (("8", 0), ("40", 36 * 2), ("44", 18 * 2)):
        section = evidence.partition(f"## Claim {number}\n")[2].partition("\n## ")[0]
        assert len(re.findall(r"^- (?:holds|does not hold|depends|not decidable): ", section, re.MULTILINE)) == parts
