"""Files of the repository beside docs/ as pages of the site, under the paths that they have there.

Links are written as they lead in the repository; here they are turned to where their targets stand on the site.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "results/README.md", "results/evidence.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Bring in pages, the results' figures and the examples."""
    for name in PAGES:
        if (ROOT / name).exists():
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for figure in sorted((ROOT / "results").rglob("*.png")):
        files.append(File.generated(config, str(figure.relative_to(ROOT)), abs_src_path=str(figure)))
    for name, text in _examples().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links; what is not on the site is named, without a link."""
    uri = page.file.src_uri
    here = PurePosixPath(uri if _comes_from_outside(uri) else f"docs/{uri}").parent

    def turned(found: re.Match[str]) -> str:
        image, words, target, anchor = found.groups()
        path = PurePosixPath(os.path.normpath(here / target))
        if ":" in target or not (ROOT / path).exists():
            return found[0]
        place = place_of(path)
        if files.get_file_from_path(place) is None:
            return words
        return f"{image}[{words}]({os.path.relpath(place, PurePosixPath(uri).parent)}{anchor or ''})"

    return LINK.sub(turned, markdown)


def place_of(path: PurePosixPath) -> str:
    """Where a file or folder of the repository stands on the site."""
    if path == PurePosixPath("README.md"):
        return "index.md"
    if path.is_relative_to("docs"):
        path = path.relative_to("docs")
    elif (ROOT / path).is_dir():
        path = path / "README.md"
    return str(path.with_suffix(".md") if path.suffix in (".py", ".ipynb") else path)


def _comes_from_outside(uri: str) -> bool:
    return uri in PAGES or uri.startswith("examples/")


def _examples() -> dict[str, str]:
    """A page for each example and for the folder."""
    folder = ROOT / "examples"
    programs = sorted(folder.glob("*.py"))
    sleepy = folder / "noshow-sleepy"
    pages = {f"examples/{program.stem}.md": _program_page(program) for program in programs}
    listed = [f"- [{program.name}]({program.stem}.md): {_first_words(program)}" for program in programs]
    listed.append("- [noshow-sleepy](noshow-sleepy/README.md): a package whose parts files can name")
    pages["examples/README.md"] = "# Examples\n\nEach runs as it stands: `python examples/NAME.py`.\n\n" + "\n".join(
        listed
    )
    parts = [(sleepy / "README.md").read_text("utf-8")]
    for path in (sleepy / "pyproject.toml", sleepy / "src" / "noshow_sleepy" / "__init__.py"):
        parts.append(f"## {path.relative_to(sleepy)}\n\n{_fenced(path)}")
    pages["examples/noshow-sleepy/README.md"] = "\n\n".join(parts)
    return pages


def _program_page(program: Path) -> str:
    return f"# {program.name}\n\n{_fenced(program)}"


def _fenced(path: Path) -> str:
    return f"```{path.suffix[1:].replace('py', 'python')}\n{path.read_text('utf-8')}```\n"


def _first_words(program: Path) -> str:
    return program.read_text("utf-8").split('"""')[1].split(":")[0].split("\n")[0]
