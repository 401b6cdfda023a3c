"""What a report says about runs, as plain values for the page."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from noshow.errors import NoshowError, require
from noshow.federation import Federation
from noshow.figure import styles_for
from noshow.history import History
from noshow.progress import progress_of
from noshow.report.attendance import attendance
from noshow.report.labels import Labels, labels_of
from noshow.report.series import curves_of, differences, diverged, drawn, final
from noshow.report.statistics import LEVEL
from noshow.run import title_of
from noshow.spec import realise
from noshow.store import RunFolder, about
from noshow.version import __version__

DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
"""What matplotlib and plotly call the same line."""
LARGEST_PICTURE = 1_000_000


def contents(paths: Sequence[Path]) -> dict[str, Any]:
    """Everything that the page shows of some run folders."""
    require(len(paths) > 0, "a report needs a run: give one run folder or more")
    twice = [path for path, times in Counter(path.resolve() for path in paths).items() if times > 1]
    require(not twice, f"{twice[0] if twice else None} is given twice: give every run once")
    folders = [RunFolder.open(path) for path in paths]
    titles = Counter(title_of(folder.spec) for folder in folders)
    labels = dict.fromkeys(label for folder in folders for label in folder.spec.labels)
    return _shown(list(labels), [_run(folder, alone=titles[title_of(folder.spec)] == 1) for folder in folders])


def contents_of(histories: Sequence[History], federation: Federation) -> dict[str, Any]:
    """The same of histories that are in no folder, as one run."""
    labels = [history.algorithm for history in histories]
    twice = [label for label, times in Counter(labels).items() if times > 1]
    require(not twice, f"two histories are called {twice[0] if twice else None!r}: give algorithms names of their own")
    seen = _clients_seen(histories)
    require(
        seen <= federation.clients,
        f"client {seen - 1} was sampled, and the federation has {federation.clients}: give that of the runs",
    )
    first = histories[0].roll_call
    run = {
        "title": federation.name,
        "description": "",
        "folder": None,
        "spec": None,
        "about": _listed(about()),
        "seeds": sorted({seed for history in histories for seed in history.seeds.tolist()}),
        "adversary": None,
        "sampled": first.sampled.shape[-1],
        "law": first.epsilon,
        "missing": [],
        "bounds": None,
    }
    return _shown(labels, [run | _told(histories, federation)])


def _shown(labels: list[str], runs: list[dict[str, Any]]) -> dict[str, Any]:
    styles = styles_for(labels)
    return {
        "made": {"noshow": __version__, "when": datetime.now(UTC).isoformat(timespec="seconds")},
        "level": LEVEL,
        "styles": {label: {"colour": colour, "dash": DASHES[line]} for label, (colour, line) in styles.items()},
        "runs": runs,
    }


def _run(folder: RunFolder, alone: bool) -> dict[str, Any]:
    spec, title = folder.spec, title_of(folder.spec)
    told = _told([folder.load(label) for label in folder.finished], _federation(folder))
    return told | {
        "title": title if alone else f"{title} in {folder.path}",
        "description": spec.description,
        "folder": str(folder.path),
        "spec": spec.to_toml(),
        "about": _listed(folder.about()),
        "seeds": spec.seeds,
        "adversary": spec.adversary["name"],
        "sampled": spec.sampled,
        "law": spec.epsilon,
        "missing": _missing(folder),
        "bounds": _picture(folder.path / "bounds.png"),
    }


def _told(histories: Sequence[History], federation: Federation | NoshowError) -> dict[str, Any]:
    """What results say, with the clients' data or without."""
    known = isinstance(federation, Federation)
    labels = labels_of(federation) if isinstance(federation, Federation) else None
    clients = federation.clients if isinstance(federation, Federation) else _clients_seen(histories)
    calls = attendance(histories, clients, labels)
    return {
        "algorithms": [_algorithm(history) for history in histories],
        "differences": differences(histories),
        "roll_calls": calls,
        "clients": _clients(federation, labels, calls) if isinstance(federation, Federation) else {"count": clients},
        "no_data": "" if known else str(federation),
    }


def _algorithm(history: History) -> dict[str, Any]:
    curves = curves_of(history)
    used = history.roll_call.epsilon_t
    return {
        "name": history.algorithm,
        "rounds": int(used.shape[1]),
        "seeds": history.seeds.tolist(),
        "seconds": history.seconds,
        "mean_epsilon_t": float(used.mean()) if used.size else None,
        "curves": {name: drawn(curve) for name, curve in curves.items()},
        "final": {name: final(curve) for name, curve in curves.items()},
        "diverged": diverged(history),
    }


def _missing(folder: RunFolder) -> list[dict[str, Any]]:
    """The algorithms without results, and how far the one in progress was when it last said so."""
    now = progress_of(folder.path)["now"] or {}
    return [
        {
            "name": label,
            "round": int(now.get("round", 0)) if now.get("algorithm") == label else 0,
            "rounds": folder.spec.length(label)[0],
        }
        for label in folder.spec.labels
        if label not in folder.finished
    ]


def _federation(folder: RunFolder) -> Federation | NoshowError:
    """The run's clients; or why they are not to be had here, such as a data set that is on another machine."""
    try:
        return realise(folder.spec).federation
    except NoshowError as error:
        return error


def _clients(federation: Federation, labels: Labels | None, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """What the page knows of every client in one of its pictures."""
    listed = sorted({client for call in calls for seed in call["seeds"] for client in seed["clients"]})
    return {
        "count": federation.clients,
        "ids": listed,
        "held": federation.held[listed].tolist(),
        "labels": None if labels is None else {"names": labels.names, "counts": labels.counts[listed].tolist()},
    }


def _clients_seen(histories: Sequence[History]) -> int:
    return 1 + max((int(np.max(history.roll_call.sampled, initial=-1)) for history in histories), default=-1)


def _listed(facts: Mapping[str, Any]) -> list[list[str]]:
    return [[key, _in_words(value)] for key, value in facts.items()]


def _in_words(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    return ", ".join(f"{times} × {word}" if times > 1 else word for word, times in Counter(map(str, value)).items())


def _picture(file: Path) -> str | None:
    """A picture that another command left in the folder, as an address that holds it."""
    if not file.is_file() or file.stat().st_size > LARGEST_PICTURE:
        return None
    content = file.read_bytes()
    whole = content.startswith(b"\x89PNG\r\n\x1a\n")
    return f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}" if whole else None
