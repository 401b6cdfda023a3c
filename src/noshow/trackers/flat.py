"""What trackers take: names with one value each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noshow.evaluate import Metrics
from noshow.spec import Spec


def settings_of(spec: Spec, label: str) -> dict[str, Any]:
    """The settings of one algorithm's run, by dotted names.

    Example:
        >>> from noshow.spec_file import load
        >>> settings = settings_of(load("synthetic-0.9"), "fedavg")
        >>> settings["sampled"], settings["data.name"], settings["algorithm.steps"]
        (10, 'synthetic', 25)
    """
    table = spec.model_dump()
    algorithm = table.pop("algorithms")[spec.labels.index(label)]
    return dict(_leaves(table | {"algorithm": algorithm}, ""))


def key_of(folder: Path, label: str, seed: int) -> str:
    """What tells one seed of one algorithm in one run folder from all others, for trackers that want an id."""
    return hashlib.sha256(f"{folder.absolute()}\n{label}\n{seed}".encode()).hexdigest()[:16]


def of_seed(metrics: Metrics, place: int) -> dict[str, float]:
    """One seed's metrics by name."""
    return {name: float(column[place]) for name, column in metrics._asdict().items()}


def _leaves(tree: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{key}.")
        elif value is not None:
            yield f"{path}{key}", value
