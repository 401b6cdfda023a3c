"""The formats that CIFAR-10 comes in, read to rows of bytes: a label, then 32 x 32 pixels of red, green and blue."""

from __future__ import annotations

import pickle
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from os.path import isfile
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noshow.errors import NoshowError, require

SHAPE = (32, 32, 3)
PIXELS = 32 * 32 * 3
CLASSES = 10
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
MEND = "remove it and run `noshow data get cifar10`"
ADD = "add what is missing, or run `noshow data get cifar10`"

Rows = np.ndarray
"""Examples as bytes [n, 1 + 3072]: the label, then the pixels line by line."""


def pack(images: np.ndarray, labels: np.ndarray, file: Path) -> Rows:
    """Images [n, 32, 32, 3] and their labels [n] as rows; raises where a label is none of the ten."""
    wrong = labels[(labels < 0) | (labels >= CLASSES)]
    require(wrong.size == 0, f"{file} has the label {wrong[:1].tolist()}, and CIFAR-10's are 0 to 9: {MEND}")
    rows = np.empty((len(labels), 1 + PIXELS), np.uint8)
    rows[:, 0], rows[:, 1:] = labels, images.reshape(-1, PIXELS)
    return rows


def from_parquet(files: Sequence[Path]) -> Rows:
    """Hugging Face's files: columns `img` (or `image`), the bytes of an image file, and `label`."""
    return np.concatenate([_of_parquet(file) for file in files])


def missing_shards(folder: Path) -> list[str]:
    """Which Parquet files a folder lacks, as their names tell: of train and of test each the first, if any.

    Names such as `train-00000-of-00002.parquet` say how many there are; of others there has to be one.
    """
    names = {split: [file.name for file in folder.glob(f"{split}-*.parquet")] for split in ("train", "test")}
    return [name for split, there in names.items() for name in _missing_of(split, there)[:1]]


_SHARD = re.compile(r"[a-z]+-(\d{5})-of-(\d{5})\b.*")


def _missing_of(split: str, names: list[str]) -> list[str]:
    there = {(int(match[1]), int(match[2])) for match in map(_SHARD.fullmatch, names) if match}
    wanted = {(number, total) for _, total in there for number in range(total)}
    missing = [f"{split}-{number:05}-of-{total:05}.parquet" for number, total in sorted(wanted - there)]
    return missing if names else [f"{split}-*.parquet"]


def from_batches(folder: Path, names: Sequence[str] = BATCHES) -> dict[str, Rows]:
    """The original batches, or some of them, in a folder."""
    missing = missing_batches(folder, names)
    require(not missing, f"{folder} has no {', '.join(missing)}: {ADD}")
    return {name: _of_batch(_content(folder / name), folder / name) for name in names}


def missing_batches(folder: Path, names: Sequence[str] = BATCHES) -> list[str]:
    """Which of the original batches a folder lacks."""
    return [name for name in names if not isfile(folder / name)]  # not Path.is_file: see `find`


def batches_in_archive(archive: Path) -> dict[str, Rows]:
    """All original batches in an archive. They are read where they lie: nothing is unpacked to disk."""
    wanted = {f"cifar-10-batches-py/{name}": name for name in BATCHES}
    found: dict[str, Rows] = {}
    with _in_one_sentence(archive), tarfile.open(archive) as tar:
        for member in tar:
            name = wanted.get(str(PurePosixPath(member.name)))  # without the ./ that some archives have
            content = tar.extractfile(member) if name and member.isfile() else None
            if name and content is not None:
                found[name] = _of_batch(content.read(_LIMIT), archive / name)
    missing = [name for name in BATCHES if name not in found]
    require(not missing, f"{archive} has no {', '.join(missing)}: {MEND}")
    return found


_LIMIT = 1 << 26  # twice the size of a batch


@contextmanager
def _in_one_sentence(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, tarfile.TarError, zlib.error, pa.ArrowException) as error:
        raise NoshowError(f"{file} cannot be read ({' '.join(str(error).split())}): {MEND}") from None


def _content(file: Path) -> bytes:
    with _in_one_sentence(file), file.open("rb") as opened:
        return opened.read(_LIMIT)


class _Pickled:
    """Stands for whatever NumPy object a pickle makes: keeps what it is made of and runs nothing."""

    state: Any = None

    def __init__(self, *made_of: Any) -> None:
        self.made_of = made_of

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Opens plain containers and NumPy arrays; a pickle that names anything else might run it, and is refused."""

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }
        require((module, name) in known, f"asks for {module}.{name}, which no data need")
        return _Pickled


def _of_batch(content: bytes, file: Path) -> Rows:
    """An original batch: a pickled table whose `data` are bytes [n, 3072], all red, then all green, then all blue."""
    try:
        table = _Unpickler(BytesIO(content), encoding="bytes").load()
    except NoshowError as error:
        raise NoshowError(f"{file} is not opened, because it {error}: {MEND}") from None
    except Exception as error:  # damaged pickles raise almost anything
        raise NoshowError(f"{file} is damaged ({error}): {MEND}") from None
    try:
        planes, labels = _planes(table)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise NoshowError(f"{file} is no batch of CIFAR-10: {MEND}") from None
    return pack(planes.transpose(0, 2, 3, 1), labels, file)


def _planes(table: Any) -> tuple[np.ndarray, np.ndarray]:
    labels = table[b"labels"]
    _, shape, kind, by_column, pixels = table[b"data"].state
    whole = shape == (len(labels), PIXELS) and kind.made_of[0] in (b"u1", "u1") and not by_column
    if not whole or {type(label) for label in labels} != {int}:
        raise ValueError
    return np.frombuffer(pixels, np.uint8).reshape(len(labels), 3, 32, 32), np.array(labels)


def _of_parquet(file: Path) -> Rows:
    with _in_one_sentence(file), pq.ParquetFile(file) as opened:
        return _of_table(opened.read(), file)


def _of_table(table: pa.Table, file: Path) -> Rows:
    columns = [name for name in ("img", "image") if name in table.column_names]
    require(len(columns) > 0, f"{file} has no column `img` or `image`: {MEND}")
    require("label" in table.column_names, f"{file} has no column `label`: {MEND}")
    for name in (columns[0], "label"):
        count = table.column_names.count(name)
        require(count == 1, f"{file} has {count} columns `{name}`: {MEND}")
    labels = table["label"]
    require(
        pa.types.is_integer(labels.type) and labels.null_count == 0,
        f"the column `label` of {file} is not of whole numbers: {MEND}",
    )
    cells = _cells(table[columns[0]], f"the column `{columns[0]}` of {file}")
    images = np.empty((len(cells), *SHAPE), np.uint8)
    for number, cell in enumerate(cells):
        encoded = cell.get("bytes") if isinstance(cell, dict) else cell
        images[number] = _decoded(encoded, f"image {number} of {file}")
    return pack(images, labels.to_numpy(), file)


def _cells(column: pa.ChunkedArray[Any], where: str) -> list[Any]:
    try:
        return column.to_pylist()
    except ValueError as error:  # such as two fields `bytes` in a cell
        raise NoshowError(f"{where} cannot be read ({error}): {MEND}") from None


def _decoded(encoded: Any, where: str) -> np.ndarray:
    from PIL import Image

    require(isinstance(encoded, bytes), f"{where} is missing: {MEND}")
    try:
        with Image.open(BytesIO(encoded), formats=("PNG", "WEBP", "JPEG")) as image:
            kind = (*image.size, image.mode)
            pixels = np.asarray(image) if kind == (32, 32, "RGB") else None
    except Exception as error:  # damaged images make Pillow raise almost anything
        raise NoshowError(f"{where} is damaged ({type(error).__name__}): {MEND}") from None
    if pixels is None:
        raise NoshowError(f"{where} is {kind[0]} x {kind[1]} {kind[2]}, not 32 x 32 RGB: {MEND}")
    return pixels
