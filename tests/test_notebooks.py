"""The notebooks run from top to bottom without a warning, and give what is kept in them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["bounds", "first_comparison", "own_rule"]


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in NOTEBOOKS) < 400_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_kept_as_run_in_a_fresh_kernel(path: Path) -> None:
    """Cells numbered from 1 on, for any Python kernel, with nothing of the machine or of an editor."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    words = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)#:]+)\)", words):
        assert (FOLDER / target).exists(), target


FIRST, *REST = NOTEBOOKS


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [FIRST, *(pytest.param(path, marks=pytest.mark.long) for path in REST)], ids=lambda path: path.stem
)
def test_runs_and_gives_what_it_shows(path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Words are the same and numbers agree to rounding, which the compiler may do in other ways here."""
    kept = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    _run(fresh, tmp_path_factory.mktemp("run"))  # a short name: that of a socket has 107 letters at most
    for before, after in zip(kept.cells, fresh.cells, strict=True):
        assert "stderr" not in [output.get("name") for output in after.get("outputs", [])], after.outputs
        assert _pictures(after) == _pictures(before)
        assert NUMBER.sub("0", _text(after)) == NUMBER.sub("0", _text(before))
        assert _numbers(after) == pytest.approx(_numbers(before), rel=0.05, abs=0.02)


def _run(notebook: NotebookNode, folder: Path) -> None:
    # Sockets that are files: no port is open meanwhile, and none is taken by another test.
    sockets = Config({"KernelManager": {"transport": "ipc", "ip": str(folder / "socket")}})
    about = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=about, config=sockets).execute()


def _text(cell: NotebookNode) -> str:
    """What a cell prints or shows as text, however it came in pieces."""
    outputs = cell.get("outputs", [])
    return "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)


def _numbers(cell: NotebookNode) -> list[float]:
    return [float(number) for number in NUMBER.findall(_text(cell))]


def _pictures(cell: NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
