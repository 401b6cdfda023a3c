"""What others send, in a line of the log: it stays one line, of some length, and steers no terminal."""

from __future__ import annotations

MOST = 120
"""Characters of a name, or of what was seen, that a line has room for."""


def legible(text: str) -> str:
    """The beginning of a text, with marks in the place of what is not printed.

    Example:
        >>> legible("a\\nround 9: all is well\\x1b[31m"), len(legible("a" * 500))
        ('a?round 9: all is well?[31m', 120)
    """
    short = text if len(text) <= MOST else f"{text[: MOST - 1]}…"
    return "".join(letter if letter.isprintable() else "?" for letter in short)
