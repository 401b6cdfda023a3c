"""Named arrays in a plain .npz file; nothing in it is ever executed."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from noshow.errors import NoshowError


def save_arrays(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_arrays(Path(folder) / "two.npz", {"a": np.zeros(2), "b": np.ones(1)})
        ...     sorted(load_arrays(Path(folder) / "two.npz"))
        ['a', 'b']
    """
    with file.open("wb") as opened:
        np.savez(opened, allow_pickle=False, **arrays)


def load_arrays(file: Path) -> dict[str, np.ndarray]:
    """All arrays in a file; raises where it is damaged."""
    try:
        # A file of our own: NumPy leaves a damaged one open.
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (
        OSError,
        EOFError,
        ValueError,
        TypeError,
        AttributeError,
        NotImplementedError,
        MemoryError,
        SyntaxError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise NoshowError(f"{file} is damaged ({error}): remove it and run again") from None
