"""Downloads that can be broken off and go on, and that leave a whole, checked file or none."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noshow.errors import NoshowError
from noshow.version import __version__

if TYPE_CHECKING:
    from rich.progress import Progress

CHUNK = 1 << 18
SECONDS_OF_SILENCE = 30.0


class GoneError(NoshowError):
    """The server answers, and has no such file."""


def download(url: str, target: Path, size: int | None = None, checksum: str | None = None) -> None:
    """Fetch a file, show its progress in a terminal, check it, and only then give it its name.

    What has arrived is kept beside the target as `NAME.part`, and the next call asks the server for the rest of it
    (a server that cannot send a part sends the whole again).

    Args:
        size: bytes of the whole file, if known.
        checksum: `"md5:…"` or `"sha256:…"`, if known. A file with another sum is removed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from noshow.datasets.download import download
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     there, here = Path(folder, "there.txt"), Path(folder, "here.txt")
        ...     _ = there.write_bytes(b"abc")
        ...     download(there.as_uri(), here, size=3, checksum="md5:900150983cd24fb0d6963f7d28e17f72")
        ...     here.read_bytes()
        b'abc'
    """
    part = target.with_name(f"{target.name}.part")
    try:
        with _folder_for(target):
            if not _all_there(part, size):
                _fetch(url, part, target, size)
            _check(part, url, size, checksum)
            part.replace(target)
    except OSError as error:
        raise NoshowError(
            f"{target} cannot be written ({error.strerror}): make room or choose another folder, then try again"
        ) from None


@contextmanager
def _folder_for(target: Path) -> Iterator[None]:
    """The folder that a file goes into. Those that are made for it are removed if they stay empty."""
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for folder in made:
            with suppress(OSError):  # it holds something, or was never made
                folder.rmdir()


def _fetch(url: str, part: Path, target: Path, size: int | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    with _answer(url, have, target) as response:
        # A server that ignores the range names none, and sends the file from its beginning.
        start = have if response.headers.get("Content-Range", "").startswith(f"bytes {have}-") else 0
        announced = response.headers.get("Content-Length", "")
        expected = start + int(announced) if announced.isdigit() else size
        with part.open("ab" if start else "wb") as file, _bar(target.name, start, expected) as bar:
            for chunk in _chunks(response, url):
                file.write(chunk)
                bar.advance(bar.task_ids[0], len(chunk))
    arrived = part.stat().st_size
    if expected is not None and arrived < expected:
        raise _broken_off(url, f"{arrived:,} of {expected:,} bytes have arrived")


def _answer(url: str, have: int, target: Path) -> Any:
    headers = {"User-Agent": f"noshow/{__version__}"} | ({"Range": f"bytes={have}-"} if have else {})
    by_hand = f"fetch it by hand and put it at {target}"
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SECONDS_OF_SILENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:  # nothing lies beyond what is here, so it is no beginning of this file
            return _answer(url, 0, target)
        kind = GoneError if error.code in (404, 410) else NoshowError
        raise kind(f"{url} is refused by its server ({error.code} {error.reason}): {by_hand}") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise NoshowError(f"{url} cannot be reached ({reason}): try again with a network, or {by_hand}") from None


def _chunks(response: Any, url: str) -> Iterator[bytes]:
    """What arrives. Errors of the network leave as a sentence: those left to the caller are the disk's."""
    while True:
        try:
            chunk = response.read(CHUNK)
        except (OSError, HTTPException) as error:
            raise _broken_off(url, str(error)) from None
        if not chunk:
            return
        yield chunk


def _broken_off(url: str, how: str) -> NoshowError:
    return NoshowError(f"the download of {url} broke off ({how}): the same command goes on from there")


def _bar(name: str, start: int, expected: int | None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    bar.add_task(name, total=expected, completed=start)
    return bar


def _all_there(part: Path, size: int | None) -> bool:
    return size is not None and part.exists() and part.stat().st_size >= size


def _check(part: Path, url: str, size: int | None, checksum: str | None) -> None:
    arrived = part.stat().st_size
    wrong = None if size in (None, arrived) else f"{arrived:,} bytes, not {size:,}"
    if wrong is None and checksum is not None:
        kind, _, expected = checksum.partition(":")
        with part.open("rb") as file:
            found = hashlib.file_digest(file, kind).hexdigest()
        wrong = None if found == expected else f"{kind} {found}, not {expected}"
    if wrong is not None:
        part.unlink()
        raise NoshowError(f"what {url} sent is not the file it should be ({wrong}) and was removed: try again later")
