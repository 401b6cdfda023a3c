"""Which releases of Flower this package works with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from noshow.errors import NoshowError, require

SUPPORTED = "1.41"
"""Flower's Message API moves from release to release; this is the one that the tests run."""


def installed() -> str:
    """The release of Flower that is installed; raises where there is none.

    Example:
        >>> installed().startswith(SUPPORTED)
        True
    """
    try:
        return version("flwr")
    except PackageNotFoundError:
        raise NoshowError("noshow.flower needs Flower: pip install 'noshow[flower]'") from None


def check_release(found: str) -> None:
    """Raise unless this release of Flower is supported.

    Example:
        >>> check_release("1.41.0")
        >>> check_release("1.8.0")
        Traceback (most recent call last):
        noshow.errors.NoshowError: flwr 1.8.0 is installed and noshow.flower works with 1.41: pip install 'flwr==1.41.*'
    """
    require(
        found == SUPPORTED or found.startswith(f"{SUPPORTED}."),
        f"flwr {found} is installed and noshow.flower works with {SUPPORTED}: pip install 'flwr=={SUPPORTED}.*'",
    )
