"""Notebooks as pages: their words, their code, and the output that is kept in them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page beside each notebook, which can still be downloaded."""
    for file in [one for one in files if one.src_uri.endswith(".ipynb")]:
        page, pictures = rendered(Path(str(file.abs_src_path)))
        files.append(File.generated(config, file.src_uri.removesuffix(".ipynb") + ".md", content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, str(Path(file.src_uri).parent / name), content=content))
    return files


def rendered(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.cell_type == "code" and cell.source:
            parts.append(f"```python\n{cell.source}\n```")
            parts += [_shown(output, notebook.stem, pictures) for output in cell.outputs]
    parts.insert(1, f"[Download this notebook]({notebook.name})")
    return "\n\n".join(part for part in parts if part), pictures


def _shown(output: Any, stem: str, pictures: dict[str, bytes]) -> str:
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```"
    kinds = output.get("data", {})
    if "image/png" in kinds:
        name = f"{stem}-{len(pictures)}.png"
        pictures[name] = base64.b64decode(kinds["image/png"])
        return f"![A figure that the code above draws]({name})"
    return f"```text\n{kinds['text/plain'].rstrip()}\n```" if "text/plain" in kinds else ""
