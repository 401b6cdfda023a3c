"""ByzFL's and ByzPy's robust rules. Points come as a tensor to the one, as a list of tensors to the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import torch

from noshow.bench.task import Play, PointsTask, Turn


def byzfl(task: PointsTask, threads: int) -> Play:
    """ByzFL. Its package asks for torchvision, which its rules have no use for: only those are imported."""
    found = find_spec("byzfl")
    package = ModuleType("byzfl")
    package.__spec__ = found
    package.__path__ = list(found.submodule_search_locations or []) if found else []
    sys.modules["byzfl"] = package
    from byzfl.aggregators import CenteredClipping, GeometricMedian

    def rule(points: Any) -> Any:
        if task.rule == "geometric_median":
            return GeometricMedian(nu=task.smoothing, T=task.iterations)(points)
        return CenteredClipping(L=task.iterations, tau=task.radius)(points)  # anew: it would go on from its last answer

    return _playing(rule, torch.from_numpy(task.points), threads)


def byzpy(task: PointsTask, threads: int) -> Play:
    """ByzPy. Its geometric median starts from the mean: where points of one length are after a first step from zero."""
    from byzpy.aggregators.geometric_wise.geometric_median import GeometricMedian
    from byzpy.aggregators.norm_wise.center_clipping import CenteredClipping

    if task.rule == "geometric_median":
        made = GeometricMedian(tol=1e-30, max_iter=task.iterations - 1, init="mean")
    else:
        made = CenteredClipping(c_tau=task.radius, M=task.iterations, init="zero")
    return _playing(made.aggregate, list(torch.from_numpy(task.points)), threads)


def _playing(rule: Callable[[Any], Any], points: Any, threads: int) -> Play:
    torch.set_num_threads(threads)

    def play(rounds: int, exact: bool) -> Turn:
        begun = time.perf_counter()
        for _ in range(rounds):
            answer = rule(points)
        return Turn((time.perf_counter() - begun) / rounds, np.asarray(answer))

    return play
