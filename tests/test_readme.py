"""The Python in the README runs as it stands, and its table of what is inside is complete. Docs: `test_docs`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import noshow as ns
from noshow.parts import ADVERSARIES, ALGORITHMS, DATASETS, MODELS, RATES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


def test_everything_inside_is_named() -> None:
    own = [name for module in (ns.aggregators, ns.clients, ns.servers) for name in _functions(module)]
    for name in [*ADVERSARIES, *ALGORITHMS, *DATASETS, *MODELS, *RATES, *own]:
        assert re.search(rf"`{name}\b", README), name


def _functions(module: object) -> list[str]:
    name = module.__name__  # type: ignore[attr-defined]
    return [k for k, v in vars(module).items() if k[0] != "_" and getattr(v, "__module__", "") == name]
