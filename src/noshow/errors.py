"""The one exception a user should ever see."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class NoshowError(ValueError):
    """Bad input, told in one sentence: what is wrong and how to mend it.

    The command line prints the sentence and exits with code 2.

    Example:
        >>> import noshow as ns
        >>> ns.rates.constant(-1.0)
        Traceback (most recent call last):
        noshow.errors.NoshowError: rate is -1.0: give a number above zero
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))  # one line, whatever others' words in it hold


def require(condition: bool, sentence: str) -> None:
    """Raise `NoshowError(sentence)` unless the condition holds."""
    if not condition:
        raise NoshowError(sentence)


def whole(number: Any, said: str) -> int:
    """A whole number as Python's own, such as NumPy's; raises `NoshowError`, which begins with what was `said`, else.

    Example:
        >>> whole(2.5, "steps is 2.5")
        Traceback (most recent call last):
        noshow.errors.NoshowError: steps is 2.5: give a whole number
    """
    try:
        require(not isinstance(number, bool), f"{said}: give a whole number")
        return operator.index(number)
    except TypeError:
        raise NoshowError(f"{said}: give a whole number") from None


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or all of them if none is close."""
    options = sorted(known)
    close = get_close_matches(word, options, n=1, cutoff=0.5)
    if not options:
        return "there are none"
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(options)}"
