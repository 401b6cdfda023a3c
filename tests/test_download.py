"""Downloads against a server of our own: broken off and resumed, refused, wrong, and onto a full disk."""

from __future__ import annotations

import errno
import hashlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from noshow import NoshowError
from noshow.datasets import download as module
from noshow.datasets.download import GoneError, download

CONTENT = bytes(range(256)) * 5000  # more than one chunk
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Site(ThreadingHTTPServer):
    """Serves `files`; `asked` are the ranges it was asked for. It can break off, or not know ranges."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/file": CONTENT}
        self.asked: list[str | None] = []
        self.breaks_off_after: int | None = None
        self.knows_ranges = True
        self.says_length = True

    def url(self, path: str = "/file") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        self.server.asked.append(asked)
        content = self.server.files.get(self.path)
        if content is None:
            return self.send_error(404)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.server.knows_ranges else 0
        if start and start >= len(content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.server.says_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.server.breaks_off_after])
        return None

    def log_message(self, *_: object) -> None:
        return None


@contextmanager
def serving() -> Iterator[Site]:
    with Site() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as server:
        yield server


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("checksum", [MD5, SHA256, None])
def test_a_file_arrives_whole(site: Site, tmp_path: Path, checksum: str | None) -> None:
    download(site.url(), tmp_path / "new" / "file", len(CONTENT), checksum)
    assert (tmp_path / "new" / "file").read_bytes() == CONTENT
    assert left_in(tmp_path / "new") == {"file"}


def test_a_server_need_not_say_the_length(site: Site, tmp_path: Path) -> None:
    site.says_length = False
    download(site.url(), tmp_path / "file", checksum=MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("size", [len(CONTENT), None])
def test_what_broke_off_goes_on(site: Site, tmp_path: Path, size: int | None) -> None:
    site.breaks_off_after = 500_000
    sentence = "broke off .500,000 of 1,280,000 bytes have arrived.: the same command goes on from there"
    with pytest.raises(NoshowError, match=sentence):
        download(site.url(), tmp_path / "file", size, MD5)
    assert left_in(tmp_path) == {"file.part"}
    site.breaks_off_after = None
    download(site.url(), tmp_path / "file", size, MD5)
    assert site.asked == [None, "bytes=500000-"]
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert left_in(tmp_path) == {"file"}


def test_a_server_that_ignores_ranges_sends_all_again(site: Site, tmp_path: Path) -> None:
    site.knows_ranges = False
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    download(site.url(), tmp_path / "file", len(CONTENT), MD5)
    assert site.asked == ["bytes=1000-"]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_part_beyond_the_file_is_fetched_anew(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT + b"more")
    download(site.url(), tmp_path / "file", checksum=MD5)
    assert site.asked == [f"bytes={len(CONTENT) + 4}-", None]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_part_that_is_whole_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    download(site.url(), tmp_path / "file", len(CONTENT), MD5)
    assert site.asked == []
    assert left_in(tmp_path) == {"file"}


@pytest.mark.parametrize(
    ("size", "checksum", "sentence"),
    [
        (len(CONTENT), "md5:" + "0" * 32, "md5 .*, not 0000"),
        (len(CONTENT), "sha256:" + "0" * 64, "sha256 .*, not 0000"),
        (5, None, "1,280,000 bytes, not 5"),
    ],
)
def test_a_wrong_file_is_removed(site: Site, tmp_path: Path, size: int, checksum: str | None, sentence: str) -> None:
    (tmp_path / "file").write_bytes(b"an older one")
    with pytest.raises(NoshowError, match=f"is not the file it should be .{sentence}.*removed"):
        download(site.url(), tmp_path / "file", size, checksum)
    assert left_in(tmp_path) == {"file"}
    assert (tmp_path / "file").read_bytes() == b"an older one"


def test_a_part_of_another_file_is_found_out(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    with pytest.raises(NoshowError, match="is not the file it should be"):
        download(site.url(), tmp_path / "file", len(CONTENT), MD5)
    download(site.url(), tmp_path / "file", len(CONTENT), MD5)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_file_that_is_not_there(site: Site, tmp_path: Path) -> None:
    with pytest.raises(GoneError, match=r"/none is refused by its server \(404 Not Found\): fetch it by hand and put"):
        download(site.url("/none"), tmp_path / "file")
    assert left_in(tmp_path) == set()


def test_no_network(site: Site, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but not listening: connections are refused
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file"
        with pytest.raises(NoshowError) as caught:
            download(url, tmp_path / "file")
    sentence = str(caught.value)
    assert sentence.startswith(f"{url} cannot be reached (")
    assert "refused" in sentence
    assert sentence.endswith(f"fetch it by hand and put it at {tmp_path / 'file'}")
    assert left_in(tmp_path) == set()


def test_folders_that_stay_empty_are_removed_and_no_others(site: Site, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for place in ("new/below", "mine/new", "mine"):
        with pytest.raises(GoneError):
            download(site.url("/none"), tmp_path / place / "file")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]
    site.breaks_off_after = 1000
    with pytest.raises(NoshowError, match="broke off"):
        download(site.url(), tmp_path / "new" / "below" / "file")
    assert left_in(tmp_path / "new" / "below") == {"file.part"}


def test_a_server_that_goes_silent(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS_OF_SILENCE", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(NoshowError, match=r"cannot be reached .*timed out"):
            download(f"http://127.0.0.1:{silent.getsockname()[1]}/file", tmp_path / "file")


def test_a_connection_that_breaks(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaking:
        headers: dict[str, str] = {}  # noqa: RUF012
        chunks = iter([b"some"])

        def read(self, _: int) -> bytes:
            for chunk in self.chunks:
                return chunk
            raise ConnectionResetError("reset by peer")

        def __enter__(self) -> Breaking:
            return self

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(module, "_answer", lambda *_: Breaking())
    with pytest.raises(NoshowError, match=r"broke off \(reset by peer\)"):
        download(site.url(), tmp_path / "file")
    assert (tmp_path / "file.part").read_bytes() == b"some"


def test_a_full_disk(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def write(self, _: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", lambda *_: Full())
    with pytest.raises(NoshowError, match=r"file cannot be written \(No space left on device\): make room or"):
        download(site.url(), tmp_path / "file")
    assert left_in(tmp_path) == set()


def test_a_folder_that_cannot_be_made(site: Site, tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(NoshowError, match="cannot be written"):
        download(site.url(), tmp_path / "taken" / "file")
    assert site.asked == []
