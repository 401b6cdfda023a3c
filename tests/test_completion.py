"""TAB in a shell: commands, options, the names that noshow knows, and files where it knows none."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from noshow.cli import app
from noshow.paper.experiments import EXPERIMENTS

ROOT = Path(__file__).parent.parent
PRESETS = sorted(path.stem for path in (ROOT / "src" / "noshow" / "presets").glob("*.toml"))
BESIDE = Path(sys.executable).parent


def offered(line: str) -> list[str]:
    """What bash is told when TAB is pressed at the end of the line."""
    asked = {"_NOSHOW_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    return CliRunner().invoke(app, [], prog_name="noshow", env=asked).stdout.split()


def test_commands() -> None:
    assert set(offered("noshow re")) == {"report", "reproduce"}
    assert {"run", "sweep", "presets", "show", "data", "trace", "new", "bounds"} <= set(offered("noshow "))
    assert {"summary", "plot", "import"} <= set(offered("noshow trace "))


def test_options() -> None:
    assert set(offered("noshow run synthetic-0.9 --se")) == {"--set", "--seeds", "--setting"}
    assert "--version" in offered("noshow --")


def test_names_that_noshow_knows() -> None:
    assert offered("noshow run ") == PRESETS
    assert offered("noshow run syn") == [name for name in PRESETS if name.startswith("syn")]
    assert offered("noshow sweep ") == ["paper-grid"]
    assert set(offered("noshow reproduce ")) > set(EXPERIMENTS)
    assert offered("noshow reproduce synthetic-0.9 ro") == ["round-robin"]


@pytest.mark.parametrize("line", ["noshow run my.t", "noshow run ./", "noshow show ", "noshow report runs/"])
def test_files_are_left_to_the_shell(line: str) -> None:
    """No word of ours, and the script asks bash for its own, `complete -o default`."""
    assert offered(line) == []


@pytest.mark.slow
def test_bash_completes_with_the_script_that_is_shown() -> None:
    """The script, defined in a real bash, called as bash calls it."""
    noshow = BESIDE / "noshow"
    lines = [
        f'eval "$({noshow} --show-completion bash)"',
        "complete -p noshow",
        "COMP_WORDS=(noshow run cifar10-0); COMP_CWORD=2",
        f"_noshow_completion {noshow} cifar10-0 run",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    # Typer asks which shell it is called from, which a test may not be.
    told = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(lines)], capture_output=True, text=True, env=told, check=True
    )
    how, *words = done.stdout.splitlines()
    assert how == "complete -o default -F _noshow_completion noshow"
    assert words == ["cifar10-0.2", "cifar10-0.8"]


@pytest.mark.slow
def test_completion_is_quick() -> None:
    """In processor time, not much more than importing JAX takes, which is most of it; both at their best of three."""
    asked = {"_NOSHOW_COMPLETE": "complete_bash", "COMP_WORDS": "noshow run ", "COMP_CWORD": "2"}
    importing: list[float] = []
    completing: list[float] = []
    for _ in range(3):
        seconds, _ = _seconds([sys.executable, "-c", "import jax"], {})
        importing.append(seconds)
        seconds, words = _seconds([str(BESIDE / "noshow")], asked)
        completing.append(seconds)
        assert words == PRESETS
    assert min(completing) < 2.5 * min(importing)


def _seconds(command: list[str], told: dict[str, str]) -> tuple[float, list[str]]:
    """What a command takes of the processor, and the words that it says."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env={**os.environ, **told}, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout.split()
