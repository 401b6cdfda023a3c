"""What a contest came to, as a table on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from noshow.bench.contest import Outcome, Work
from noshow.bench.spread import Spread, ratios

Results = Sequence[tuple[Work, list[Outcome]]]


def columns(work: Work) -> list[str]:
    """The heads of a work's table."""
    projected = [f"{work.whole} rounds"] if work.whole else []
    return ["", f"ms a {work.unit}", "lowest – highest", "times noshow", "apart", *projected]


def row(work: Work, outcome: Outcome, own: Outcome) -> list[str]:
    """A contestant's line: its times and their ratio to noshow's, or why it has none."""
    apart = "" if not outcome.apart else f"{outcome.apart:.0e}"
    blank = [""] * (len(columns(work)) - 5)
    if outcome.reason is not None:
        return [outcome.name, outcome.reason, "", "", apart, *blank]
    times, ratio = Spread.of(outcome.seconds), ratios(outcome.seconds, own.seconds)
    return [
        outcome.name,
        milliseconds(times.median),
        f"{milliseconds(times.low)} – {milliseconds(times.high)}",
        "1" if outcome is own else f"{ratio.median:.2f} ({ratio.low:.2f} – {ratio.high:.2f})",
        apart,
        *([f"{work.whole * times.median / 60:,.1f} min"] if work.whole else []),
    ]


def milliseconds(seconds: float) -> str:
    """Three figures or so.

    Example:
        >>> milliseconds(0.0054321), milliseconds(0.0612), milliseconds(2.5)
        ('5.43', '61.2', '2,500')
    """
    ms = 1000 * seconds
    return f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"


def table(work: Work, outcomes: list[Outcome]) -> Table:
    """A work's table for the terminal."""
    made = Table(*columns(work), title=f"({work.letter}) {work.title}", title_justify="left")
    for outcome in outcomes:
        made.add_row(*row(work, outcome, outcomes[0]))
    return made


def markdown(results: Results, about: dict[str, str], repeats: int) -> str:
    """The whole page."""
    lines = [
        "# noshow and its peers, side by side",
        "",
        f"Medians of {repeats} turns, taken one after the other (noshow, peer, peer, …, noshow, …). `times noshow` is "
        "the median (lowest – highest) of each turn's ratio to noshow's own turn of the same repeat: above 1, noshow "
        "is faster. `apart` is how far the peer's model ended from noshow's in the check before, as a share of the way "
        "from the start.",
        "",
        *(f"- {key}: {f'`{value}`' if key == 'command' else value}" for key, value in about.items()),
    ]
    for work, outcomes in results:
        heads = columns(work)
        lines += ["", f"## ({work.letter}) {work.title}", ""]
        lines += ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
        lines += ["| " + " | ".join(row(work, outcome, outcomes[0])) + " |" for outcome in outcomes]
    return "\n".join(lines) + "\n"


def as_json(results: Results, about: dict[str, str], repeats: int) -> dict[str, Any]:
    """Every turn's seconds, for those who want to reckon for themselves."""
    works = [
        {
            "letter": work.letter,
            "title": work.title,
            "unit": work.unit,
            "outcomes": [vars(outcome) for outcome in outcomes],
        }
        for work, outcomes in results
    ]
    return {"about": about, "repeats": repeats, "works": works}


def write(results: Results, about: dict[str, str], repeats: int, out: Path) -> None:
    """The page, and its numbers as JSON beside it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(markdown(results, about, repeats), encoding="utf-8")
    numbers = json.dumps(as_json(results, about, repeats), indent=1)
    out.with_suffix(".json").write_text(numbers + "\n", encoding="utf-8")
