"""A watched run as a page: the report of what is finished, and above it a panel that follows what runs.

It is served to this machine alone. Three paths are answered and nothing is looked up by its path; who asks for this
machine by a name that is not its own (a page elsewhere whose name was made to lead here) is not answered.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import webbrowser
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from noshow.bars import clock
from noshow.errors import NoshowError
from noshow.report.live import live_page, sentence_page
from noshow.report.page import page, plotly_js
from noshow.standing import Standing
from noshow.watch import View, Watched

LOOPBACK = "127.0.0.1"
NOTHING = "default-src 'none'; frame-ancestors 'none'"
HTML, JSON, PLAIN = (f"{kind}; charset=utf-8" for kind in ("text/html", "application/json", "text/plain"))


class Answer(NamedTuple):
    """What goes back to a browser, and what it may do there."""

    text: str
    kind: str = HTML
    policy: str = NOTHING
    status: HTTPStatus = HTTPStatus.OK


class Pages:
    """What is served of one run folder."""

    def __init__(self, run: Path) -> None:
        plotly_js()  # told now if it is missing, not in the page
        self._run, self._watched, self._frame = run, Watched(run), live_page()
        self._looking, self._making = threading.Lock(), threading.Lock()
        self._made: tuple[str | None, str] | None = None

    def answer(self, path: str) -> Answer:
        """What is to be had at a path."""
        if path == "/":
            return Answer(self._frame.text, policy=self._frame.policy)
        if path == "/status":
            return Answer(json.dumps(self.status(), allow_nan=False), JSON)
        if path == "/report":
            return Answer(self.report(), policy="frame-ancestors 'self'")  # the rest of its policy is in the page
        return Answer("there is nothing here\n", PLAIN, status=HTTPStatus.NOT_FOUND)

    def status(self) -> dict[str, Any]:
        """The run as it is now; or the sentence on why it cannot be looked at."""
        try:
            with self._looking:
                view = self._watched.look()
        except (NoshowError, OSError) as error:
            view = View(str(self._run), [], str(error), finished=False, results=None)
        algorithms = [asdict(one) | {"left": _left(one)} for one in view.standings]
        return {
            "title": view.title,
            "sentence": view.sentence,
            "finished": view.finished,
            "results": view.results,
            "algorithms": algorithms,
        }

    def report(self) -> str:
        """The report of what is finished, made once for the same results."""
        with self._making:
            results = self.status()["results"]
            if self._made is None or self._made[0] != results:
                try:
                    self._made = results, page([self._run])
                except NoshowError as error:  # such as results that make way for others: next time they may be there
                    return sentence_page(f"There is no report: {error}")
            return self._made[1]


class PageServer(ThreadingHTTPServer):
    """Answers on loopback, at a free port if none is given."""

    daemon_threads = True

    def __init__(self, run: Path, port: int = 0) -> None:
        self.pages = Pages(run)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise NoshowError(f"port {port} is not to be had ({error.strerror}): give another, or none") from None
        self.names = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "noshow", ""
    timeout = 30

    def do_GET(self) -> None:
        if self.headers.get_all("Host", []) in ([name] for name in self.server.names):
            self._send(self.server.pages.answer(self.path))
        else:
            self._send(Answer("this is not the machine you asked for\n", PLAIN, status=HTTPStatus.FORBIDDEN))

    def log_message(self, *_: Any) -> None:
        """The terminal is not for every request."""

    def _send(self, answer: Answer) -> None:
        content = answer.text.encode("utf-8")
        self.send_response(answer.status)
        for name, value in {
            "Content-Type": answer.kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": answer.policy,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def serve(run: Path, console: Console, port: int = 0) -> None:
    """Serve the page, say where, show it if there is a browser, and go on until somebody interrupts."""
    with PageServer(run, port) as server:
        console.print(f"{run} is at {server.address} until Ctrl-C", soft_wrap=True, highlight=False, markup=False)
        # Without a screen there may be a browser all the same: one that would take over this terminal.
        if sys.platform != "linux" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))):
            webbrowser.open(server.address)
        server.serve_forever()


def _left(one: Standing) -> str | None:
    return None if one.seconds_left is None else clock(one.seconds_left)
