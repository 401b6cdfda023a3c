"""The command `noshow watch`: a run, from another terminal or in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from noshow.cli_flags import start_on
from noshow.errors import require
from noshow.interrupt import told_when_stopped


def watch(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    browser: Annotated[
        bool, typer.Option("--browser", help="As a page on this machine, with the report of what is finished.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="The page's port, with --browser; a free one if left out.")
    ] = None,
) -> None:
    """Follow a run that another process runs, until it is finished; Ctrl-C ends the watching, not the run."""
    from noshow.display import result_table
    from noshow.watch import Watched
    from noshow.watch_display import follow
    from noshow.watch_page import serve

    require(port is None or browser, "--port is the page's: give --browser as well")
    require(port is None or 0 <= port < 65536, f"port is {port}: give a number from 0 to 65535")
    start_on("cpu", None)  # an accelerator is the run's
    console = Console()
    with told_when_stopped("not watching any more; the run is left as it is"):
        if browser:
            serve(run, console, port or 0)
        else:
            console.print(result_table(follow(Watched(run), console)))
