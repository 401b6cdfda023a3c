"""Parts by name: noshow's own, and those of installed packages.

A package adds parts through entry points, in its pyproject.toml:

    [project.entry-points."noshow.adversaries"]
    sleepy = "my_package:sleepy"

The groups are `noshow.algorithms`, `noshow.adversaries`, `noshow.datasets` and `noshow.models`. Files then name such a
part like one of noshow's, and its settings are its function's own arguments. A package is imported when a file names
its part, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from noshow.errors import NoshowError, require

Part = Callable[..., Any]


class Parts(Mapping[str, Part]):
    """The functions of one kind that files can name.

    Example:
        >>> from noshow.contracts import Model
        >>> parts = Parts("noshow.models", {"mine": lambda: None}, makes=Model)
        >>> "mine" in parts, "yours" in parts
        (True, False)
    """

    def __init__(self, group: str, own: Mapping[str, Part], makes: type) -> None:
        self._group, self._own, self.makes = group, dict(own), makes

    @cached_property
    def _others(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in entry_points(group=self._group):
            rival = "noshow" if point.name in self._own else _package(found.get(point.name))
            require(
                rival in (None, _package(point)),
                f"the package {_package(point)} adds {point.name!r} to {self._group}, which {rival} has already: "
                "uninstall one of them, or rename it",
            )
            found[point.name] = point
        return found

    def __getitem__(self, name: str) -> Part:
        if name in self._own:
            return self._own[name]
        point = self._others[name]
        try:
            part = point.load()
        except Exception as error:  # whatever a package raises while it is imported
            raise NoshowError(
                f"{name!r} of the package {_package(point)} cannot be loaded ({type(error).__name__}: {error}): "
                "mend or uninstall it"
            ) from None
        require(callable(part), f"{name!r} of the package {_package(point)} is no function: it must return the part")
        return part

    def __iter__(self) -> Iterator[str]:
        return iter((*self._own, *self._others))

    def __len__(self) -> int:
        return len(self._own) + len(self._others)

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._others


def _package(point: EntryPoint | None) -> str | None:
    return point.dist.name if point is not None and point.dist is not None else None
