"""The documentation says what is so: its code and commands run, its output is real, its links lead somewhere."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from documented import FENCE, ROOT, blocks, check, commands_in_words, compare, play, steps

import noshow as ns
from noshow.flower.call import Call, Outcome
from noshow.flower.roster import Member
from noshow.flower.silence import Silence

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
EVERYWHERE = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *PAGES]
MADE = [DOCS / "reference" / "command-line.md", *(page.with_suffix(".md") for page in DOCS.glob("notebooks/*.ipynb"))]
"""Pages that the site alone has."""


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=named)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    play(page)


@pytest.mark.parametrize("page", EVERYWHERE, ids=named)
def test_every_command_exists(page: Path) -> None:
    shown = [step.command for block in blocks(page) if block.language == "console" for step in steps(block)]
    for command in shown:
        check(command)
    for command in commands_in_words(page):
        check(command, whole=False)


@pytest.mark.parametrize("page", EVERYWHERE, ids=named)
def test_every_name_exists(page: Path) -> None:
    """`ns.a.b` and `noshow.a.b`, wherever a page has them."""
    text = page.read_text("utf-8")
    for path in sorted(set(re.findall(r"(?:`noshow|\bns)\.([a-z_]+(?:\.\w+)*)", text))):
        assert found(path), f"{page.name}: noshow.{path}"


def found(path: str) -> bool:
    """Whether noshow has this: a name of the package, of one of its modules, or a group of entry points."""
    here: object = ns
    done = "noshow"
    for part in path.split("."):
        done = f"{done}.{part}"
        if not hasattr(here, part):
            try:
                import_module(done)
            except ImportError:
                return False
        here = getattr(here, part)
    return True


@pytest.mark.parametrize("page", EVERYWHERE, ids=named)
def test_links_lead_somewhere_in_the_repository(page: Path) -> None:
    """As they are read there; the site's own links are checked on the built site."""
    for target in re.findall(r"\]\((?!\w+:)([^)#\s]+)[^)]*\)", FENCE.sub("", page.read_text("utf-8"))):
        place = (page.parent / target).resolve()
        assert place.exists() or place in MADE, f"{page.name} links to {target}"


def test_the_line_of_a_live_round_is_what_the_strategy_logs() -> None:
    members = [Member(number, f"c{number}", 100, None) for number in range(6)]
    call = Call(7, members, np.array([2, 5, 0, 4]), [None] * 4, np.zeros(1))
    silences = [None, Silence("timeout"), None, Silence("error", "ValueError: no data")]
    lines = [block.text for block in blocks(DOCS / "flower.md") if block.text.startswith("round 7")]
    assert lines == [f"{Outcome(call, silences, [None] * 4).line([])}\n"]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("loss 1.24", "loss 1.26"),
        ("fedavg 3", "fedavg 4"),
        ("fedavg\n0.5", "fedavg 0.5 mifa"),
        ("│ 0.352 │ 6.3 │", "│ 0.362 │ 9.9 │"),
    ],
)
def test_another_output_is_noticed(shown: str, printed: str) -> None:
    with pytest.raises(AssertionError):
        compare(shown, printed)


def test_seconds_and_gaps_are_left_open() -> None:
    compare("done in 6.3 s, loss 1.3415", "done in 12.0 s, loss 1.3416")
    compare("│ 0.352 │ 6.3 │", "│ 0.353 │   29.1 │")
    compare("first\n…\nlast", "first\nand\nso on\nlast")


@pytest.mark.parametrize(
    "command",
    [
        "noshow rum synthetic-0.9",
        "noshow run synthetic-0.9 --speed 3",
        "noshow run synthetic-0.95",
        "noshow run synthetic-0.9 --set round=3",
        "noshow reproduce cifar",
        "noshow sweep papergrid",
        "make runs",
        "pip install 'noshow[reports]'",
        "python benchmarks/none.py",
        "rm -rf /",
    ],
)
def test_commands_that_are_not_there_are_noticed(command: str) -> None:
    with pytest.raises((AssertionError, ns.NoshowError)):
        check(command)
