"""Who works on what: queues, shares, and clients too large for one device."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noshow as ns
from noshow.work import WORTH_SHARING, outweighing, run_queue, share_out


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
@given(chosen=st.lists(st.booleans(), min_size=1, max_size=8))
@settings(max_examples=10)
def test_the_chosen_jobs_run_and_no_others(width: int, chosen: list[bool]) -> None:
    mask = jnp.array(chosen)
    blank = ns.Work(jnp.full((len(chosen), 2), -1.0))
    done = run_queue(lambda number: ns.Work(jnp.stack([number, number**2]).astype(float)), mask, width, blank)
    expected = [[k, k * k] if wanted else [-1, -1] for k, wanted in enumerate(chosen)]
    assert done.reply.tolist() == expected


@given(cost=st.lists(st.integers(1, 10**6), min_size=1, max_size=12), devices=st.integers(2, 5))
@settings(max_examples=25)
def test_no_share_exceeds_a_fair_one_by_more_than_a_job(cost: list[int], devices: int) -> None:
    needed = np.arange(len(cost)) % 3 != 2
    owner = np.asarray(share_out(jnp.array(cost), jnp.asarray(needed), devices))
    due = np.where(needed, cost, 0)
    loads = np.bincount(owner, weights=due, minlength=devices)
    assert len(loads) == devices
    # Whoever ends last was least busy when it took its last job, so not above a fair share (R. L. Graham, 1966).
    assert loads.max() <= due.sum() / devices + due.max()


def test_only_a_client_far_above_a_fair_share_is_shared() -> None:
    needed = jnp.array([True, True, True, False])
    cost = jnp.array([20_000, 500, 500, 90_000])
    assert outweighing(cost, needed, 2).tolist()[:3] == [True, False, False]
    balanced = jnp.array([1000, 900, 1100, 50])
    assert not outweighing(balanced, needed, 2).any()
    barely = jnp.array([600 + WORTH_SHARING, 600, 0, 0])
    assert not outweighing(barely, needed, 2)[0]


def test_jobs_may_be_any_pytree() -> None:
    blank = ns.Work(jnp.zeros((3, 1)), {"a": jnp.zeros((3, 2), jnp.int32)})
    done = run_queue(
        lambda number: ns.Work(jnp.ones(1), {"a": jnp.full(2, number, jnp.int32)}), jnp.ones(3, bool), 1, blank
    )
    assert jax.tree.map(lambda leaf: leaf.tolist(), done.memory) == {"a": [[0, 0], [1, 1], [2, 2]]}
