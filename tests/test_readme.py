"""The Python in README and docs runs as it stands, and the README's table of what is inside is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import noshow as ns
from noshow.parts import ADVERSARIES, ALGORITHMS, DATASETS, MODELS, RATES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = [
    (path.name, block)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for block in re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
]


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_run(page: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, page, "exec"), {})


def test_links_between_pages_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_everything_inside_is_named() -> None:
    own = [name for module in (ns.aggregators, ns.clients, ns.servers) for name in _functions(module)]
    for name in [*ADVERSARIES, *ALGORITHMS, *DATASETS, *MODELS, *RATES, *own]:
        assert re.search(rf"`{name}\b", README), name


def _functions(module: object) -> list[str]:
    name = module.__name__  # type: ignore[attr-defined]
    return [k for k, v in vars(module).items() if k[0] != "_" and getattr(v, "__module__", "") == name]
