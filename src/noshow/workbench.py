"""Parts of specs that are built once and used again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax

from noshow.spec import Experiment, Spec, realise, with_rehearsals

MOST = 4
"""Parts of a kind that are kept: those used last. Data sets are large."""
EXPERIMENTS_REMEMBERED = 32


class Bench:
    """Builds specs' parts, each once: runs that share their data or adversary share what was prepared for them."""

    def __init__(self) -> None:
        self._made: dict[str, dict[str, Any]] = {"federation": {}, "model": {}, "adversary": {}}
        self._done = 0

    def realise(self, spec: Spec) -> Experiment:
        """The spec's parts; equal data, models and adversaries are the same objects as before."""
        built = realise(spec)
        rehearsed = with_rehearsals(spec.adversary, spec.algorithms) | {"precision": spec.precision}
        return built._replace(
            federation=self._once("federation", spec.data, lambda: built.federation),
            model=self._once("model", spec.model, lambda: built.model),
            adversary=self._once("adversary", rehearsed, lambda: built.adversary),
        )

    def tidy(self) -> None:
        """An experiment is done. JAX remembers every shape that it has traced: once in a while, let it forget."""
        self._done += 1
        if self._done % EXPERIMENTS_REMEMBERED == 0:
            jax.clear_caches()

    def _once(self, kind: str, settings: dict[str, Any], make: Callable[[], Any]) -> Any:
        made, name = self._made[kind], json.dumps(settings, sort_keys=True)
        made[name] = made.pop(name) if name in made else make()  # to the end: it was used last
        while len(made) > MOST:
            del made[next(iter(made))]
        return made[name]
