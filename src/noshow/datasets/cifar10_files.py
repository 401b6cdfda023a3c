"""CIFAR-10's files: the original archive, its unpacked folder, or Hugging Face's Parquet files, all to the same arrays.

Every source gives the same arrays in the same order, whatever order its rows have: images are sorted by label, then by
their pixels. So a seed means the same clients on every machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from os.path import isfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noshow.datasets.cifar10_formats import (
    ADD,
    BATCHES,
    CLASSES,
    MEND,
    PIXELS,
    SHAPE,
    Rows,
    batches_in_archive,
    from_batches,
    from_parquet,
    missing_batches,
    missing_shards,
)
from noshow.datasets.download import download
from noshow.datasets.folder import cache_dir, data_folder, not_here
from noshow.errors import require
from noshow.federation import aligned_empty

NAME = "cifar10"
WHAT = "CIFAR-10: 60,000 colour images of 32 x 32 in 10 classes"
BYTES = 170_498_071
MD5 = "c58f30108f718f92721af3b95e74349a"
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
TRAIN, TEST = 50_000, 10_000


class Images(NamedTuple):
    """All images uint8 [n, 32, 32, 3] and labels int32 [n]; the first `trained` train, the others test."""

    images: np.ndarray
    labels: np.ndarray
    trained: int

    @property
    def train(self) -> tuple[np.ndarray, np.ndarray]:
        """Images and labels to train on."""
        return self.images[: self.trained], self.labels[: self.trained]

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """Images and labels to test on."""
        return self.images[self.trained :], self.labels[self.trained :]


def load(dir: str | None = None) -> Images:  # noqa: A002
    """CIFAR-10 from the data folder; raises where it is missing, damaged or incomplete.

    To decode 60,000 images takes seconds, so the arrays are kept in the user's cache (184 MB) for the next time.
    """
    folder = data_folder(dir)
    source = find(folder) or begun(folder)
    if source is None:
        files = "cifar-10-python.tar.gz, the folder cifar-10-batches-py or Hugging Face's plain_text/*.parquet"
        raise not_here("CIFAR-10", NAME, folder, files)
    return _as_images(_through_cache(source))


def find(folder: Path) -> Path | None:
    """What holds CIFAR-10 in the folder or in its `cifar10`: an archive, or a folder of batches or of Parquet files.

    One with files missing is passed over, so that it does not hide the archive that is fetched in its place.
    """
    return next((source for source in _sources(folder) if not missing(source)), None)


def begun(folder: Path) -> Path | None:
    """The first that holds CIFAR-10 or a part of it: where `find` finds nothing, a source with files missing."""
    return next(_sources(folder), None)


def missing(source: Path) -> list[str]:
    """The files that a source lacks, by their names alone: to read all takes seconds."""
    if isfile(source):
        return []
    return missing_batches(source) if _has_batches(source) else missing_shards(source)


def _sources(folder: Path) -> Iterator[Path]:
    for place in (folder / NAME, folder):
        for archive in (place / "cifar-10-python.tar.gz", place / "cifar-10-python.tar"):
            if isfile(archive):  # not Path.is_file, which raises where a folder may not be entered
                yield archive
        for inside in (place / "cifar-10-batches-py", place / "plain_text", place):
            if _has_batches(inside) or any(inside.glob("train-*.parquet")):
                yield inside


def _has_batches(folder: Path) -> bool:
    return len(missing_batches(folder)) < len(BATCHES)


def get(folder: Path) -> Path:
    """Download the original archive into the folder and check it."""
    target = folder / NAME / "cifar-10-python.tar.gz"
    download(URL, target, BYTES, f"md5:{MD5}")
    return target


def read(source: Path) -> tuple[Rows, Rows]:
    """The train and test examples of what `find` found, as they lie there."""
    archive = source.is_file()
    if archive or _has_batches(source):
        batches = batches_in_archive(source) if archive else from_batches(source)
        return np.concatenate([batches[name] for name in BATCHES[:-1]]), batches[BATCHES[-1]]
    shards = missing_shards(source)
    require(not shards, f"{source} has no {', '.join(shards)}: {ADD}")
    train, test = (sorted(source.glob(f"{split}-*.parquet")) for split in ("train", "test"))
    return from_parquet(train), from_parquet(test)


def in_order(rows: Rows) -> Rows:
    """The rows sorted by their bytes: by label, then by pixels. Equal rows are equal examples, so the order is one."""
    return rows[np.argsort(rows.view(f"V{1 + PIXELS}").ravel(), kind="stable")]


def check_complete(train: Rows, test: Rows, source: Path) -> None:
    """Raise unless there are 5,000 train and 1,000 test images of every class."""
    for rows, total, split in ((train, TRAIN, "train"), (test, TEST, "test")):
        require(
            len(rows) == total,
            f"{source} has {len(rows):,} {split} images, and CIFAR-10 has {total:,}: add what is missing, or {MEND}",
        )
        counts = np.bincount(rows[:, 0], minlength=CLASSES)
        require(
            bool(np.all(counts == total // CLASSES)),
            f"{source} has {counts.tolist()} {split} images of the ten classes, and CIFAR-10 {total // CLASSES:,} of "
            f"each: {MEND}",
        )


def _through_cache(source: Path) -> Rows:
    """All examples in order, train before test: from the cache, or from the source and into the cache."""
    cached = cache_dir() / f"{NAME}-{_fingerprint(source)}.npy"
    try:
        rows: Rows = np.load(cached, mmap_mode="r", allow_pickle=False)
        if rows.shape == (TRAIN + TEST, 1 + PIXELS) and rows.dtype == np.uint8:
            return rows
    except (OSError, ValueError, EOFError):
        pass
    train, test = read(source)
    check_complete(train, test, source)
    rows = np.concatenate([in_order(train), in_order(test)])
    _keep(cached, rows)
    return rows


def _keep(cached: Path, rows: Rows) -> None:
    """Write the cache whole or not at all, in place of older ones. A cache that cannot be written is only slow."""
    part = cached.with_name(f".{cached.name}.{os.getpid()}")
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.save(file, rows, allow_pickle=False)
        for old in cached.parent.glob(f"{NAME}-*.npy"):
            old.unlink(missing_ok=True)
        part.replace(cached)
    except OSError:
        pass
    finally:
        if part.parent.is_dir():
            part.unlink(missing_ok=True)


def _fingerprint(source: Path) -> str:
    """Changes when a file of the source does."""
    files = [source] if source.is_file() else sorted(file for file in source.iterdir() if file.is_file())
    facts = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _as_images(rows: Rows) -> Images:
    images = aligned_empty((len(rows), *SHAPE), np.uint8)
    images[...] = rows[:, 1:].reshape(-1, *SHAPE)
    labels = aligned_empty((len(rows),), np.int32)
    labels[...] = rows[:, 0]
    return Images(images, labels, TRAIN)
