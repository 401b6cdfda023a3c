"""The command `noshow report`: runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders; several are compared.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write it.")] = Path("report.html"),
) -> None:
    """Show runs in one HTML file: curves, final numbers, who was silenced, and what ran on what."""
    from noshow.report import write_report

    write_report(runs, out)
    Console().print(f"report: {out}", soft_wrap=True, highlight=False, markup=False)
