"""Commands that pages show without their output: each one is run, presets at a size that fits a test."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from documented import ROOT, blocks, steps
from test_cifar10_files import TEST, TRAIN, write_parquet
from test_datasets_folder import without_settings
from test_spec import SMALL
from typer.testing import CliRunner

from noshow import spec_file
from noshow.cli import app
from noshow.datasets import cifar10_files
from noshow.paper import experiments
from noshow.spec import Spec

pytestmark = pytest.mark.slow

ELSEWHERE = {
    "noshow bench": "test_bench.py",
    "noshow data get": "test_download.py",
    "noshow reproduce --list": "test_paper.py",
    "noshow sweep paper-grid": "test_sweep.py",
    "noshow watch": "test_watch.py",
    "--browser": "test_watch_browser.py",
    "--coordinator": "test_distributed.py",
    "--on ray": "test_sweep_ray.py",
    "--device gpu": "test_precision.py",
    "--track mlflow": "test_trackers.py",
}
"""What needs another machine, a network, a terminal, a database or hours, and the test that does it in small."""

MORE = """
[[algorithms]]
name = "fedavg_variant"
rate = 0.1

[[algorithms]]
name = "mifa"
rate = 0.1
"""
MINE = f"diagnose = true\n{SMALL}{MORE}"
GRID = 'experiment = "my.toml"\n\n[[grid]]\nrate = [0.1, 0.2]\n'
SMALLER = {
    "synthetic": {"adversary.pairs": [[1, 5]]},
    "cifar10": {"data.clients": 10, "sampled": 4, "data.batch_size": 4, "adversary.pairs": [[1, 2]], "evaluate_on": 20},
}


def smaller(source: str, assignments: Sequence[str] = (), setting: str | None = None, scale: str | None = None) -> Spec:
    """As `load`; but presets in which the adversary prepares have a few algorithms and two rounds."""
    given = [*map(spec_file.assignment, assignments)]
    spec = spec_file.load_with(source, given, setting, scale)
    if spec.adversary["name"] != "shadow":
        return spec
    names = ("fedavg", "cclip") if spec.data["name"] == "cifar10" else ("fedavg", "mifa", "cclip")
    few = [table for table in spec.algorithms if table["name"] in names]
    less = {"algorithms": few, "rounds": 2, "adversary.candidates": "all"} | SMALLER[str(spec.data["name"])]
    return spec_file.load_with(source, [*given, *less.items()], setting, scale)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what pages take for granted: specs, runs, traces and images of one's own."""
    place = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        without_settings(patch, place / "user")
        patch.chdir(place)
        patch.setenv("NOSHOW_DATA", str(place / "data"))
        patch.setattr(cifar10_files, "TRAIN", len(TRAIN.labels))
        patch.setattr(cifar10_files, "TEST", len(TEST.labels))
        write_parquet(place / "data" / "cifar10")
        Path("my.toml").write_text(MINE, "utf-8")
        Path("grid.toml").write_text(GRID, "utf-8")
        Path("phones.csv").write_text("client,start,end\na,0,1200\nb,600,1800\n", "utf-8")
        Path("calls.csv").write_text("round,client,status\n1,a,answered\n1,b,silent\n2,a,silent\n", "utf-8")
        typed("noshow run my.toml --out runs/my-run")
        for name in ("a", "b", "c", "synthetic-0.9-1234abcd"):
            shutil.copytree("runs/my-run", f"runs/{name}")
        typed("noshow trace export runs/a mifa --seed 0 --out live.parquet")
        patch.setattr(spec_file, "load", smaller)
        patch.setattr(experiments, "load", smaller)
        yield place


def typed(command: str) -> None:
    """Run it as if typed: a sentence about what is wrong is an error here."""
    done = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert done.exit_code == 0, f"{command}\n{done.output}"


def commands(page: Path) -> list[str]:
    """Its commands of noshow in blocks that show no output, but for those that are run elsewhere."""
    quiet = [steps(block) for block in blocks(page) if block.language == "console"]
    shown = [step.command for block in quiet if not any(step.shown for step in block) for step in block]
    ours = [shlex.join(shlex.split(command, comments=True)) for command in shown if command.startswith("noshow ")]
    return [command for command in ours if not any(part in command for part in ELSEWHERE)]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = list(dict.fromkeys(command for page in PAGES for command in commands(page)))


@pytest.mark.long
@pytest.mark.parametrize("on_images", [False, True])
def test_commands_without_output_run(on_images: bool, desk: Path) -> None:
    """Page by page, as a reader would type them: some take up what others wrote."""
    for command in COMMANDS:
        if ("cifar10" in command) == on_images:
            typed(command.replace("-…", "-1234abcd"))


def test_what_is_run_elsewhere_is() -> None:
    for part, file in ELSEWHERE.items():
        assert part.split()[-1].strip("-") in (ROOT / "tests" / file).read_text("utf-8"), part
