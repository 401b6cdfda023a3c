"""The names that a shell offers after TAB. Where none fits, it offers files by itself."""

from __future__ import annotations

# Imported inside, since every call of the command defines its completions and few are asked for them.


def presets() -> list[str]:
    """Experiments for `noshow run`.

    Example:
        >>> "synthetic-0.9" in presets()
        True
    """
    from noshow.spec_file import preset_names

    return preset_names()


def grids() -> list[str]:
    """Grids for `noshow sweep`.

    Example:
        >>> grids()
        ['paper-grid']
    """
    from noshow.sweep_grid import grid_names

    return grid_names()


def experiments() -> list[str]:
    """What `noshow reproduce` knows: experiments and pictures of data.

    Example:
        >>> "round-robin" in experiments(), "power-law" in experiments()
        (True, True)
    """
    from noshow.paper.experiments import names

    return names()
