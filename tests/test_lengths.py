"""Lengths for full batches: the fewest rows against all choices, and runs that use them against runs that do not."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import noshow as ns
from noshow import ensemble, lengths
from noshow.lengths import LONGEST_BYTES, Lengths, fewest_rows, lengths_for
from noshow.rounds import Setting

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=9)


@given(sizes=SIZES, most=st.integers(1, 4))
@settings(max_examples=60)
def test_no_other_lengths_pad_with_fewer_rows(sizes: list[int], most: int) -> None:
    found = fewest_rows(np.array(sizes), most)
    assert len(found) == min(most, len(set(sizes)))
    for count, (chosen, rows) in enumerate(found, start=1):
        padded = [
            sum(min(length for length in (*others, max(sizes)) if length >= size) for size in sizes)
            for others in combinations(set(sizes) - {max(sizes)}, count - 1)
        ]
        assert rows == min(padded) == sum(min(length for length in chosen if length >= size) for size in sizes)
        assert len(chosen) == count


@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=30), visits=st.floats(0, 1e7))
@settings(max_examples=60)
def test_every_client_has_a_length(sizes: list[int], visits: float) -> None:
    chosen = lengths_for(np.array(sizes), 10_000, visits)
    fixed = [length for length in chosen if length is not None]
    fitting = [size for size in sizes if size * 10_000 <= LONGEST_BYTES]
    assert fixed == sorted(set(fixed))
    assert not fixed or max(fixed) >= max(fitting)
    assert chosen[-1] is None or len(fitting) == len(sizes)
    assert None not in chosen[:-1]


def test_a_length_must_pay_for_its_compiling() -> None:
    sizes = np.array([64] * 50 + [640] * 5)
    saved = 240 * (lengths.TILED - lengths.LAID_OUT) * sizes.sum()  # a visit, where nothing is padded
    assert lengths_for(sizes, 240, 0.0) == (None,)
    assert lengths_for(sizes, 240, 0.9 * lengths.COMPILING / saved) == (None,)
    assert lengths_for(sizes, 240, 100 * lengths.COMPILING / saved) == (64, 640)
    # Padding ten times as many rows would cost more than it saves, so one length is never enough here.
    assert lengths_for(sizes, 240, 2.1 * lengths.COMPILING / saved) == (64, 640)


def ragged() -> ns.Federation:
    """One client holds more than a fair share, by more than what is worth sharing."""
    rng = np.random.default_rng(5)
    sizes = [40, 3000, 70, 41, 200]
    clients = [(rng.normal(size=(n, 4)).astype(np.float32), rng.integers(0, 3, n).astype(np.int32)) for n in sizes]
    return ns.Federation.from_clients(clients, test=clients[0])


def played(monkeypatch: pytest.MonkeyPatch, price: float, algorithm: ns.Algorithm) -> tuple[np.ndarray, Lengths]:
    used: list[Lengths] = []
    play_chunk = ensemble._play_chunk

    def noting(settings: list[Setting], *arguments: object) -> object:
        used.append(settings[0].lengths)
        return play_chunk(settings, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lengths, "COMPILING", price)
    monkeypatch.setattr(ensemble, "_play_chunk", noting)
    model = ns.models.logistic(features=4, classes=3)
    history = ns.simulate(ragged(), model, algorithm, sampled=3, rounds=6, seeds=[0, 1])
    return np.stack([ravel_pytree(params)[0] for params in history.models]), used[0]


@pytest.mark.parametrize("algorithm", [ns.algorithms.fedavg_variant(0.1, steps=4), ns.algorithms.fedprox(0.1, mu=0.5)])
def test_a_run_with_lengths_is_the_run_without(monkeypatch: pytest.MonkeyPatch, algorithm: ns.Algorithm) -> None:
    plain, none = played(monkeypatch, 1e9, algorithm)
    laid_out, some = played(monkeypatch, 0.0, algorithm)
    assert none == Lengths()
    assert some.alone == (64, 96, 224, 3008)
    assert some.shared in ((1504,), (None,))  # on one core there is nobody to share with
    np.testing.assert_allclose(laid_out, plain, rtol=1e-5, atol=1e-6)


def test_who_computes_one_gradient_reads_it_tile_by_tile_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = 20 * (lengths.TILED - lengths.LAID_OUT) * ragged().held.sum() * 6 * 2 * 3 / 5
    _, momentum = played(monkeypatch, 2 * saved, ns.algorithms.gm(0.1))
    _, steps = played(monkeypatch, 2 * saved, ns.algorithms.fedavg(0.1, steps=100))
    assert momentum.alone == (None,)
    assert len(steps.alone) > 1
