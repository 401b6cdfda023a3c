"""Marks on functions of ours, for what a call alone does not tell: how they may be used beside being called.

A wrapper may take over a function's attributes, as `functools.wraps` does, but not what they say of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def mark(function: Function, name: str, value: object) -> Function:
    """Mark this function, and none that is made of it."""
    function.__dict__[f"noshow_{name}"] = (function, value)
    return function


def marked(function: Callable[..., Any], name: str) -> Any:
    """What this function is marked with; `None` where it is not.

    Example:
        >>> from functools import wraps
        >>> ours = mark(lambda x: x, "even", True)
        >>> marked(ours, "even"), marked(wraps(ours)(lambda x: x + 1), "even")
        (True, None)
    """
    whose, value = getattr(function, f"noshow_{name}", (None, None))
    return value if whose is function else None
