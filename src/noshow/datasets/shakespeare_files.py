"""The text of Shakespeare's works that LEAF's counts come from: Project Gutenberg's e-book 100, its 1994 edition."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zipfile
import zlib
from io import FileIO
from os.path import isfile
from pathlib import Path

from noshow.datasets.download import GoneError, download
from noshow.datasets.folder import data_folder, not_here
from noshow.errors import NoshowError, require
from noshow.files import write_whole

NAME = "shakespeare"
WHAT = "Shakespeare's works, Gutenberg e-book 100 of 1994 (LEAF)"
BYTES = 5_589_889
SHA256 = "7a8203c516f67bc90e1dba9e3de401a3c4118cd21bc93dbe9724eee1c83660c7"
ARCHIVE = "1994-01-100.zip"
# LEAF's own address is the second; Project Gutenberg has moved the file since.
URLS = (f"https://www.gutenberg.org/files/100/old/old/{ARCHIVE}", f"https://www.gutenberg.org/files/100/old/{ARCHIVE}")


def text(dir: str | None = None) -> bytes:  # noqa: A002
    """The text, byte for byte as published; raises where it is missing, damaged or another edition.

    Copies differ in the byte order mark and the line ends that systems and archives add or take away: those are
    put right before the text's SHA-256 is compared.
    """
    folder = data_folder(dir)
    file = find(folder)
    if file is None:
        raise not_here("Shakespeare's text", NAME, folder, f"shakespeare.txt (or .txt.xz, .txt.gz) or {ARCHIVE}")
    return _checked(file)


def find(folder: Path) -> Path | None:
    """The file that holds the text, in the folder or in its `shakespeare`; None if there is none."""
    files = (place / name for place in (folder / NAME, folder) for name in _FILES)
    return next((file for file in files if isfile(file)), None)


def get(folder: Path) -> Path:
    """Download the text into the folder and check it."""
    archive, target = folder / NAME / ARCHIVE, folder / NAME / "shakespeare.txt"
    for url in URLS:
        try:
            download(url, archive)
            break
        except GoneError:
            if url == URLS[-1]:
                raise
    try:
        text = _checked(archive)
        write_whole(target, lambda part: part.write_bytes(text))
    finally:
        archive.unlink()
    return target


def _checked(file: Path) -> bytes:
    published = _as_published(_unpacked(file))
    found = hashlib.sha256(published).hexdigest()
    require(
        found == SHA256,
        f"{file} is not the 1994 edition of Gutenberg's e-book 100 that LEAF's counts come from (its SHA-256 is "
        f"{found[:12]}…, not {SHA256[:12]}…): remove it and run `noshow data get {NAME}`",
    )
    return published


_MARK = b"\xef\xbb\xbf"


def _as_published(raw: bytes) -> bytes:
    """The text with its byte order mark, and with CR LF at the end of every line."""
    return _MARK + raw.removeprefix(_MARK).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


_FILES = {
    "shakespeare.txt": FileIO,
    "shakespeare.txt.xz": lzma.LZMAFile,
    "shakespeare.txt.gz": gzip.GzipFile,
    ARCHIVE: zipfile.ZipFile,
}
_DAMAGE = (OSError, EOFError, KeyError, RuntimeError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_LIMIT = 2 * BYTES  # a small file can unpack to a very large one


def _unpacked(file: Path) -> bytes:
    try:
        with _FILES[file.name](file) as opened:
            if not isinstance(opened, zipfile.ZipFile):
                return opened.read(_LIMIT) or b""
            with opened.open("100.txt") as member:
                return member.read(_LIMIT)
    except _DAMAGE as error:
        raise NoshowError(f"{file} cannot be read ({error}): remove it and run `noshow data get {NAME}`") from None
