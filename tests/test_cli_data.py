"""The command `noshow data`, as a user types it."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_cifar10_formats import BATCHES, folder_of_batches
from test_datasets_folder import TEXT, without_settings, zipped
from test_download import CONTENT, Site, serving
from typer.testing import CliRunner, Result

from noshow import NoshowError
from noshow.cli_data import app
from noshow.datasets import cifar10_files, shakespeare_files
from noshow.datasets.download import CHUNK
from noshow.datasets.folder import config_dir, data_folder


def noshow_data(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env=os.environ | {"COLUMNS": "400"}, catch_exceptions=False)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return without_settings(monkeypatch, tmp_path / "user")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server that has the text, and something else where CIFAR-10 should be."""
    with serving() as site:
        site.files["/100.zip"] = zipped(TEXT)
        monkeypatch.setattr(cifar10_files, "URL", site.url())
        monkeypatch.setattr(shakespeare_files, "URLS", (site.url("/100.zip"),))
        monkeypatch.setattr(shakespeare_files, "SHA256", hashlib.sha256(TEXT).hexdigest())
        yield site


def test_list_says_what_is_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOSHOW_DATA", str(tmp_path))
    before = noshow_data("list").stdout
    assert before.count("not here") == 2
    assert "170 MB" in before
    assert f"data folder: {tmp_path}\n" in before
    (tmp_path / "shakespeare.txt.gz").write_bytes(b"")
    after = noshow_data("list").stdout
    assert after.count("not here") == 1
    assert "shakespeare.txt.gz" in after


def test_get_fetches_once_and_the_folder_is_found_from_then_on(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    got = noshow_data("get", "shakespeare", "--dir", str(folder))
    assert got.exit_code == 0
    assert f"shakespeare: fetched to {folder / 'shakespeare' / 'shakespeare.txt'}" in got.stdout
    assert data_folder() == folder
    assert shakespeare_files.text() == TEXT
    again = noshow_data("get", "shakespeare")
    assert "shakespeare is here already" in again.stdout
    assert len(site.asked) == 1


def test_get_without_a_folder_uses_the_set_one_and_sets_none(site: Site) -> None:
    noshow_data("get", "shakespeare")
    assert shakespeare_files.find(data_folder()) is not None
    assert not config_dir().exists()


def test_get_cifar10_checks_the_archive(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(NoshowError, match=r"is not the file it should be \(1,280,000 bytes, not 170,498,071\)"):
        noshow_data("get", "cifar10", "--dir", str(tmp_path))
    assert not (tmp_path / "cifar10").exists()
    monkeypatch.setattr(cifar10_files, "BYTES", len(CONTENT))
    monkeypatch.setattr(cifar10_files, "MD5", hashlib.md5(CONTENT).hexdigest())
    assert noshow_data("get", "cifar10").exit_code == 0
    assert cifar10_files.find(tmp_path) == tmp_path / "cifar10" / "cifar-10-python.tar.gz"


def test_a_folder_stays_set_when_the_download_fails(site: Site, tmp_path: Path) -> None:
    site.files = {}
    with pytest.raises(NoshowError, match=f"put it at {tmp_path}/shakespeare/1994-01-100.zip"):
        noshow_data("get", "shakespeare", "--dir", str(tmp_path))
    (tmp_path / "shakespeare").mkdir()
    (tmp_path / "shakespeare" / "1994-01-100.zip").write_bytes(zipped(TEXT))
    assert shakespeare_files.text() == TEXT


def test_a_part_of_a_set_is_not_here_already(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10_files, "BYTES", len(CONTENT))
    monkeypatch.setattr(cifar10_files, "MD5", hashlib.md5(CONTENT).hexdigest())
    part, archive = tmp_path / "cifar-10-batches-py", tmp_path / "cifar10" / "cifar-10-python.tar.gz"
    folder_of_batches(part, {name: b"" for name in BATCHES if name != "data_batch_3"})
    used = noshow_data("use", str(tmp_path))
    assert f"cifar10: {part} has no data_batch_3\n" in used.stdout
    assert f"{part} has no data_batch_3" in noshow_data("list").stdout
    got = noshow_data("get", "cifar10")
    assert got.stdout.splitlines() == [
        f"{part} has no data_batch_3: all of cifar10 is fetched, to be read in its place",
        f"cifar10: fetched to {archive}",
    ]
    assert noshow_data("get", "cifar10").stdout == f"cifar10 is here already: {archive}\n"


HEARS_SIGINT = """
import signal, sys
from noshow.cli import main
from noshow.datasets import cifar10_files
signal.signal(signal.SIGINT, signal.default_int_handler)
cifar10_files.URL = sys.argv.pop()
main()
"""


@pytest.mark.slow
def test_an_interrupt_is_told_and_what_came_is_kept(tmp_path: Path) -> None:
    """The server sends a beginning and then nothing more."""
    part = tmp_path / "data" / "cifar10" / "cifar-10-python.tar.gz.part"
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        command = [sys.executable, "-c", HEARS_SIGINT, "data", "get", "cifar10", url]
        environment = os.environ | {"NOSHOW_DATA": str(tmp_path / "data"), "no_proxy": "127.0.0.1"}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as running:
            try:
                server.settimeout(60)
                asked, _ = server.accept()
                with asked:
                    asked.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 170498071\r\n\r\n" + bytes(CHUNK))
                    deadline = time.monotonic() + 60
                    while not (part.exists() and part.stat().st_size == CHUNK) and time.monotonic() < deadline:
                        time.sleep(0.05)
                    running.send_signal(signal.SIGINT)
                    said, told = running.communicate(timeout=60)
            finally:
                running.kill()
    assert (running.returncode, said, told) == (130, "", "noshow: stopped; the same command goes on from there\n")
    assert part.stat().st_size == CHUNK


def test_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "[data]").mkdir()
    (tmp_path / "[data]" / "shakespeare.txt").write_bytes(TEXT)
    monkeypatch.chdir(tmp_path)
    used = noshow_data("use", "[data]")
    assert data_folder() == tmp_path / "[data]"
    assert f"data folder: {tmp_path}/[data]\n" in used.stdout
    assert "cifar10: not here" in used.stdout
    assert "shakespeare: [data]/shakespeare.txt" in used.stdout
    assert "NOSHOW_DATA" not in used.stdout
    monkeypatch.setenv("NOSHOW_DATA", "/elsewhere")
    assert "NOSHOW_DATA is set to /elsewhere and goes first" in noshow_data("use", "[data]").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("get", "cifar"), "there is no data set 'cifar' to get: did you mean 'cifar10'"),
        (("use", "nowhere"), "nowhere is no folder"),
        (("get", "cifar10", "--dir", "taken/x"), "taken/x cannot be made .*: give another --dir"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "taken").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoshowError, match=sentence) as caught:
        noshow_data(*arguments)
    assert "\n" not in str(caught.value)
    assert not config_dir().exists()
