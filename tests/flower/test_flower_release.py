"""Flower is asked for only where it is needed, and a release that is not supported is told in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

FOUND = """
import importlib.metadata, sys
ask = importlib.metadata.version
def version(name):
    if name != "flwr":
        return ask(name)
    {answer}
importlib.metadata.version = version
import noshow
assert not any(name.split(".")[0] == "flwr" for name in sys.modules), "noshow alone needs no Flower"
try:
    import noshow.flower
except noshow.NoshowError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("return '1.22.0'", "flwr 1.22.0 is installed and noshow.flower works with 1.41: pip install 'flwr==1.41.*'"),
        ("return '1.410.0'", "flwr 1.410.0 is installed and noshow.flower works with 1.41: pip install 'flwr==1.41.*'"),
        (
            "raise importlib.metadata.PackageNotFoundError(name)",
            "noshow.flower needs Flower: pip install 'noshow[flower]'",
        ),
        ("return '1.41.3'", ""),
    ],
)
def test_a_wrong_release_gets_one_sentence(answer: str, sentence: str) -> None:
    program = FOUND.format(answer=answer)
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == sentence
