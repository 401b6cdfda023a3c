"""What is built to be installed: complete, the same from the source archive, and at work in a new environment."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import noshow as ns

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "noshow"
INPUTS = ("pyproject.toml", "README.md", "LICENSE")


def _can_build() -> bool:
    try:
        return int(version("setuptools").split(".")[0]) >= 77
    except PackageNotFoundError:
        return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _can_build(), reason="building needs setuptools 77 or newer beside noshow"),
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, so that no earlier build lies among them and none is left."""
    copy = tmp_path_factory.mktemp("checkout")
    shutil.copytree(SOURCE, copy / "src" / "noshow", ignore=shutil.ignore_patterns("__pycache__"))
    for name in INPUTS:
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def built(checkout: Path) -> Path:
    """A folder with the source archive and the wheel made from it, built with what is installed here."""
    return _build(checkout, "through-archive")


def _build(checkout: Path, name: str, *flags: str) -> Path:
    out = checkout / name
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, *flags, checkout]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_the_wheel_holds_every_file_of_the_package(built: Path, checkout: Path) -> None:
    held = {name for name in _contents(_wheel(built)) if ".dist-info/" not in name}
    files = [path for path in (checkout / "src" / "noshow").rglob("*") if path.is_file()]
    there = {path.relative_to(checkout / "src").as_posix() for path in files}
    assert held == there
    assert {"noshow/py.typed", "noshow/presets/synthetic-0.9.toml", "noshow/report/assets/report.html"} <= held


def test_the_archive_and_the_checkout_give_the_same_wheel(built: Path, checkout: Path) -> None:
    directly = _build(checkout, "directly", "--wheel")
    assert _contents(_wheel(directly)) == _contents(_wheel(built))


def test_the_archive_holds_the_package_its_licence_and_its_readme(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert set(INPUTS) <= names
    assert {f"src/noshow/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*.toml")} <= names


def test_metadata(built: Path) -> None:
    about = _metadata(_wheel(built))
    assert (about["Name"], about["Version"]) == ("noshow", ns.__version__)
    assert (about["License-Expression"], about["License-File"]) == ("Apache-2.0", "LICENSE")
    assert about["Requires-Python"] == ">=3.11"
    assert about.get_payload() == (ROOT / "README.md").read_text("utf-8")
    always = [need for need in about.get_all("Requires-Dist", []) if "extra ==" not in need]
    assert {re.split(r"[<>=\[; ]", need)[0] for need in always} == {
        "jax",
        "matplotlib",
        "numpy",
        "pillow",
        "pyarrow",
        "pydantic",
        "rich",
        "scipy",
        "tomli-w",
        "typer",
    }


@pytest.mark.long
def test_a_new_environment_runs_what_was_installed(built: Path, tmp_path: Path) -> None:
    """`pip install noshow`, from the wheel, with nothing else; the commands run outside the checkout."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True)
    bin_folder = tmp_path / "fresh" / "bin"
    pip = [bin_folder / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, "download", "--no-deps", "--dest", tmp_path, "tomli-w"], capture_output=True).returncode:
        pytest.skip("no package index can be reached from here")
    subprocess.run([*pip, "install", _wheel(built)], check=True)

    def says(*command: str) -> str:
        done = subprocess.run([bin_folder / command[0], *command[1:]], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert says("noshow", "--version") == f"noshow {ns.__version__}\n"
    assert "synthetic-0.9" in says("noshow", "presets")
    small = ["rounds=4", "data.clients=20", "algorithms=['fedavg']", "adversary={name='largest_reply'}"]
    changes = [word for change in small for word in ("--set", change)]
    assert "fedavg" in says("noshow", "run", "synthetic-0.9", *changes, "--out", "run")
    assert (tmp_path / "run" / "figure.png").stat().st_size > 10_000
    assert str(tmp_path) in says("python", "-c", "import noshow; print(noshow.__file__)")


def _wheel(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as files:
        return {name: files.read(name) for name in files.namelist()}


def _metadata(wheel: Path) -> Message:
    return Parser().parsestr(_contents(wheel)[f"noshow-{ns.__version__}.dist-info/METADATA"].decode())
