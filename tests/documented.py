"""What pages say, held against noshow: their code is run, their commands are run or parsed, their output compared."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import typer
from typer.testing import CliRunner

from noshow.cli import app
from noshow.errors import NoshowError
from noshow.paper.experiments import find
from noshow.spec_file import load, preset_names
from noshow.sweep_grid import grid_names

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
TITLE = re.compile(r'title="([^"]+)"')
NUMBER = re.compile(r"\d+(?:\.\d+)?")
DURATION = re.compile(r"[\d.]+(?= s\b| │$)", re.MULTILINE)
"""In what noshow prints, a number before an s, and the last column of a run's table."""


class Block(NamedTuple):
    """A fenced block of a page: its language, the file it is shown as, if any, and what it holds."""

    language: str
    title: str | None
    text: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = FENCE.findall(page.read_text("utf-8"))
    return [
        Block(language, title[1] if (title := TITLE.search(rest)) else None, _outdented(text, indent))
        for indent, language, rest, text in found
    ]


def _outdented(text: str, indent: str) -> str:
    return re.sub(f"^{indent}", "", text, flags=re.MULTILINE)


class Step(NamedTuple):
    """A command that a page shows, and what it prints there."""

    command: str
    shown: str


def steps(block: Block) -> list[Step]:
    """The commands of a console block; a line that ends in a backslash goes on."""
    parts = re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [Step(*(words.strip("\n") for words in (part + "\n").split("\n", 1))) for part in parts]


def play(page: Path) -> None:
    """Everything on a page, from top to bottom, in the folder one is in: a reader who follows it sees what it shows.

    Python runs in one namespace; a `text` block after it is what it prints. A console block that shows output is run,
    one that shows none is only parsed. A block with a title is a file; one without a language is a picture of a screen.
    """
    names: dict[str, Any] = {}
    printed: str | None = None
    for block in blocks(page):
        if block.title is not None:
            Path(block.title).write_text(block.text, "utf-8")
        elif block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block.text, page.name, "exec"), names)
            printed = out.getvalue()
        elif block.language == "text" and printed is not None:
            compare(block.text, printed)
            printed = None
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "console":
            follow(steps(block))


def follow(shown: list[Step]) -> None:
    """Run the commands of a block, if it shows what they print."""
    for step in shown:
        check(step.command)
    if any(step.shown for step in shown):
        for step in shown:
            compare(step.shown, run(shlex.split(step.command, comments=True)))


def run(words: list[str]) -> str:
    """What a command prints, a sentence about bad input included: of `noshow`, or of a program of the repository."""
    program, *arguments = words
    if program == "python":
        command = [sys.executable, "-W", "error", ROOT / arguments[0], *arguments[1:]]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert program == "noshow", f"no test knows how to run: {shlex.join(words)}"
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
    if isinstance(result.exception, NoshowError):
        return f"{result.output}noshow: {result.exception}\n"
    if result.exception is not None:
        raise result.exception
    return result.output


def compare(shown: str, real: str) -> None:
    """What a page shows is what is printed: words as they are, numbers to their last digit, … for whatever is there."""
    pattern, numbers = _pattern(shown)
    found = re.fullmatch(pattern, real.strip(), re.DOTALL)
    assert found is not None, f"shown:\n{shown}\nprinted:\n{real}"
    for number, printed in zip(numbers, found.groups(), strict=True):
        digits = len(number.partition(".")[2])
        assert abs(float(number) - float(printed)) < 1.01 * 10.0**-digits, f"{number} is {printed}:\n{real}"


def _pattern(shown: str) -> tuple[str, list[str]]:
    """A regular expression of what is shown, and the numbers that its groups stand for."""
    shown = DURATION.sub("…", shown.strip())
    whole = [word for word in NUMBER.findall(shown) if "." in word]
    parts = re.split(r"(\d+\.\d+|…|\s+)", shown)
    return "".join(_part(part) for part in parts), whole


def _part(part: str) -> str:
    if part == "…":
        return ".*?"
    if part.isspace():
        return r"\s+"
    return r"(\d+\.\d+)" if re.fullmatch(r"\d+\.\d+", part) else re.escape(part)


def check(command: str, whole: bool = True) -> None:
    """Whether what a page tells to type is there: the command, its options, presets, targets, scripts and extras.

    Of a command that is not `whole`, such as `noshow run --set`, arguments may be missing.
    """
    words = shlex.split(command.replace("…", "ELLIPSIS"), comments=True)
    while words and ("=" in words[0] or words[0] == "srun"):
        words = words[1:]
    match words:
        case ["noshow", *arguments]:
            parse(arguments, whole)
        case ["ssh", *rest]:
            parse(rest[rest.index("noshow") + 1 :], whole)
        case ["make", target, *_]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), command
        case ["python", "-m", "noshow.bench", *arguments]:
            parse(["bench", *arguments], whole)
        case ["python", script, *_] if script.endswith(".py"):
            assert (ROOT / script).is_file(), command
        case [pip, "install", *wanted] if pip.endswith("pip"):
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
            asked = [
                name
                for word in wanted
                for group in re.findall(r"^(?:noshow|\.)\[(.*)\]", word)
                for name in group.split(",")
            ]
            assert set(asked) <= set(extras), command
        case [("cd" | "flwr" | "git" | "python3" | "source" | "ls" | "tensorboard" | "jupyter"), *_]:
            pass  # not ours to check
        case _:
            raise AssertionError(f"no test knows how to check: {command}")


def parse(arguments: list[str], whole: bool = True) -> None:
    """Parse the arguments of `noshow` as the command itself does, without running it."""
    command, name = typer.main.get_command(app), "noshow"
    context: click.Context | None = None
    try:
        while True:
            context = command.make_context(name, list(arguments), parent=context)
            if not isinstance(command, click.Group):
                break
            found, child, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
            assert child is not None
            command, name = child, str(found)
    except click.exceptions.Exit:
        return  # --help and --version
    except click.ClickException as error:
        if not whole and isinstance(error, click.MissingParameter | click.BadOptionUsage):
            return
        raise AssertionError(f"noshow {shlex.join(arguments)}: {error.format_message()}") from None
    _check_names(name, context.params)


def _check_names(command: str, given: dict[str, Any]) -> None:
    """Presets, experiments and grids that are named exist, and take what is set."""
    if command == "run" and not given["source"].endswith(".toml"):
        assert given["source"] in preset_names(), given["source"]
        load(given["source"], given["assignments"] or [], given["setting"], given["scale"])
    if command == "reproduce":
        for name in given["names"] or []:
            assert name.isupper() or find(name)
    if command == "sweep" and (grid := given["source"]) is not None and not grid.endswith(".toml"):
        assert grid in grid_names(), grid


def commands_in_words(page: Path) -> Iterator[str]:
    """Commands in a page's running text, between backticks."""
    for found in re.findall(r"(?<!`)`(noshow [a-z][^`]*)`(?!`)", FENCE.sub("", page.read_text("utf-8"))):
        yield re.sub(r"\s+", " ", found)
