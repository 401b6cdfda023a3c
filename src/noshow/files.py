"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noshow.errors import NoshowError


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a file under another name, then rename it, in a folder that is made where it is missing.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_whole(Path(folder) / "new" / "note.txt", lambda part: part.write_text("whole"))
        ...     [file.name for file in (Path(folder) / "new").iterdir()]
        ['note.txt']
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(part)
        part.replace(path)
    except OSError as error:
        raise NoshowError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        if part.parent.is_dir():
            part.unlink(missing_ok=True)
