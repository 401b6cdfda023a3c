"""The page of faults names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::([\w:]+))?`", (ROOT / "docs" / "guarantees.md").read_text())))


def test_the_page_names_some() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_that_it_names_is_there(file: str, name: str) -> None:
    source = (ROOT / file).read_text()
    for part in filter(None, name.split("::")):
        assert re.search(rf"^\s*(def|class) {part}\b", source, re.MULTILINE), f"{file} has no {part}"
