"""LEAF's Shakespeare task: who speaks which text, what an example is, which examples train and which test.

S. Caldas et al., *LEAF: a benchmark for federated settings*, 2018. The rules read Project Gutenberg's e-book 100 in
its 1994 edition, and give 1,129 speakers with 4,226,158 examples; 660 of the speakers have a test example.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from noshow.errors import NoshowError

WINDOW = 80
"""Characters a model reads to tell the next one."""

FEWEST_LINES = 3
"""Roles with fewer lines are left out."""

TRAIN_SHARE = 0.9

LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""The character table: a character's code is its place here. `"\\n"` has a code, but no speaker's text contains it."""

VOCABULARY = len(LETTERS)
"""How many codes there are."""


class Speaker(NamedTuple):
    """One role in one play, and all it says in that play, as one text."""

    play: str
    role: str
    text: str

    @property
    def examples(self) -> int:
        """How many windows of 80 characters have a next character."""
        return max(0, len(self.text) - WINDOW)


def speakers(works: str) -> list[Speaker]:
    """The speakers in the complete works, in the order in which they first speak.

    - A work starts at a line with "by William Shakespeare"; its title is the nearest line with print, 2 to 7 lines
      above. It is a play if two roles or more speak in it, so that the sonnets and other poems drop out.
    - A speech opens with two spaces, the role's name in letters and spaces, a full stop and a space. It goes on in
      lines indented by four spaces, whatever stands in between, until the next one opens. So the stage directions
      that are indented as far belong to the speech before them.
    - *The Comedy of Errors* is printed without indentation: there a speech goes on in every line up to the next
      opening, the head of an act, or a line that starts with "<" (the publisher's notice).
    - Names are compared in capitals: "Sir Toby" is "SIR TOBY".
    - A speaker's text is its lines, each with a space after it, runs of spaces drawn together into one.
    - Roles with fewer than 3 lines, or with a text too short for one example, are left out.

    LEAF also begins at the second signature and stops at line 124,195 of the file. Both only skip poems, which
    are no plays anyway.

    Example:
        >>> from noshow.datasets.leaf import speakers
        >>> ghost = ["  GHOST. I am thy father's spirit,", "    Doom'd for a certain term to walk the night,",
        ...          "    And for the day confin'd to fast in fires,"]
        >>> play = ["HAMLET", "", "by William Shakespeare", "  HAM. Whither wilt thou lead me?", *ghost]
        >>> [(s.play, s.role, s.examples) for s in speakers("\\n".join(play))]
        [('HAMLET', 'GHOST', 34)]
    """
    return [speaker for title, lines in _works(works) for speaker in _cast(title, lines) if speaker.examples]


def split(examples: int) -> tuple[range, range]:
    """The examples that train and those that test, of one speaker: LEAF's split at 0.9.

    The first 90 % train. The next 79 are skipped, for their windows overlap those that train; the others test. LEAF
    leaves a speaker out who has no test example.

    Example:
        >>> from noshow.datasets.leaf import split
        >>> split(1000)
        (range(0, 900), range(979, 1000))
    """
    train = int(TRAIN_SHARE * examples)
    return range(train), range(train + WINDOW - 1, max(train + WINDOW - 1, examples))


def encode(text: str) -> np.ndarray:
    """The codes of a text's characters: places in `LETTERS`, as uint8.

    LEAF gives a character outside the table the code -1. No speaker's text has one, so here it is an error.

    Example:
        >>> from noshow.datasets.leaf import decode, encode
        >>> encode("To be").tolist()
        [44, 67, 1, 54, 57]
        >>> decode(encode("To be"))
        'To be'
    """
    points = np.frombuffer(text.encode("utf-32-le"), "<u4")
    codes = _CODES[np.minimum(points, len(_CODES) - 1)]
    foreign = np.flatnonzero(codes == VOCABULARY)
    if foreign.size:
        raise NoshowError(f"{text[foreign[0]]!r} is not in LEAF's table of characters: leave it out of the text")
    return codes


def decode(codes: Iterable[int]) -> str:
    """The text with these codes: the inverse of `encode`."""
    return "".join(LETTERS[code] for code in codes)


_CODES = np.full(128, VOCABULARY, np.uint8)  # by code point; the last one stands for all beyond ASCII
_CODES[[ord(letter) for letter in LETTERS]] = range(VOCABULARY)

_SIGNATURE = "by William Shakespeare"
_TITLE_LINES = slice(-7, -1)  # of the lines up to a signature: 2 to 7 above it
_UNINDENTED_PLAY = "THE COMEDY OF ERRORS"
_NOBODY = ""


class _Print(NamedTuple):
    """How a play is printed: what opens a speech, and what a line that goes on with it starts with."""

    opening: re.Pattern[str]
    indent: str


_INDENTED = _Print(re.compile(r"  ([a-zA-Z][a-zA-Z ]*)\. (.*)"), "    ")
_UNINDENTED = _Print(re.compile(r"([a-zA-Z][a-zA-Z ]*)\. (.*)"), "")


def _works(works: str) -> Iterator[tuple[str, list[str]]]:
    """Title and lines of every work."""
    lines = works.splitlines()
    signatures = [number for number, line in enumerate(lines) if _SIGNATURE in line]
    for start, stop in pairwise([*signatures, len(lines)]):
        titles = [line.strip() for line in lines[:start][_TITLE_LINES] if line.strip()]
        yield (titles[-1] if titles else ""), lines[start + 1 : stop]


def _cast(title: str, lines: Iterable[str]) -> list[Speaker]:
    """The roles of a play with lines enough; nobody for a poem."""
    said = _said(lines, _UNINDENTED if title == _UNINDENTED_PLAY else _INDENTED)
    if len(said) < 2:
        return []
    return [Speaker(title, role, _joined(words)) for role, words in said.items() if len(words) >= FEWEST_LINES]


def _said(lines: Iterable[str], layout: _Print) -> dict[str, list[str]]:
    """What each role says, line by line."""
    said: dict[str, list[str]] = defaultdict(list)
    role = _NOBODY
    for line in lines:
        if opening := layout.opening.match(line):
            role, words = opening[1].upper(), opening[2]
        elif line.startswith(layout.indent):
            words = line.removeprefix(layout.indent)
        else:
            continue
        # Neither occurs in an indented play, where heads of acts and the publisher's notice start at the margin.
        if role.startswith("ACT ") or words.startswith("<"):
            role = _NOBODY
        if role != _NOBODY:
            said[role].append(words)
    return said


def _joined(lines: Iterable[str]) -> str:
    return re.sub("  +", " ", "".join(f"{line} " for line in lines))
