"""Files and tables with something wrong in them, for fuzzing."""

from __future__ import annotations

import copy
import random
from typing import Any

from hypothesis import strategies as st

JUNK: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 3, 7, 2**31, 2**63, 10**30),
    *(-0.5, 0.0, 0.5, 1.0, 1e-300, 1e300, float("nan"), float("inf"), float("-inf")),
    *("", " ", "off", "fedavg", "nobody", "../..", "/", "a" * 300, "\x00", "\n", "é’💥", "[red]", "<b>", "${HOME}"),
    *([], [0], [0, 0], [[]], ["fedavg"], {}, {"name": "fedavg"}, {"name": 3}, {"": 0}, [1, "a", None]),
]


def mutated_bytes(original: bytes, seed: int) -> bytes:
    """Some bytes changed, doubled, dropped or cut off."""
    chance, content = random.Random(seed), bytearray(original)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(max(1, len(content)))
        length = chance.choice([1, 1, 1, 2, 8, 100, 10**6])
        kind = chance.choice(["change", "insert", "drop", "double", "end"])
        if kind == "change":
            content[at : at + 1] = chance.randbytes(1)
        elif kind == "insert":
            content[at:at] = chance.randbytes(chance.randint(1, 9))
        elif kind == "drop":
            del content[at : at + length]
        elif kind == "double":
            content[at:at] = content[at : at + length]
        else:
            del content[at:]
    return bytes(content)


@st.composite
def mutated_table(draw: st.DrawFn, original: dict[str, Any]) -> dict[str, Any]:
    """Values of a table, or of tables in it, changed, dropped, added or called by another's name."""
    table = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(list(_places(table)) or [(table, "")]))
        kind = draw(st.sampled_from(["junk", "junk", "junk", "drop", "add", "swap"]))
        if kind == "junk":
            holder[key] = copy.deepcopy(draw(st.sampled_from(JUNK)))
        elif kind == "drop" and isinstance(holder, dict):
            holder.pop(key, None)
        elif kind == "add" and isinstance(holder, dict):
            holder[draw(st.sampled_from(["rat", "beta", "rounds", "", "name", "settings"]))] = draw(
                st.sampled_from(JUNK)
            )
        else:
            other, name = draw(st.sampled_from(list(_places(table)) or [(table, "")]))
            if name in other if isinstance(other, dict) else True:
                holder[key] = copy.deepcopy(other[name])
    return table


def _places(tree: Any) -> Any:
    """Every holder and key in a tree of tables and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from _places(value)
