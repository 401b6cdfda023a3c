"""The page: contents, style, program and plotly's, in one file that asks for nothing else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from noshow.errors import NoshowError
from noshow.federation import Federation
from noshow.files import write_whole
from noshow.history import History
from noshow.report.contents import contents, contents_of

STYLE = ("colours.css", "base.css", "page.css", "parts.css", "media.css")
PROGRAM = ("page.js", "curves.js", "tables.js", "picture.js", "attendance.js", "start.js")
"""The files of the page's style and program, in the order in which they are put together."""


def write_report(runs: Sequence[Path], out: Path) -> None:
    """Write the report of some run folders, whole or not at all.

    Example:
        >>> from pathlib import Path
        >>> write_report([Path("nowhere")], Path("report.html"))
        Traceback (most recent call last):
        noshow.errors.NoshowError: nowhere is no run folder: it has no spec.toml
    """
    _write(page(runs), out)


def write_comparison(histories: Sequence[History], federation: Federation, out: Path) -> None:
    """Write the report of histories that are in no run folder, whole or not at all."""
    plotly = plotly_js()
    _write(_page(contents_of(histories, federation), plotly), out)


def page(runs: Sequence[Path]) -> str:
    """The report of some run folders as HTML."""
    plotly = plotly_js()  # told if it is missing, before anything is read
    return _page(contents(runs), plotly)


def _write(text: str, out: Path) -> None:
    write_whole(out, lambda part: part.write_text(text, "utf-8"))


def _page(shown: dict[str, Any], plotly: str) -> str:
    early, program = asset("theme.js"), "".join(map(asset, PROGRAM))
    return filled(
        asset("report.html"),
        {
            "policy": _policy(early, program, plotly),
            "title": html.escape(" · ".join(run["title"] for run in shown["runs"])),
            "style": "".join(map(asset, STYLE)),
            "early": early,
            "contents": as_json(shown),
            "plotly": base64.b64encode(gzip.compress(plotly.encode("utf-8"), 9, mtime=0)).decode("ascii"),
            "program": program,
        },
    )


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with its {{names}} replaced, once: what parts say is never taken for a name.

    Example:
        >>> filled("<b>{{one}}</b>{{two}}", {"one": "{{two}}", "two": "2"})
        '<b>{{two}}</b>2'
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def as_json(value: Any) -> str:
    """JSON that can stand inside a script element: nothing in it can end the element, or start another.

    Example:
        >>> print(as_json({"name": "</script><b>&"}))
        {"name":"\\u003c/script\\u003e\\u003cb\\u003e\\u0026"}
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(*programs: str) -> str:
    """What the page may do: run these programs, and style itself. Nothing is fetched or sent."""
    return (
        f"default-src 'none'; script-src {known(*programs)}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def known(*programs: str) -> str:
    """Programs as a policy names those that may run: by their hashes.

    Example:
        >>> known("")
        "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    hashes = (base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in programs)
    return " ".join(f"'sha256-{digest}'" for digest in hashes)


def plotly_js() -> str:
    """The program that draws the charts."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError:
        raise NoshowError("a report needs plotly: pip install 'noshow[report]'") from None
    return str(get_plotlyjs())


def asset(name: str) -> str:
    """A file of the page's style, program or frame."""
    return files("noshow.report").joinpath("assets", name).read_text("utf-8")
