"""The page's server: three paths, for this machine alone, and nothing from the file system."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from reported import HOSTILE, contents_of, made, make_hostile
from test_watch import NOW, tell, unfinished

import noshow as ns
from noshow.lock import alone_in
from noshow.report import page
from noshow.watch_page import PageServer


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


@contextmanager
def serving(run: Path) -> Iterator[PageServer]:
    with PageServer(run) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def asked(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode("utf-8")
    finally:
        connection.close()


def test_the_status_is_the_run(copy: Path) -> None:
    unfinished(copy)
    with serving(copy) as server, alone_in(copy):
        status, headers, text = asked(server, "/status")
        assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
        said = json.loads(text)
        done, running, waiting = said["algorithms"]
        assert (done["state"], running["state"], waiting["state"]) == ("done", "running", "waiting")
        for key in ("round", "rate", "train_loss", "test_accuracy", "epsilon_t", "silent", "silenced", "sampled"):
            assert running[key] == NOW[key]
        assert running["left"] == "0:00:04"
        tell(copy, NOW | {"round": 35, "train_loss": float("nan")})
        running = json.loads(asked(server, "/status")[2])["algorithms"][1]
        assert (running["round"], running["left"], running["train_loss"]) == (35, "0:00:02", None)


def test_the_report_is_that_of_the_folder_and_made_once(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.move(copy / "mifa", copy.parent / "mifa")
    with serving(copy) as server:
        first = asked(server, "/report")[2]
        assert [one["name"] for one in contents_of(first)["runs"][0]["algorithms"]] == ["fedavg", "slow"]
        assert re.sub(r'"when":"[^"]*"', "", first) == re.sub(r'"when":"[^"]*"', "", page([copy]))
        with monkeypatch.context() as patched:
            patched.setattr("noshow.watch_page.page", lambda runs: pytest.fail("made twice"))
            assert asked(server, "/report")[2] == first
        shutil.move(copy.parent / "mifa", copy / "mifa")
        names = [one["name"] for one in contents_of(asked(server, "/report")[2])["runs"][0]["algorithms"]]
        assert names == ["fedavg", "mifa", "slow"]


def test_only_this_machines_names_are_answered(finished: Path) -> None:
    with serving(finished) as server:
        port = server.server_port
        for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
            assert asked(server, "/status", Host=host)[0] == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port}.evil.example", ""):
            status, _, text = asked(server, "/status", Host=host)
            assert (status, text) == (403, "this is not the machine you asked for\n")
        assert server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path", ["/spec.toml", "/../spec.toml", "/report/..", "/status?x", "//etc/passwd", "/%2e%2e/", "/lock"]
)
def test_nothing_else_is_served(finished: Path, path: str) -> None:
    with serving(finished) as server:
        assert asked(server, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_nothing_is_taken(finished: Path, method: str) -> None:
    with serving(finished) as server:
        assert asked(server, "/status", method)[0] == 501


def test_the_page_may_ask_where_it_came_from_and_nowhere_else(finished: Path) -> None:
    with serving(finished) as server:
        _, headers, text = asked(server, "/")
        rules = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
        assert (rules["default-src"], rules["connect-src"], rules["frame-ancestors"]) == ("'none'", "'self'", "'none'")
        assert "unsafe" not in rules["script-src"]
        assert not re.search(r"(src|href)=\"(?!data:,)", text)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers
        assert asked(server, "/report")[1]["Content-Security-Policy"] == "frame-ancestors 'self'"


def test_what_comes_from_files_stays_text(copy: Path) -> None:
    make_hostile(copy)
    with serving(copy) as server:
        assert "<img" not in asked(server, "/status")[2]
        assert contents_of(asked(server, "/report")[2])["runs"][0]["description"] == HOSTILE
        (copy / "slow" / "result.json").write_text(json.dumps({"seeds": "<img src=x>"}))
        text = asked(server, "/report")[2]
        assert "There is no report: " in text
        assert "<img" not in text
        shutil.rmtree(copy)
        said = json.loads(asked(server, "/status")[2])
        assert said["sentence"] == f"the folder {copy} is gone"
        assert said["algorithms"] == []


def test_before_a_run_has_begun_there_is_a_page_too(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        said = json.loads(asked(server, "/status")[2])
        assert "has not begun yet" in said["sentence"]
        assert said["results"] is None


def test_a_port_that_is_taken_and_a_missing_plotly_are_told(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ns.NoshowError, match=f"port {port} is not to be had"):
            PageServer(finished, port)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ns.NoshowError, match=r"a report needs plotly: pip install 'noshow\[report\]'"):
        PageServer(finished)
