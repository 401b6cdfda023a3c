"""CIFAR-10's files: the same arrays from every source, the cache, and the real data where they are."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from test_cifar10_formats import Split, archive, batches, fake, folder_of_batches, packed, parquet
from test_datasets_folder import without_settings

from noshow import NoshowError
from noshow.datasets import cifar10_files
from noshow.datasets.cifar10 import DEVIATIONS, MEANS, cifar10
from noshow.datasets.folder import cache_dir


@given(arrays.arrays(np.uint8, st.tuples(st.integers(0, 6), st.just(3073)), elements=st.integers(0, 3)))
def test_the_order_is_that_of_the_bytes(rows: np.ndarray) -> None:
    assert [row.tobytes() for row in cifar10_files.in_order(rows)] == sorted(row.tobytes() for row in rows)


TRAIN, TEST = fake(20, 1), fake(2, 2)


def write_archive(folder: Path) -> Path:
    archive(folder / "cifar-10-python.tar.gz", batches(TRAIN, TEST))
    return folder / "cifar-10-python.tar.gz"


def write_plain_archive(folder: Path) -> Path:
    archive(folder / "cifar-10-python.tar", batches(TRAIN, TEST), "w")
    return folder / "cifar-10-python.tar"


def write_batches(folder: Path) -> Path:
    folder_of_batches(folder / "cifar-10-batches-py", batches(TRAIN, TEST))
    return folder / "cifar-10-batches-py"


def write_parquet(folder: Path) -> Path:
    """In another order, and in two files."""
    order = np.random.default_rng(3).permutation(len(TRAIN.labels))
    shuffled = Split(TRAIN.images[order], TRAIN.labels[order])
    for number, part in enumerate((slice(None, 77), slice(77, None))):
        shard = Split(shuffled.images[part], shuffled.labels[part])
        parquet(folder / "plain_text" / f"train-0000{number}-of-00002.parquet", shard)
    parquet(folder / "plain_text" / "test-00000-of-00001.parquet", TEST)
    return folder / "plain_text"


WRITERS = [write_archive, write_plain_archive, write_batches, write_parquet]


class TestLoad:
    @pytest.fixture(autouse=True)
    def small(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        without_settings(monkeypatch, tmp_path / "user")
        monkeypatch.setattr(cifar10_files, "TRAIN", len(TRAIN.labels))
        monkeypatch.setattr(cifar10_files, "TEST", len(TEST.labels))

    @pytest.fixture
    def cache(self) -> Path:
        return cache_dir()

    @pytest.mark.parametrize("inside", ["", "cifar10"])
    @pytest.mark.parametrize("write", WRITERS)
    def test_every_source_gives_the_same(self, tmp_path: Path, write: Callable[[Path], Path], inside: str) -> None:
        place = write(tmp_path / "data" / inside)
        assert cifar10_files.find(tmp_path / "data") == place
        loaded = cifar10_files.load(str(tmp_path / "data"))
        for split, (images, labels) in ((TRAIN, loaded.train), (TEST, loaded.test)):
            expected = np.array(sorted(row.tolist() for row in packed(split)))
            assert images.dtype == np.uint8
            assert labels.dtype == np.int32
            assert np.array_equal(labels, expected[:, 0])
            assert np.array_equal(images.reshape(-1, 3072), expected[:, 1:])

    @pytest.mark.parametrize("write", [write_batches, write_parquet])
    def test_the_folder_itself_may_be_named(self, tmp_path: Path, write: Callable[[Path], Path]) -> None:
        place = write(tmp_path / "data")
        assert cifar10_files.find(place) == place

    def test_the_second_time_comes_from_the_cache(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
    ) -> None:
        source = write_archive(tmp_path / "data")
        monkeypatch.setenv("NOSHOW_DATA", str(tmp_path / "data"))
        once = cifar10_files.load()
        monkeypatch.setattr(cifar10_files, "read", lambda source: pytest.fail("read again"))
        twice = cifar10_files.load()
        assert np.array_equal(once.images, twice.images)
        assert np.array_equal(once.labels, twice.labels)
        assert len(list(cache.iterdir())) == 1
        os.utime(source, ns=(0, 0))  # a changed source is read anew
        with pytest.raises(pytest.fail.Exception, match="read again"):
            cifar10_files.load()

    def test_a_new_cache_replaces_the_old(self, tmp_path: Path, cache: Path) -> None:
        source = write_archive(tmp_path / "data")
        cifar10_files.load(str(tmp_path / "data"))
        (old,) = cache.iterdir()
        os.utime(source, ns=(0, 0))
        cifar10_files.load(str(tmp_path / "data"))
        (new,) = cache.iterdir()
        assert new != old

    @pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"other"])
    def test_a_damaged_cache_is_made_anew(self, tmp_path: Path, cache: Path, content: bytes) -> None:
        write_archive(tmp_path / "data")
        once = cifar10_files.load(str(tmp_path / "data"))
        (file,) = cache.iterdir()
        whole = file.read_bytes()
        file.write_bytes(content)
        assert np.array_equal(cifar10_files.load(str(tmp_path / "data")).images, once.images)
        assert file.read_bytes() == whole

    def test_without_a_cache_it_is_only_slow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "taken").write_bytes(b"")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
        write_archive(tmp_path / "data")
        assert len(cifar10_files.load(str(tmp_path / "data")).labels) == 220

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(NoshowError) as caught:
            cifar10_files.load(str(tmp_path / "data"))
        for part in (f"{tmp_path}/data/cifar10", "`noshow data get cifar10`", "cifar-10-python.tar.gz", "data use DIR"):
            assert part in str(caught.value)

    @pytest.mark.parametrize(
        ("each", "sentence"),
        [
            ((19, 2), "has 190 train images, and CIFAR-10 has 200: add what is missing, or remove it and run"),
            ((20, 3), "has 30 test images, and CIFAR-10 has 20"),
        ],
    )
    def test_incomplete(self, tmp_path: Path, cache: Path, each: tuple[int, int], sentence: str) -> None:
        for split, name in zip(map(fake, each), ("train", "test"), strict=True):
            parquet(tmp_path / f"{name}-00000-of-00001.parquet", split)
        with pytest.raises(NoshowError, match=sentence):
            cifar10_files.load(str(tmp_path))
        assert not cache.exists()

    def test_uneven_classes(self, tmp_path: Path) -> None:
        parquet(tmp_path / "train-00000-of-00001.parquet", TRAIN)
        parquet(tmp_path / "test-00000-of-00001.parquet", TEST._replace(labels=(TEST.labels // 9) * 9))
        with pytest.raises(NoshowError, match=r"has \[18, 0, 0, 0, 0, 0, 0, 0, 0, 2\] test images of the ten classes"):
            cifar10_files.load(str(tmp_path))

    def test_no_test_files(self, tmp_path: Path) -> None:
        parquet(tmp_path / "train-00000-of-00001.parquet", TRAIN)
        with pytest.raises(NoshowError, match=r"has no test-\*.parquet: add what is missing, or run"):
            cifar10_files.load(str(tmp_path))

    @pytest.mark.parametrize("inside", ["", "cifar10"])
    @pytest.mark.parametrize(
        ("write", "removed"),
        [
            (write_batches, "data_batch_3"),
            (write_batches, "test_batch"),
            (write_parquet, "train-00001-of-00002.parquet"),
            (write_parquet, "test-00000-of-00001.parquet"),
        ],
    )
    @pytest.mark.parametrize("archived", [write_archive, write_plain_archive])
    def test_a_part_is_told_and_makes_way_for_the_archive(
        self,
        tmp_path: Path,
        write: Callable[[Path], Path],
        removed: str,
        inside: str,
        archived: Callable[[Path], Path],
    ) -> None:
        part = write(tmp_path / inside)
        (part / removed).unlink()
        named = removed.replace("00000-of-00001", "*")
        assert cifar10_files.find(tmp_path) is None
        with pytest.raises(NoshowError) as caught:
            cifar10_files.load(str(tmp_path))
        assert str(caught.value) == f"{part} has no {named}: add what is missing, or run `noshow data get cifar10`"
        archive = archived(tmp_path / "cifar10")
        assert cifar10_files.find(tmp_path) == archive
        assert len(cifar10_files.load(str(tmp_path)).labels) == 220

    def test_a_part_does_not_hide_what_is_whole_elsewhere(self, tmp_path: Path) -> None:
        (write_batches(tmp_path / "cifar10") / "data_batch_3").unlink()
        whole = write_parquet(tmp_path)
        assert cifar10_files.find(tmp_path) == whole
        assert len(cifar10_files.load(str(tmp_path)).labels) == 220


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cifar10_files.Images]:
    """The real data, decoded once for all workers."""
    if not (DATA / "cifar10").is_dir():
        pytest.skip(f"CIFAR-10 is not in {DATA}")
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    with pytest.MonkeyPatch.context() as patch, (shared / "cifar10.lock").open("w") as lock:
        without_settings(patch, shared)
        fcntl.flock(lock, fcntl.LOCK_EX)
        images = cifar10_files.load(str(DATA))
        fcntl.flock(lock, fcntl.LOCK_UN)
        yield images


@pytest.mark.slow
class TestReal:
    def test_the_images(self, real: cifar10_files.Images) -> None:
        assert real.train[0].shape == (50_000, 32, 32, 3)
        assert real.test[0].shape == (10_000, 32, 32, 3)
        assert hashlib.sha256(real.images.tobytes()).hexdigest().startswith("abb47a454cd6f8cb")

    def test_the_channels_are_normalised_by_their_own_means_and_deviations(self, real: cifar10_files.Images) -> None:
        counts = np.stack([np.bincount(real.train[0][..., channel].ravel(), minlength=256) for channel in range(3)])
        shares, levels = counts / counts.sum(axis=1, keepdims=True), np.arange(256) / 255
        means = shares @ levels
        assert np.round(means, 4).tolist() == list(MEANS)
        assert np.round(np.sqrt(shares @ levels**2 - means**2), 4).tolist() == list(DEVIATIONS)

    def test_the_federation_of_the_paper(self, real: cifar10_files.Images) -> None:
        federation = cifar10(dir=str(DATA))
        assert federation.held.tolist() == [500] * 100
        assert sorted(federation.data.tolist()) == list(range(50_000))
        assert federation.sizes.tolist() == [100] * 100

    def test_the_original_archive_gives_the_same(self, real: cifar10_files.Images, tmp_path: Path) -> None:
        order = np.random.default_rng(0).permutation(50_000)
        train = Split(real.train[0][order], real.train[1][order])
        contents = batches(train, Split(*real.test))
        archive(tmp_path / "cifar-10-python.tar.gz", contents, compresslevel=1)
        train_rows, test_rows = cifar10_files.read(cifar10_files.find(tmp_path) or tmp_path)
        cifar10_files.check_complete(train_rows, test_rows, tmp_path)
        for rows, (images, labels) in ((train_rows, real.train), (test_rows, real.test)):
            ordered = cifar10_files.in_order(rows)
            assert np.array_equal(ordered[:, 0], labels)
            assert np.array_equal(ordered[:, 1:], images.reshape(-1, 3072))
