"""Vectors that are lent: nobody's is given to another while it is held, and those that nobody holds are used again."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from noshow.flower.rooms import Rooms


@given(steps=st.lists(st.one_of(st.just("lend"), st.integers(0, 9)), max_size=30))
def test_vectors_that_are_held_are_apart_and_the_others_are_used_again(steps: list[str | int]) -> None:
    rooms, held, most = Rooms(5), list[np.ndarray](), 0
    addresses = set()
    for step in steps:
        if isinstance(step, int):
            del held[step : step + 1]
        else:
            held.append(rooms())
            addresses.add(held[-1].ctypes.data)
            most = max(most, len(held))
        assert not any(np.shares_memory(one, other) for one, other in combinations(held, 2))
    assert len(addresses) == most


def test_a_view_of_its_bytes_holds_a_vector() -> None:
    rooms = Rooms(4)
    piece = rooms().data
    assert rooms().ctypes.data != np.asarray(piece).ctypes.data
