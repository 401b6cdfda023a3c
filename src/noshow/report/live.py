"""The page around a report that follows a run: a panel with what runs now, fed by `noshow.watch_page`."""

from __future__ import annotations

import html
from typing import NamedTuple

from noshow.report.page import asset, filled, known


class Live(NamedTuple):
    """The page, and what it may do: run its own program, ask the server it came from, and frame a page of it."""

    text: str
    policy: str


def live_page() -> Live:
    """The page, the same for every run: all that it shows it asks for.

    Example:
        >>> live_page().policy.split("; ")[2:4]
        ["connect-src 'self'", "frame-src 'self'"]
    """
    program = asset("live.js")
    style = "".join(map(asset, ("colours.css", "base.css", "live.css")))
    text = filled(asset("live.html"), {"style": style, "program": program})
    policy = (
        f"default-src 'none'; script-src {known(program)}; connect-src 'self'; frame-src 'self'; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Live(text, policy)


def sentence_page(sentence: str) -> str:
    """A page that says why there is no report.

    Example:
        >>> "&lt;b&gt;" in sentence_page("<b>")
        True
    """
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>noshow</title><p>{html.escape(sentence)}</p>'
