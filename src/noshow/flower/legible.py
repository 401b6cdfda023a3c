"""What others send, in a line of the log: it stays one line, of some length, and steers no terminal."""

from __future__ import annotations

from noshow.trace.file import printable

MOST = 120
"""Characters of a name, or of what was seen, that a line has room for."""


def legible(text: str) -> str:
    """The beginning of a text, as a terminal may show it.

    Example:
        >>> legible("hospital-a"), len(legible("a" * 500)), legible("a\\nround 9").isprintable()
        ('hospital-a', 120, True)
    """
    return printable(text if len(text) <= MOST else f"{text[: MOST - 1]}…")
