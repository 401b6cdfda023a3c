"""The page of the command line, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from noshow.cli import app

PAGE = "reference/command-line.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page."""
    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    """Every command with its arguments and options."""
    command = typer.main.get_command(app)
    lead = "# The command line\n\nWhat `noshow COMMAND --help` says, command by command."
    return "\n\n".join([lead, *_sections(command, click.Context(command, info_name="noshow"))]) + "\n"


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    if not isinstance(command, click.Group):
        usage = f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```"
        yield "\n\n".join([f"## {context.command_path}", usage, command.help or "", _table(command, context)])
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from _sections(child, click.Context(child, info_name=name, parent=context))


def _table(command: click.Command, context: click.Context) -> str:
    rows = [_row(parameter, context) for parameter in command.params if parameter.name != "help"]
    return "\n".join(["| | what it says |", "|---|---|", *rows]) if rows else ""


def _row(parameter: click.Parameter, context: click.Context) -> str:
    default = parameter.get_default(context)
    words = getattr(parameter, "help", None) or ""
    if default not in (None, False) and not callable(default):
        words += f" Left out: {default}."
    metavar = parameter.make_metavar(context)
    flag = isinstance(parameter, click.Option) and parameter.is_flag
    name = metavar if isinstance(parameter, click.Argument) else ", ".join(parameter.opts)
    shown = name if flag or isinstance(parameter, click.Argument) else f"{name} {metavar}"
    return f"| `{shown}` | {words.replace('|', '&#124;')} |"
