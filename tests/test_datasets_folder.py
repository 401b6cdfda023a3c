"""Where data files are looked for, and the Shakespeare text found there."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest
from conftest import DATA
from test_download import Site, serving

from noshow import NoshowError
from noshow.datasets import shakespeare_files
from noshow.datasets.folder import cache_dir, config_dir, data_folder, remember
from noshow.files import write_whole


def without_settings(patch: pytest.MonkeyPatch, home: Path) -> Path:
    """A user who lives in `home` and has set nothing."""
    for variable in ("NOSHOW_DATA", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        patch.delenv(variable, raising=False)
    patch.setenv("HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return without_settings(monkeypatch, tmp_path / "user")


class TestFolder:
    def test_the_first_that_is_set_is_taken(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert data_folder() == home / ".local/share/noshow"
        monkeypatch.setenv("XDG_DATA_HOME", "/share")
        assert data_folder() == Path("/share/noshow")
        remember(Path("/remembered"))
        assert data_folder() == Path("/remembered")
        monkeypatch.setenv("NOSHOW_DATA", "~/variable")
        assert data_folder() == home / "variable"
        monkeypatch.setenv("NOSHOW_DATA", "")
        assert data_folder() == Path("/remembered")
        assert data_folder("~/chosen") == home / "chosen"
        assert data_folder(Path("/chosen")) == Path("/chosen")

    def test_places_of_the_user(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert (config_dir(), cache_dir()) == (home / ".config/noshow", home / ".cache/noshow")
        monkeypatch.setenv("XDG_CONFIG_HOME", "/config")
        monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
        assert (config_dir(), cache_dir()) == (Path("/config/noshow"), Path("/cache/noshow"))

    def test_remembering_keeps_other_settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        config_dir().mkdir(parents=True)
        (config_dir() / "config.toml").write_text('other = 3\ndata = "old"\n', "utf-8")
        monkeypatch.chdir(tmp_path)
        remember(Path('möbel "x"'))
        assert data_folder() == tmp_path / 'möbel "x"'  # whole, whatever folder the next command runs in
        assert "other = 3" in (config_dir() / "config.toml").read_text("utf-8")
        assert [path.name for path in config_dir().iterdir()] == ["config.toml"]

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            (b"data = ", "config.toml cannot be read .*mend or remove that file"),
            (b"\xff\xfe", "config.toml cannot be read"),
            (b"data = 3", "data is 3 in .*config.toml: give a folder's name in quotes"),
        ],
    )
    def test_damaged_settings(self, content: bytes, sentence: str) -> None:
        config_dir().mkdir(parents=True)
        (config_dir() / "config.toml").write_bytes(content)
        with pytest.raises(NoshowError, match=sentence) as caught:
            data_folder()
        assert "\n" not in str(caught.value)

    def test_what_cannot_be_written_leaves_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        (tmp_path / "folder").mkdir()
        for path in (tmp_path / "file" / "x", tmp_path / "folder"):
            with pytest.raises(NoshowError, match="cannot be written"):
                write_whole(path, lambda part: part.write_bytes(b"content"))
        assert {path.name for path in tmp_path.iterdir()} == {"file", "folder"}


def zipped(content: bytes, member: str = "100.txt") -> bytes:
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr(member, content)
    return archive.getvalue()


TEXT = "\ufeffTHE SONNETS\r\n\r\n  1\r\nFrom fairest creatures\r\n".encode()
PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("shakespeare.txt", bytes),
    ("shakespeare.txt.xz", lzma.compress),
    ("shakespeare.txt.gz", gzip.compress),
    ("1994-01-100.zip", zipped),
]


class TestShakespeare:
    @pytest.fixture(autouse=True)
    def edition(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shakespeare_files, "SHA256", hashlib.sha256(TEXT).hexdigest())

    @pytest.fixture
    def gutenberg(self) -> Iterator[Site]:
        with serving() as site:
            yield site

    @pytest.mark.parametrize("inside", ["", "shakespeare"])
    @pytest.mark.parametrize(("name", "pack"), PACKERS)
    def test_the_text_from_every_kind_of_file(
        self, tmp_path: Path, inside: str, name: str, pack: Callable[[bytes], bytes]
    ) -> None:
        (tmp_path / inside).mkdir(exist_ok=True)
        (tmp_path / inside / name).write_bytes(pack(TEXT))
        assert shakespeare_files.text(str(tmp_path)) == TEXT
        assert shakespeare_files.find(tmp_path) == tmp_path / inside / name

    @pytest.mark.parametrize(
        "copy", [TEXT.replace(b"\r\n", b"\n"), TEXT[3:], TEXT[3:].replace(b"\r\n", b"\n")], ids=["lf", "bare", "both"]
    )
    def test_line_ends_and_the_mark_are_put_right(self, tmp_path: Path, copy: bytes) -> None:
        (tmp_path / "shakespeare.txt").write_bytes(copy)
        assert shakespeare_files.text(str(tmp_path)) == TEXT

    @pytest.mark.parametrize(("name", "pack"), PACKERS)
    def test_another_edition(self, tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
        (tmp_path / name).write_bytes(pack(TEXT.replace(b"fairest", b"Fairest")))
        with pytest.raises(NoshowError, match=rf"{name} is not the 1994 edition of Gutenberg's e-book 100"):
            shakespeare_files.text(str(tmp_path))

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            *[(name, pack(TEXT)[:-9]) for name, pack in PACKERS[1:]],
            *[(name, b"") for name, _ in PACKERS[1:]],
            *[(name, b"<html>") for name, _ in PACKERS[1:]],
            ("1994-01-100.zip", zipped(TEXT, member="pg100.txt")),
        ],
        ids=lambda value: "content" if isinstance(value, bytes) else None,  # archives hold the time of day
    )
    def test_damaged_files(self, tmp_path: Path, name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        sentence = (
            rf"{name} (cannot be read|is not the 1994 edition).*: remove it and run `noshow data get shakespeare`"
        )
        with pytest.raises(NoshowError, match=sentence) as caught:
            shakespeare_files.text(str(tmp_path))
        assert "\n" not in str(caught.value)

    def test_a_bomb_is_not_unpacked(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shakespeare_files, "_LIMIT", 1000)
        for name, pack in PACKERS:
            (tmp_path / name).write_bytes(pack(bytes(10**6)))
            assert len(shakespeare_files._unpacked(tmp_path / name)) == 1000

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(NoshowError) as caught:
            shakespeare_files.text(str(tmp_path))
        for part in (str(tmp_path), "`noshow data get shakespeare`", "shakespeare.txt", "`noshow data use DIR`"):
            assert part in str(caught.value)

    def test_get_takes_the_address_that_works(
        self, gutenberg: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gutenberg.files = {"/new.zip": zipped(TEXT)}
        monkeypatch.setattr(shakespeare_files, "URLS", (gutenberg.url("/gone.zip"), gutenberg.url("/new.zip")))
        assert shakespeare_files.get(tmp_path) == tmp_path / "shakespeare" / "shakespeare.txt"
        assert [path.name for path in (tmp_path / "shakespeare").iterdir()] == ["shakespeare.txt"]
        assert shakespeare_files.text(str(tmp_path)) == TEXT

    def test_get_keeps_no_other_edition(self, gutenberg: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        gutenberg.files = {"/file": zipped(b"something else")}
        monkeypatch.setattr(shakespeare_files, "URLS", (gutenberg.url(),))
        with pytest.raises(NoshowError, match="is not the 1994 edition"):
            shakespeare_files.get(tmp_path)
        assert list((tmp_path / "shakespeare").iterdir()) == []

    def test_get_with_every_address_gone(
        self, gutenberg: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shakespeare_files, "URLS", (gutenberg.url("/one"), gutenberg.url("/two")))
        with pytest.raises(NoshowError, match=r"/two is refused .*put it at .*1994-01-100.zip"):
            shakespeare_files.get(tmp_path)


def test_the_real_text() -> None:
    if not (DATA / "shakespeare").is_dir():
        pytest.skip(f"the Shakespeare text is not in {DATA}")
    text = shakespeare_files.text(str(DATA))
    assert len(text) == shakespeare_files.BYTES == 5_589_889
    assert hashlib.sha256(text).hexdigest() == shakespeare_files.SHA256
    assert b"From fairest creatures we desire increase" in text
