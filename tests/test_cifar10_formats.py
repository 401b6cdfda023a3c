"""CIFAR-10's formats, with small fakes of each and with damaged ones."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from noshow import NoshowError
from noshow.datasets import cifar10_formats

BATCHES = cifar10_formats.BATCHES


class Split(NamedTuple):
    images: np.ndarray
    labels: np.ndarray


def fake(each: int, seed: int = 0) -> Split:
    """`each` random images of every label, in random order."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(10), each))
    return Split(rng.integers(0, 256, (len(labels), 32, 32, 3), np.uint8), labels)


def packed(split: Split) -> np.ndarray:
    return np.hstack([split.labels[:, None].astype(np.uint8), split.images.reshape(-1, 3072)])


# Writers of every format.


def encoded(image: np.ndarray, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, kind, lossless=True)
    return file.getvalue()


def parquet(file: Path, split: Split, column: str = "img", plain: bool = False, kind: str = "PNG") -> None:
    cells = [encoded(image, kind) for image in split.images]
    images = pa.array(cells) if plain else pa.array([{"bytes": cell, "path": "x.png"} for cell in cells])
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({column: images, "label": split.labels}), file)


def python_2_pickle(split: Split) -> bytes:
    """A batch, opcode by opcode as Python 2 wrote the original ones: text as `U`, raw data as `T`."""
    n = len(split.labels)
    planes = split.images.transpose(0, 3, 1, 2).tobytes()
    labels = b"".join(b"K" + bytes([label]) for label in split.labels)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09"
        b"(K\x01M" + struct.pack("<H", n) + b"M\x00\x0c\x86"
        b"cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + struct.pack("<I", len(planes)) + planes + b"tb"
    )
    return (
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x05batchq\x03U\x06labelsq\x04]q\x05(" + labels + b"e"
        b"U\x04dataq\x06" + array + b"u."
    )


def python_3_pickle(split: Split) -> bytes:
    planes = split.images.transpose(0, 3, 1, 2).reshape(-1, 3072)
    return pickle.dumps({b"data": planes, b"labels": split.labels.tolist()}, protocol=4)


def batches(train: Split, test: Split) -> dict[str, bytes]:
    parts = zip(np.array_split(train.images, 5), np.array_split(train.labels, 5), strict=True)
    return dict(zip(BATCHES, map(python_2_pickle, [*(Split(*part) for part in parts), test]), strict=True))


def archive(file: Path, contents: dict[str, bytes], mode: str = "w:gz", prefix: str = "", **options: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, mode, **options) as tar:  # type: ignore[call-overload]
        for name, content in contents.items():
            member = tarfile.TarInfo(f"{prefix}cifar-10-batches-py/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def folder_of_batches(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


class TestFormats:
    @pytest.mark.parametrize("kind", ["PNG", "WEBP"])
    @pytest.mark.parametrize("plain", [False, True])
    @pytest.mark.parametrize("column", ["img", "image"])
    def test_parquet(self, tmp_path: Path, kind: str, plain: bool, column: str) -> None:
        one, two = fake(1, 1), fake(2, 2)
        parquet(tmp_path / "a.parquet", one, column, plain, kind)
        parquet(tmp_path / "b.parquet", two, column, plain, kind)
        rows = cifar10_formats.from_parquet([tmp_path / "a.parquet", tmp_path / "b.parquet"])
        assert np.array_equal(rows, np.concatenate([packed(one), packed(two)]))

    def test_jpeg_is_read_though_it_is_lossy(self, tmp_path: Path) -> None:
        flat = Split(np.full((10, 32, 32, 3), 77, np.uint8), np.arange(10))
        parquet(tmp_path / "a.parquet", flat, kind="JPEG")
        rows = cifar10_formats.from_parquet([tmp_path / "a.parquet"])
        np.testing.assert_allclose(rows[:, 1:], 77, atol=3)

    @pytest.mark.parametrize("write", [python_2_pickle, python_3_pickle])
    def test_batches(self, tmp_path: Path, write: Callable[[Split], bytes]) -> None:
        one, two = fake(30, 1), fake(30, 2)
        folder_of_batches(tmp_path / "b", {"data_batch_1": write(one), "data_batch_2": write(two)})
        rows = cifar10_formats.from_batches(tmp_path / "b", ["data_batch_1", "data_batch_2"])
        assert list(rows) == ["data_batch_1", "data_batch_2"]
        assert np.array_equal(np.concatenate(list(rows.values())), np.concatenate([packed(one), packed(two)]))

    def test_all_batches_that_are_missing_are_named_before_one_is_read(self, tmp_path: Path) -> None:
        contents = {name: b"nonsense" for name in BATCHES if name not in ("data_batch_3", "test_batch")}
        folder_of_batches(tmp_path / "b", contents)
        sentence = f"^{tmp_path}/b has no data_batch_3, test_batch: add what is missing, or run `noshow data get"
        self.fails(lambda: cifar10_formats.from_batches(tmp_path / "b"), sentence)

    @pytest.mark.parametrize(
        ("names", "missing"),
        [
            (["train-00000-of-00001", "test-00000-of-00001"], []),
            (["train-00000-of-00001-b2f47ad6", "test-00000-of-00001-c1"], []),
            (["train-a", "train-b", "test-a"], []),
            (["train-00000-of-00003", "test-a"], ["train-00001-of-00003.parquet"]),
            (["train-00001-of-00002-b2f47ad6", "test-a"], ["train-00000-of-00002.parquet"]),
            (["train-00000-of-00001"], ["test-*.parquet"]),
            ([], ["train-*.parquet", "test-*.parquet"]),
        ],
    )
    def test_names_tell_which_shards_are_missing(self, tmp_path: Path, names: list[str], missing: list[str]) -> None:
        for name in names:
            (tmp_path / f"{name}.parquet").touch()
        assert cifar10_formats.missing_shards(tmp_path) == missing

    def test_the_hand_made_pickle_is_what_numpy_reads(self) -> None:
        split = fake(30)
        table = pickle.loads(python_2_pickle(split), encoding="bytes")
        assert np.array_equal(table[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), split.images)
        assert table[b"labels"] == split.labels.tolist()

    @pytest.mark.parametrize("mode", ["w", "w:gz"])
    def test_an_archive_is_read_where_it_lies(self, tmp_path: Path, mode: str) -> None:
        train, test = fake(130, 1), fake(30, 2)
        archive(tmp_path / "a.tar", batches(train, test) | {"../../evil": b"x", "readme.html": b"x"}, mode)
        found = cifar10_formats.batches_in_archive(tmp_path / "a.tar")
        assert list(found) == list(BATCHES)
        assert np.array_equal(np.concatenate(list(found.values())), np.concatenate([packed(train), packed(test)]))
        assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]

    def test_an_archive_may_name_its_members_from_here(self, tmp_path: Path) -> None:
        """As `tar -c ./cifar-10-batches-py` does."""
        test = fake(30, 2)
        archive(tmp_path / "a.tar", batches(fake(130, 1), test), "w", prefix="./")
        assert np.array_equal(cifar10_formats.batches_in_archive(tmp_path / "a.tar")["test_batch"], packed(test))

    @pytest.mark.parametrize(
        "call",
        [
            b"cos\nsystem\n(S'touch ran'\ntR.",
            b'cbuiltins\neval\n(S\'open("ran", "w")\'\ntR.',
            b"cnumpy.core.multiarray\nscalar\n.",
            b"cnumpy\nload\n(S'ran'\ntR.",
            b"c_codecs\nencode\n.",
        ],
    )
    def test_a_pickle_that_asks_for_more_than_data_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: bytes
    ) -> None:
        monkeypatch.chdir(tmp_path)
        folder_of_batches(tmp_path / "b", {"test_batch": call})
        sentence = r"test_batch is not opened, because it asks for [\w.]+, which no data need: remove it"
        with pytest.raises(NoshowError, match=sentence):
            cifar10_formats.from_batches(tmp_path / "b", ["test_batch"])
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            (python_2_pickle(fake(30))[:5000], "is damaged"),
            (b"", "is damaged"),
            (b"<html>404</html>", "is damaged"),
            (pickle.dumps([1, 2], 4), "is no batch of CIFAR-10"),
            (python_2_pickle(fake(30)).replace(b"U\x02u1K\x00K\x01\x87R", b")R"), "is no batch"),
            (pickle.dumps({b"data": 3, b"labels": [1]}, 4), "is no batch"),
            (pickle.dumps({b"data": np.zeros((2, 3072), np.uint8)}, 4), "is no batch"),
            (pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, 4), "is no batch"),
            (pickle.dumps({b"data": np.zeros((2, 768), np.float32), b"labels": [1, 2]}, 4), "is no batch"),
            (pickle.dumps({b"data": np.zeros((2, 3071), np.uint8), b"labels": [1, 2]}, 4), "is no batch"),
            (pickle.dumps({b"data": np.zeros((3072, 2), np.uint8).T, b"labels": [1, 2]}, 4), "is no batch"),
            (pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": ["1"]}, 4), "is no batch"),
            (pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}, 4), r"has the label \[10\]"),
            (pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [-1]}, 4), r"has the label \[-1\]"),
        ],
        ids=lambda value: "content" if isinstance(value, bytes) else None,
    )
    def test_bad_batches(self, tmp_path: Path, content: bytes, sentence: str) -> None:
        folder_of_batches(tmp_path / "b", {"test_batch": content})
        self.fails(lambda: cifar10_formats.from_batches(tmp_path / "b", ["test_batch"]), f"test_batch {sentence}")

    def test_bad_archives(self, tmp_path: Path) -> None:
        whole = tmp_path / "whole.tar.gz"
        archive(whole, batches(fake(130), fake(30)))
        content = whole.read_bytes()
        for bad in (content[: len(content) // 2], content[:40], b"", b"<html>", content[:-6000] + bytes(6000)):
            (tmp_path / "bad.tar.gz").write_bytes(bad)
            self.fails(lambda: cifar10_formats.batches_in_archive(tmp_path / "bad.tar.gz"), "bad.tar.gz")
        archive(tmp_path / "bad.tar.gz", {"data_batch_1": python_2_pickle(fake(30)), "other": b"x"})
        missing = "bad.tar.gz has no data_batch_2, data_batch_3, data_batch_4, data_batch_5, test_batch"
        self.fails(lambda: cifar10_formats.batches_in_archive(tmp_path / "bad.tar.gz"), missing)

    def test_a_link_in_an_archive_is_not_followed(self, tmp_path: Path) -> None:
        with tarfile.open(tmp_path / "a.tar", "w") as tar:
            for name in BATCHES:
                link = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                tar.addfile(link)
        self.fails(lambda: cifar10_formats.batches_in_archive(tmp_path / "a.tar"), "has no data_batch_1")

    @pytest.mark.parametrize(
        ("columns", "sentence"),
        [
            ({"picture": [b""], "label": [1]}, "has no column `img` or `image`"),
            ({"img": [b""]}, "has no column `label`"),
            ({"img": [b""], "label": ["cat"]}, "the column `label` of .* is not of whole numbers"),
            ({"img": [b"", b""], "label": [1, None]}, "is not of whole numbers"),
            ({"img": [b"\x89PNG nonsense"], "label": [1]}, "image 0 of .* is damaged"),
            ({"img": [encoded(np.zeros((32, 32, 3), np.uint8))[:-30]], "label": [1]}, "image 0 of .* is damaged"),
            ({"img": [None], "label": [1]}, "image 0 of .* is missing"),
            ({"img": ["text"], "label": [1]}, "image 0 of .* is missing"),
            ({"img": [encoded(np.zeros((28, 32, 3), np.uint8))], "label": [1]}, "is 32 x 28 RGB, not 32 x 32 RGB"),
            ({"img": [encoded(np.zeros((32, 32), np.uint8))], "label": [1]}, "is 32 x 32 L, not 32 x 32 RGB"),
            ({"img": [encoded(np.zeros((32, 32, 3), np.uint8))], "label": [10]}, r"has the label \[10\]"),
            ({"img": [encoded(np.zeros((32, 32, 3), np.uint8))], "label": [-1]}, r"has the label \[-1\]"),
        ],
    )
    def test_bad_parquet(self, tmp_path: Path, columns: dict[str, list[Any]], sentence: str) -> None:
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        self.fails(lambda: cifar10_formats.from_parquet([tmp_path / "a.parquet"]), sentence)

    @pytest.mark.parametrize("twice", ["img", "image", "label"])
    def test_two_columns_of_a_name(self, tmp_path: Path, twice: str) -> None:
        image, label = pa.array([encoded(fake(1).images[0])]), pa.array([1])
        columns = {"img" if twice == "label" else twice: image, "label": label}
        again = pa.Table.from_arrays([*columns.values(), columns[twice]], names=[*columns, twice])
        pq.write_table(again, tmp_path / "a.parquet")
        self.fails(lambda: cifar10_formats.from_parquet([tmp_path / "a.parquet"]), f"has 2 columns `{twice}`: remove")

    def test_two_fields_of_a_name(self, tmp_path: Path) -> None:
        cells = pa.StructArray.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["bytes", "bytes"])
        pq.write_table(pa.table({"img": cells, "label": [1]}), tmp_path / "a.parquet")
        self.fails(lambda: cifar10_formats.from_parquet([tmp_path / "a.parquet"]), "column `img` of .* cannot be read")

    def test_damaged_parquet(self, tmp_path: Path) -> None:
        parquet(tmp_path / "whole.parquet", fake(3))
        content = (tmp_path / "whole.parquet").read_bytes()
        half = len(content) // 2
        for bad in (content[:half], b"", b"PAR1", content[:half] + bytes(50) + content[half + 50 :]):
            (tmp_path / "bad.parquet").write_bytes(bad)
            self.fails(lambda: cifar10_formats.from_parquet([tmp_path / "bad.parquet"]), "bad.parquet")

    def fails(self, read: Callable[[], object], sentence: str) -> None:
        with pytest.raises(NoshowError, match=sentence) as caught:
            read()
        assert "\n" not in str(caught.value)
        assert "`noshow data get cifar10`" in str(caught.value)
