"""`noshow bench`: noshow and its peers on the same work, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from noshow.errors import nearest, require


def bench(
    work: Annotated[
        str,
        typer.Option(
            metavar="a,b,c,d,e",
            help="What to time: (a) Synthetic(1,1), (b) the paper's CIFAR-10 round, (c) the Shakespeare LSTM, "
            "(d) pfl-research's CIFAR-10, (e) robust rules.",
        ),
    ] = "a,b,c,d,e",
    repeats: Annotated[int, typer.Option(help="Turns of each contestant.")] = 5,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Also write a page, and its numbers as JSON beside it.")
    ] = None,
) -> None:
    """Time noshow against the peers that are installed, side by side, once all have shown to do the same work."""
    from noshow.bench import page
    from noshow.bench.contest import contest
    from noshow.bench.machine import about
    from noshow.bench.works import WORKS

    letters = [letter.strip() for letter in work.split(",")]
    for letter in letters:
        require(letter in WORKS, f"work {letter!r} is not known: {nearest(letter, WORKS)}")
    require(repeats >= 1, f"repeats is {repeats}: give 1 or more")
    console, here = Console(), about()
    for key, value in here.items():
        console.print(f"{key:<9} {value}", highlight=False, markup=False, soft_wrap=True)
    results = []
    for letter in letters:
        with console.status(f"({letter})") as status:
            for one in WORKS[letter]():
                outcomes = contest(one, repeats, status.update)
                results.append((one, outcomes))
                console.print(page.table(one, outcomes))
                if out:  # after every work: a long benchmark that is stopped leaves what it has
                    page.write(results, here, repeats, out)
