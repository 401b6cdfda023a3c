"""Many replies into one step: the sums and norms that plain float64 gives, and that a table of all replies gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import small_federation
from flwr.app import Array, ArrayRecord
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy_clients import enrolled, first_model, flat, live

import noshow as ns
from noshow.flower import Strategy
from noshow.flower.hearing import STRIDE, Weighty, added_up, laid_out, summed, weighed
from noshow.flower.layout import Layout
from noshow.flower.rooms import Rooms
from noshow.flower.silence import Opened, Sends

LENGTHS = st.sampled_from([1, 3, STRIDE - 1, STRIDE, STRIDE + 1, 5 * STRIDE + 7])
DTYPES = st.sampled_from([np.float16, np.float32, np.float64])


def rooms(d: int) -> Rooms:
    """Rooms in which something was written before."""
    used = Rooms(d)
    for room in [used(), used(), used()]:
        room.fill(np.nan)
    return used


@settings(max_examples=40)
@given(
    arrays=st.lists(st.tuples(LENGTHS, DTYPES), min_size=1, max_size=3),
    there=st.lists(st.booleans(), min_size=1, max_size=9),
    sends=st.sampled_from(["model", "gradient"]),
    seed=st.integers(0, 99),
)
@example(arrays=[(1, np.float64)], there=[True, True], sends="model", seed=29)  # a reply close to the model
def test_sums_and_norms_are_those_of_plain_float64(
    arrays: list[tuple[int, type]], there: list[bool], sends: Sends, seed: int
) -> None:
    rng = np.random.default_rng(seed)

    def drawn() -> Opened:
        return [rng.normal(size=length).astype(dtype) for length, dtype in arrays]

    layout = Layout.of(ArrayRecord({f"{k}": Array(values) for k, values in enumerate(drawn())}))
    replies = [drawn() if here else None for here in there]
    sent, factors = (rng.normal(size=size).astype(np.float32) for size in (layout.d, len(there)))
    whole = np.array([np.zeros(layout.d) if reply is None else np.concatenate(reply) for reply in replies], np.float64)
    said = whole - np.array(there)[:, None] * (sent if sends == "model" else 0.0)

    groups = [Weighty(replies, factors), Weighty(replies[1:], factors[1:])]
    heard, second = added_up(groups, layout, sent, sends, rooms(layout.d))
    np.testing.assert_allclose(heard.total, factors @ said, atol=2e-5)
    np.testing.assert_allclose(heard.squares, (said**2).sum(1), rtol=1e-5)
    np.testing.assert_allclose(second.total, factors[1:] @ said[1:], atol=2e-5)
    np.testing.assert_allclose(second.squares, (said[1:] ** 2).sum(1), rtol=1e-5)

    rows = np.full((len(there), layout.d), np.nan, np.float32)
    np.testing.assert_allclose(laid_out(replies, layout, sent, sends, rows), heard.squares, rtol=1e-6)
    np.testing.assert_allclose(rows, said, rtol=1e-6, atol=1e-6)


@settings(max_examples=30)
@given(d=LENGTHS, rows=st.integers(1, 6), seed=st.integers(0, 99))
def test_rows_are_summed_and_weighed_as_in_plain_float64(d: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, factors = rng.normal(size=(rows, d)).astype(np.float32), rng.normal(size=rows).astype(np.float32)
    np.testing.assert_allclose(summed(list(points), rooms(d)), points.astype(np.float64).sum(0), atol=1e-5)
    np.testing.assert_allclose(weighed(list(points), factors, rooms(d)), factors.astype(np.float64) @ points, atol=1e-5)
    assert not weighed([], factors[:0], rooms(d)).any()


@pytest.mark.parametrize("server", [ns.servers.average(), ns.servers.amplify(), ns.servers.amplify(1.5)])
def test_a_linear_server_needs_no_table_of_replies(server: ns.Server, tmp_path: Path) -> None:
    federation = small_federation(9)
    ends = []
    for linear in (True, False):
        rule = server._replace(linear=linear)
        roster = enrolled(tmp_path / f"{linear}.sqlite", federation)
        strategy = Strategy(server=rule, roster=roster, sampled=4, timeout=5.0, rate=0.1)
        ends.append(flat(strategy.start(live(federation, "sgd"), first_model(), 3).arrays))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6, atol=1e-7)
    assert np.abs(ends[0] - flat(first_model())).max() > 1e-3
