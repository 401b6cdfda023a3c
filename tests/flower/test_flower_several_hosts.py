"""The app's README, from a certificate to a run: its own commands, with this machine in the place of all hosts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from live_processes import free_port, listens, wait_until
from typer.testing import CliRunner

from noshow import trace
from noshow.cli import app

SITES = ("site-a", "site-b", "site-c")
STRANGER = "site-d"
"""A site whose key the server was never given."""


class Walk:
    """What the README says about several hosts, as it can be typed here."""

    def __init__(self, place: Path, home: Path) -> None:
        readme = (place / "README.md").read_text("utf-8").partition("## On several hosts")[2]
        blocks = re.findall(r"```(console|toml)\n(.*?)```", readme, re.DOTALL)
        typed = "".join(block for kind, block in blocks if kind == "console").replace("\\\n", "")
        self._commands = re.findall(r"^(?:server|site-a)\$ (.*)$", typed, re.MULTILINE)
        self._place, self._home, self.port = place, home, free_port()
        home.mkdir()
        (config,) = (block for kind, block in blocks if kind == "toml")
        (home / "config.toml").write_text(self._here(config), "utf-8")

    def commands(self, *starts: str, site: str = SITES[0]) -> list[str]:
        """The README's commands that start so, in its order, for this site."""
        found = [command for command in self._commands if command.startswith(starts)]
        assert len(found) >= len(starts)
        number = f"partition-id={(*SITES, STRANGER).index(site)}"
        return [self._here(command).replace("site-a", site).replace("partition-id=0", number) for command in found]

    def type(self, *starts: str, site: str = SITES[0]) -> str:
        """Type these commands, one after the other; what they say."""
        said = []
        for command in self.commands(*starts, site=site):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self._place if command.startswith("flwr run") else self._home,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            said.append(done.stdout)
        return "".join(said)

    @contextmanager
    def running(self, start: str, *more: str, site: str = SITES[0]) -> Iterator[Path]:
        """A command that runs until it is ended; its log."""
        (command,) = self.commands(start, site=site)
        log = self._home / f"{start}-{site}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command} {' '.join(more)}"],
                cwd=self._home,
                env=self._environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield log
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "FLWR_HOME": str(self._home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
        }

    def _here(self, text: str) -> str:
        """With this machine as every host, ports that are free, and a run that is short."""
        for theirs, ours in (
            ("server.example.org", "localhost"),
            ("0.0.0.0", "127.0.0.1"),
            ("8000", str(self.port)),
            ("/path/to/certs", str(self._home / "certs")),
            ("--root-certificates ca.crt", "--root-certificates certs/ca.crt"),
            ("rounds=100 sampled=5", "rounds=4 sampled=3"),
            (f"/var/lib/{self._place.name}", str(self._place / "state")),
        ):
            text = text.replace(theirs, ours)
        return text


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not all(map(shutil.which, ("openssl", "ssh-keygen"))), reason="openssl or ssh-keygen is missing")
def test_the_readme_leads_to_a_run_with_tls_and_keys(tmp_path: Path) -> None:
    place = tmp_path / "night-shift"
    assert CliRunner().invoke(app, ["new", "flower-app", str(place), "--client", "numpy"]).exit_code == 0
    walk = Walk(place, tmp_path / "home")
    # One shell, which goes into a folder and back.
    certify = " && ".join(walk.commands("mkdir", "openssl", "printf"))
    subprocess.run(["bash", "-c", certify], cwd=tmp_path / "home", check=True, capture_output=True)
    with ExitStack() as processes:
        processes.enter_context(walk.running("flower-superlink"))
        wait_until(lambda: listens(walk.port), 60.0, "the SuperLink listens")
        for site in (*SITES, STRANGER):
            walk.type("ssh-keygen", site=site)
        for site in SITES:
            walk.type("flwr supernode register", site=site)
        logs = [
            processes.enter_context(walk.running("flower-supernode", "--port", str(free_port()), site=site))
            for site in (*SITES, STRANGER)
        ]
        said = walk.type("flwr run")
        listed = walk.type("flwr supernode list")
        refused = logs[-1].read_text("utf-8")
    called = trace.read(place / "state" / "first.parquet")
    assert set(called.names) == set(SITES)
    assert [entry.round for entry in called] == sorted([1, 2, 3, 4] * 3)
    assert called.answered.mean() > 0.8
    assert said.count("; answered ") == 4
    assert listed.count("online") == 3
    assert "Connection attempt failed" in refused
