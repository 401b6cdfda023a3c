"""How wide an accelerator trains: by a trial of who will be needed."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import small_federation
from jax.flatten_util import ravel_pytree

import noshow as ns
from noshow import ensemble
from noshow.rounds import Setting

MODEL = ns.models.logistic(features=4, classes=3)


def widths_of(monkeypatch: pytest.MonkeyPatch, federation: ns.Federation, adversary: ns.Adversary) -> list[int]:
    """The widths that the compiled chunks were given, K = 10 and two seeds: 20 jobs."""
    seen: list[int] = []
    play_chunk = ensemble._play_chunk

    def noting(settings: list[Setting], *arguments: object) -> object:
        seen.extend(setting.width for setting in settings)
        return play_chunk(settings, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("noshow.devices.on_cpu", lambda: False)
    monkeypatch.setattr(ensemble, "_play_chunk", noting)
    ns.simulate(federation, MODEL, ns.algorithms.fedavg(0.1, steps=1), adversary, sampled=10, rounds=2, seeds=[0, 1])
    return seen


@pytest.mark.parametrize(
    ("chance", "batches", "expected"),
    [(0.1, "step", 2), (1.0, "step", 20), (0.1, "full", 20)],
)
def test_the_width_follows_who_answers(
    monkeypatch: pytest.MonkeyPatch, chance: float, batches: str, expected: int
) -> None:
    """2 and 20 of 20 jobs, or all at once where batches are full."""
    federation = small_federation().drawing(batches, 6)  # type: ignore[arg-type]
    assert set(widths_of(monkeypatch, federation, ns.adversaries.random_response(chance))) == {expected}


@pytest.mark.long
def test_any_width_gives_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def model() -> np.ndarray:
        history = ns.simulate(
            small_federation().drawing("step", 6),
            MODEL,
            ns.algorithms.mifa(0.1, steps=2),
            ns.adversaries.random_response(0.4),
            sampled=10,
            rounds=8,
            seeds=[0, 1],
        )
        return np.asarray([ravel_pytree(model)[0] for model in history.models])

    one_by_one = model()
    monkeypatch.setattr("noshow.devices.on_cpu", lambda: False)
    for overhead in (0, 100):
        monkeypatch.setattr(ensemble, "OVERHEAD", overhead)
        np.testing.assert_allclose(model(), one_by_one, rtol=1e-4, atol=1e-6)
