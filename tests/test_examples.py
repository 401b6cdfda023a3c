"""Every example runs as it stands, warnings and all, and its own part stays within ten lines."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {"own_adversary", "own_aggregator", "own_client", "own_dataset"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_ten_lines_are_enough(path: Path) -> None:
    """What is between the imports and the demonstration: the user's own part."""
    text = path.read_text("utf-8")
    own = [
        statement
        for statement in ast.parse(text).body[1:]
        if not isinstance(statement, ast.Import | ast.ImportFrom | ast.If)
    ]
    lines = [line for part in own for line in (ast.get_source_segment(text, part) or "").splitlines() if line.strip()]
    assert 0 < len(lines) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", path], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "train loss" in done.stdout
