"""The lines of a CSV file that people write by hand, as cells by column; what is wrong in one is told with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from noshow.errors import NoshowError, require

T = TypeVar("T")


class Cells(NamedTuple):
    """One line of the file: where it is, and its cells by the names of their columns."""

    where: str
    texts: dict[str, str]

    def read(self, column: str, kind: Callable[[str], T], words: str) -> T:
        """A cell as `kind` reads it; where that raises ValueError, `words` say what to give."""
        try:
            return kind(self.texts[column])
        except ValueError:
            raise NoshowError(f"{self.where}: {column} is {self.texts[column]!r}: give {words}") from None


def header_of(lines: Any) -> list[str]:
    """The names of the columns, of a `csv.reader` at its first line."""
    return [name.strip() for name in next(lines, [])]


def cells_of(lines: Any, header: list[str], file: Path) -> Iterator[Cells]:
    """The lines of a `csv.reader` that are not empty, each with one cell a column."""
    for texts in lines:
        if texts:
            where = f"line {lines.line_num} of {file}"
            require(len(texts) == len(header), f"{where} has {len(texts)} cells: give {len(header)}, one a column")
            yield Cells(where, dict(zip(header, map(str.strip, texts), strict=True)))


def whole_number(text: str) -> int:
    """A number of decimal digits alone; raises ValueError else.

    Example:
        >>> whole_number("12")
        12
        >>> whole_number("1_2")
        Traceback (most recent call last):
        ValueError
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ValueError
    return int(text)
