"""A SuperLink and SuperNodes as processes on loopback, to be stopped, killed and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


class LiveFederation:
    """Nodes by their number; logs are in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        home = folder / "home"
        home.mkdir()
        self._port = free_port()
        lines = ["[superlink]", 'default = "here"', "[superlink.here]", f'address = "127.0.0.1:{self._port}"']
        (home / "config.toml").write_text("\n".join([*lines, "insecure = true", ""]))
        path = os.pathsep.join([str(BIN), os.environ["PATH"]])
        self._environment = os.environ | {
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": path,
            "PYTHONPATH": str(HERE),
        }
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._link = self._start(
            "flower-superlink", "--insecure", "--port", str(self._port), "--disable-runtime-dependency-installation"
        )
        wait_until(lambda: listens(self._port), 60.0, "the SuperLink listens")

    def start_node(self, number: int) -> None:
        self.nodes[number] = self._start(
            *("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{self._port}"),
            *("--port", str(free_port()), "--node-config", f"partition-id={number}"),
        )

    def signal(self, number: int, what: signal.Signals) -> None:
        """To a node and the processes that it has started."""
        os.killpg(self.nodes[number].pid, what)
        if what == signal.SIGKILL:
            self.nodes[number].wait()

    def run(self, **settings: object) -> None:
        """Hand the app in; the SuperLink runs it."""
        app = self._folder / "app"
        shutil.copytree(HERE / "live_app", app, ignore=shutil.ignore_patterns("__pycache__"))
        told = " ".join(f"{key}='{v}'" if isinstance(v, str) else f"{key}={v}" for key, v in settings.items())
        command = [str(BIN / "flwr"), "run", str(app), "here", "--run-config", told]
        subprocess.run(command, check=True, env=self._environment, capture_output=True, timeout=60)

    def end(self) -> None:
        for process in [*self.nodes.values(), self._link]:
            for what in (signal.SIGCONT, signal.SIGKILL):
                try:
                    os.killpg(process.pid, what)
                except ProcessLookupError:
                    continue
            process.wait()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{command[0]}-{len(self.nodes)}-{time.monotonic():.1f}.log").open("wb") as log:
            return subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )


@contextmanager
def live_federation(folder: Path) -> Iterator[LiveFederation]:
    """Everything that is started in it is ended with it."""
    federation = LiveFederation(folder)
    try:
        yield federation
    finally:
        federation.end()


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:.0f} s in vain until {what}"
        time.sleep(0.1)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
