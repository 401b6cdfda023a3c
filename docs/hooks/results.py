"""The page of results on the site: claims that open one by one instead of a table too wide to read, and the figures."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

RESULTS = Path(__file__).parents[2] / "results"
PAGE = "results/README.md"
HEAD = re.compile(r"^\|  \| claim \|.*\n\|[-|]+\|\n", re.MULTILINE)
CLAIM = re.compile(r"^\| (\w+) \| (.*?) \| (.*?) \| \*\*(.*?)\*\* \| (.*?) \| \*\*(.*?)\*\* \| (.*?) \|$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite that page alone."""
    if page.file.src_uri != PAGE:
        return markdown
    return CLAIM.sub(_opening, HEAD.sub("", markdown)) + _gallery()


def _opening(row: re.Match[str]) -> str:
    number, claim, where, written, in_written, published, in_published = row.groups()
    title = f"{number}. {claim} Written: {written}. Published: {published}.".replace('"', "&quot;")
    lines = [where, f"Written: **{written}**. {in_written}", f"Published: **{published}**. {in_published}"]
    return f'??? quote "{title}"\n\n    ' + "\n\n    ".join(lines) + "\n"


def _gallery() -> str:
    """The figures beside the page, each under its experiment and setting."""
    lines = ["\n## Figures\n"]
    for path in sorted(path.relative_to(RESULTS) for path in RESULTS.rglob("*.png")):
        place = PurePosixPath(path)
        title = ", ".join([*place.parts[:-1], *([] if place.stem == "figure" else [place.stem])])
        lines.append(f"\n### {title}\n\n![{title}]({place})\n")
    return "".join(lines)
