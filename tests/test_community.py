"""The files around the code: what they name exists, and those with a format keep to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import noshow as ns

ROOT = Path(__file__).parent.parent
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
WITH_COMMANDS = [ROOT / "CONTRIBUTING.md", ROOT / ".github" / "pull_request_template.md"]


def test_citation_is_ours_and_of_this_version() -> None:
    """Keys that CFF 1.2.0 requires, and its words for what is cited."""
    citation = _yaml(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["type"] == "software"
    assert citation["version"] == ns.__version__
    assert citation["license"] == "Apache-2.0"
    assert citation["license"] in (ROOT / "pyproject.toml").read_text("utf-8")


def test_citation_names_the_paper_as_the_readme_does() -> None:
    (paper,) = _yaml(ROOT / "CITATION.cff")["references"]
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert {"type", "title", "authors"} <= set(paper)
    assert f"*{paper['title']}*" in readme
    first, second, third, last = (author["family-names"] for author in paper["authors"])
    assert f"{first}, {second}, {third} and {last}" in readme


def test_there_is_a_form_for_bugs_wishes_and_results() -> None:
    assert [path.stem for path in FORMS] == ["bug", "feature", "result"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_forms(path: Path) -> None:
    """As GitHub asks of them: a name, a description, elements of known kinds with labels, ids used once."""
    form = _yaml(path)
    assert set(form) == {"name", "description", "labels", "body"}
    for element in form["body"]:
        assert set(element) <= {"type", "id", "attributes", "validations"}
        if element["type"] == "markdown":
            assert element["attributes"]["value"]
        else:
            assert element["type"] in ("textarea", "input")
            assert element["attributes"]["label"]
    ids = [element["id"] for element in form["body"] if element["type"] != "markdown"]
    assert len(ids) == len(set(ids))
    assert any(element.get("validations", {}).get("required") for element in form["body"])


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_name_pages_that_exist(path: Path) -> None:
    for page in re.findall(r"\b(?:docs|results)/[\w-]+\.md", path.read_text("utf-8")):
        assert (ROOT / page).exists(), page


def test_the_workflow_runs_what_a_clean_machine_runs() -> None:
    workflow = _yaml(ROOT / ".github" / "workflows" / "test.yml")
    assert set(workflow[True]) == {"push", "pull_request"}  # YAML 1.1 reads `on` as a truth
    steps = workflow["jobs"]["test"]["steps"]
    assert steps[-1]["run"] == ".ci/run"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    for step in steps[:-1]:
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])


@pytest.mark.parametrize("path", WITH_COMMANDS, ids=lambda path: path.stem)
def test_make_knows_what_is_asked_of_it(path: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    asked = re.findall(r"`make ([\w-]+)`", path.read_text("utf-8"))
    assert asked
    assert set(asked) <= set(targets)


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    rows = re.search(r"in `src/noshow` \|.*?\n\n", text, re.DOTALL)
    assert rows is not None
    modules = [f"src/noshow/{name}" for row in rows[0].strip().splitlines()[2:] for name in _quoted(row.split("|")[1])]
    named = [name for name in _quoted(text) if re.fullmatch(r"(tests|src)/[\w/.]+", name)]
    assert len(links) > 5
    assert len(modules) > 20
    for name in [*links, *modules, *named]:
        assert list(ROOT.glob(name.rstrip("/"))), name


def _quoted(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))
