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
from noshow.ensemble import Run
from noshow.lengths import LONGEST_BYTES, Lengths, fewest_rows, lengths_for
from noshow.program import setting_for

MODEL = ns.models.logistic(features=4, classes=3)

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


def paying(algorithm: ns.Algorithm, model: ns.Model = MODEL) -> Lengths:
    federation = ragged()
    setting = setting_for(federation, model, algorithm, ns.adversaries.nobody(), 3, 0.0, 2)
    return ensemble._paying_lengths(Run(setting, None, np.zeros(6), None), federation, seeds=2, sharers=2)


def test_more_gradients_pay_for_more_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_read = 20 * ragged().held.sum() * 6 * 2 * 3 / 5  # in 6 rounds of 2 seeds, 3 of 5 clients, a gradient each
    monkeypatch.setattr(lengths, "COMPILING", 2 * bytes_read * (lengths.TILED - lengths.LAID_OUT))
    assert paying(ns.algorithms.gm(0.1)) == paying(ns.algorithms.fedavg(0.1, steps=1)) == Lengths()
    assert paying(ns.algorithms.fedavg(0.1, steps=1000)) == Lengths((64, 96, 224, 3008), (1504,))
    assert paying(ns.algorithms.fedprox(0.1, mu=1.0, steps=1000)) == Lengths((64, 96, 224, 3008), (1504,))


def test_models_that_do_much_with_an_example_have_no_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "COMPILING", 0.0)
    assert paying(ns.algorithms.fedavg(0.1, steps=2)) != Lengths()
    assert paying(ns.algorithms.fedavg(0.1, steps=2), MODEL._replace(brief=False)) == Lengths()


def test_a_run_with_lengths_is_the_run_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def played(price: float) -> np.ndarray:
        monkeypatch.setattr(lengths, "COMPILING", price)
        algorithm = ns.algorithms.fedavg_variant(0.1, steps=4)
        history = ns.simulate(ragged(), MODEL, algorithm, sampled=3, rounds=6, seeds=[0, 1])
        return np.stack([ravel_pytree(params)[0] for params in history.models])

    plain, laid_out = played(1e9), played(0.0)
    assert not np.array_equal(laid_out, plain)  # they were added up in another order
    np.testing.assert_allclose(laid_out, plain, rtol=1e-5, atol=1e-6)
