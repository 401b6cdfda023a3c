"""Docstrings of noshow end in `Example:`; the site shows that section as Griffe shows `Examples:`, as code."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Example(griffe.Extension):
    """Renames the section in every docstring that is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
