"""Sums in stages: the same to the last bit however their items come, and no group is worked on before it is whole."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from noshow.flower.tree import GROUP, Group, Tree

ORDERS = st.integers(1, 40).flatmap(lambda items: st.permutations(range(items)))


def adding(begun: list[slice]) -> Tree[np.ndarray | None, np.ndarray]:
    def begin(groups: Sequence[Group[np.ndarray | None]]) -> list[np.ndarray]:
        begun.extend(places for places, _ in groups)
        return [add([item for item in group if item is not None]) for _, group in groups]

    def add(items: Sequence[np.ndarray]) -> np.ndarray:
        total = np.zeros(3, np.float32)
        for item in items:
            total = total + item
        return total

    return Tree(begin, add)


def drawn(items: int, seed: int) -> list[np.ndarray | None]:
    """Numbers of every size, whose float32 sum hangs on the order, and gaps."""
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=3) * 10.0 ** rng.integers(-6, 7)).astype(np.float32) if rng.random() < 0.8 else None
        for _ in range(items)
    ]


@given(order=ORDERS, seed=st.integers(0, 999))
def test_the_sum_does_not_hang_on_the_order_in_which_items_come(order: list[int], seed: int) -> None:
    items = drawn(len(order), seed)
    begun: list[slice] = []
    tree = adding(begun)
    there: list[np.ndarray | None] = [None] * len(items)
    due = np.ones(len(items), bool)
    for place in order:
        there[place], due[place] = items[place], False
        tree.prepare(there, due)
    total = tree(items)
    np.testing.assert_array_equal(total, adding([])(items))
    exact = np.sum([item for item in items if item is not None], axis=0, dtype=np.float64)
    size = max([0.0, *(np.abs(item).max() for item in items if item is not None)])
    np.testing.assert_allclose(total, exact, rtol=0, atol=1e-5 * size)
    assert len(begun) == ceil(len(items) / GROUP), "a group was worked on before all of it was there"


@given(items=st.integers(1, 40), place=st.integers(0, 39), seed=st.integers(0, 999))
def test_what_changes_is_added_up_anew(items: int, place: int, seed: int) -> None:
    begun: list[slice] = []
    tree, before = adding(begun), drawn(items, seed)
    tree(before)
    begun.clear()
    after: list[np.ndarray | None] = list(before)
    after[place % items] = np.full(3, 0.5, np.float32)
    np.testing.assert_array_equal(tree(after), adding([])(after))
    assert [places.start for places in begun] == [place % items // GROUP * GROUP]


def test_another_item_that_equals_the_one_before_is_another() -> None:
    begun: list[slice] = []
    tree = adding(begun)
    tree([np.ones(3, np.float32)])
    tree([np.ones(3, np.float32)])
    assert len(begun) == 2
