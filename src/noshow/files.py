"""Files and folders that are there whole or not at all, whenever the process or the machine ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noshow.errors import NoshowError


def write_whole(path: Path, write: Callable[[Path], Any], lasting: bool = True) -> None:
    """Let `write` fill a file under another name, then rename it, in a folder that is made where it is missing.

    A lasting file is on the disk before it takes its name; one that is written again in a moment need not be.

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
        if lasting:
            _settle(part)
        part.replace(path)
        if lasting:
            _settle(path.parent)
    except OSError as error:
        raise NoshowError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        if part.parent.is_dir():
            part.unlink(missing_ok=True)


def write_whole_folder(place: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a folder under another name, then rename it; an earlier one makes way at that moment only.

    Should the process end right then, `mend_folder` brings the earlier one back.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for word in ("first", "second"):
        ...         write_whole_folder(Path(folder) / "notes", lambda part: (part / "note.txt").write_text(word))
        ...     (Path(folder) / "notes" / "note.txt").read_text()
        'second'
    """
    part: Path | None = None
    try:
        part = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        write(part)
        part.chmod(0o755)
        for file in (*part.iterdir(), part):
            _settle(file)
        if place.exists():
            place.rename(_aside(place))
        part.rename(place)
        _settle(place.parent)
    except OSError as error:
        raise NoshowError(f"{place} cannot be written: {error.strerror or error}") from None
    finally:
        mend_folder(place)
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)


def mend_folder(place: Path) -> None:
    """Bring back the earlier folder where the new one never took its place; remove it where it did."""
    if not place.exists() and _aside(place).exists():
        _aside(place).rename(place)
    shutil.rmtree(_aside(place), ignore_errors=True)


def _aside(place: Path) -> Path:
    return place.with_name(f".{place.name}.earlier")


def _settle(path: Path) -> None:
    """Wait until what was written to a file or folder is on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
