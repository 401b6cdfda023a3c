"""Every example runs as it stands, warnings and all; where it shows a part of one's own, ten lines are enough."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("own_*.py"))


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


ONE_RUNS = [
    pytest.param(path, id=path.stem, marks=[] if path.stem == "own_aggregator" else pytest.mark.long)
    for path in EXAMPLES
]


@pytest.mark.slow
@pytest.mark.parametrize("path", ONE_RUNS)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", path], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "train loss" in done.stdout


@pytest.mark.slow
@pytest.mark.long
def test_the_measured_error_lies_between_the_floor_and_the_ceiling(tmp_path: Path) -> None:
    path = FOLDER / "floor_and_ceiling.py"
    command = [sys.executable, "-W", "error", path, "figure.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "differ by 0" in done.stdout
    floor, measured, ceiling = map(float, re.findall(r"(?:floor|measured|ceiling) ([\d.]+)", done.stdout))
    assert floor < measured < ceiling
    assert (tmp_path / "figure.png").stat().st_size > 10_000
