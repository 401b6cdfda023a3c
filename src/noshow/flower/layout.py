"""A model as Flower carries it, named arrays of any shape and type, and as servers see it, one flat vector.

Arrays of floating point are trained: they make up the vector, in float32. Others, such as counters, stay as they were
in the first model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from typing import Any

import jax.numpy as jnp
import numpy as np
from flwr.app import Array, ArrayRecord

from noshow.errors import NoshowError, require


class UnreadableError(ValueError):
    """An array that is not what it should be: which reason, and what was found."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Slot:
    """One trained array's place in the flat vector."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    begin: int
    end: int


@dataclass(frozen=True, eq=False)
class Layout:
    """How a model's arrays lie in the vector, and the arrays that are not trained.

    Example:
        >>> import numpy as np
        >>> from flwr.app import Array, ArrayRecord
        >>> model = ArrayRecord({"w": Array(np.eye(2, dtype=np.float16)), "steps": Array(np.array(7))})
        >>> layout = Layout.of(model)
        >>> layout.d, layout.flat(model).tolist()
        (4, [1.0, 0.0, 0.0, 1.0])
        >>> moved = layout.record(np.arange(4, dtype=np.float32))
        >>> moved["w"].numpy().dtype, moved["steps"].numpy().item()
        (dtype('float16'), 7)
    """

    names: tuple[str, ...]
    slots: tuple[Slot, ...]
    fixed: dict[str, Array]

    @classmethod
    def of(cls, model: ArrayRecord) -> Layout:
        """The layout of this model."""
        slots: list[Slot] = []
        fixed: dict[str, Array] = {}
        begin = 0
        for name, array in model.items():
            values = decoded(array)
            if jnp.issubdtype(values.dtype, np.floating):
                slots.append(Slot(name, values.shape, str(values.dtype), begin, begin + values.size))
                begin += values.size
            else:
                fixed[name] = array
        require(begin > 0, "the model has no arrays of floating point: give one that can be trained")
        return cls(tuple(model), tuple(slots), fixed)

    @property
    def d(self) -> int:
        """The length of the vector."""
        return self.slots[-1].end

    @property
    def description(self) -> list[str]:
        """Names, shapes and types, to tell one model from another."""
        return [f"{slot.name} {list(slot.shape)} {slot.dtype}" for slot in self.slots] + list(self.fixed)

    def views(self, model: ArrayRecord) -> list[np.ndarray]:
        """Each slot's values as a vector of its own; raises `UnreadableError` unless names and shapes are right."""
        if set(model) != set(self.names):
            missing, extra = sorted(set(self.names) - set(model)), sorted(set(model) - set(self.names))
            raise UnreadableError("names", f"missing {missing}, unknown {extra}")
        return [_view(model[slot.name], slot) for slot in self.slots]

    def flat(self, model: ArrayRecord) -> np.ndarray:
        """The model as a vector of float32."""
        vector = np.empty(self.d, np.float32)
        with np.errstate(over="ignore"):
            for slot, view in zip(self.slots, self.views(model), strict=True):
                vector[slot.begin : slot.end] = view
        return vector

    def first(self, model: ArrayRecord) -> np.ndarray:
        """The model that a run begins with, as a vector; raises unless it is of finite numbers."""
        vector = self.flat(model)
        for slot in self.slots:
            if not np.isfinite(vector[slot.begin : slot.end]).all():
                raise NoshowError(
                    f"the first model's {slot.name!r} holds NaN, infinity, or more than float32 can: give finite "
                    "numbers, or what is not trained, such as a mask, as whole numbers"
                )
        return vector

    def holds(self, vector: np.ndarray) -> bool:
        """Whether the vector is of finite numbers, and stays so in the model's own types.

        Example:
            >>> import numpy as np
            >>> layout = Layout.of(ArrayRecord({"w": Array(np.zeros(1, np.float16))}))
            >>> layout.holds(np.array([6e4], np.float32)), layout.holds(np.array([7e4], np.float32))
            (True, False)
        """
        if not np.isfinite(vector).all():
            return False
        with np.errstate(over="ignore"):
            return all(
                np.isfinite(vector[slot.begin : slot.end].astype(jnp.dtype(slot.dtype)).astype(np.float32)).all()
                for slot in self.slots
                if jnp.dtype(slot.dtype).itemsize < 4
            )

    def keeping(self, fixed: Mapping[str, Array]) -> Layout:
        """The same layout with these arrays for those that are not trained, where it has arrays of their names."""
        return replace(self, fixed={name: fixed.get(name, array) for name, array in self.fixed.items()})

    def record(self, vector: np.ndarray) -> ArrayRecord:
        """The vector as a model, in its own names, shapes and types."""
        with np.errstate(over="ignore"):
            trained = {
                slot.name: Array(
                    vector[slot.begin : slot.end].reshape(slot.shape).astype(jnp.dtype(slot.dtype), copy=False)
                )
                for slot in self.slots
            }
        return ArrayRecord({name: trained[name] if name in trained else self.fixed[name] for name in self.names})


def decoded(array: Array) -> np.ndarray:
    """An array's values without a copy; raises `UnreadableError` where its bytes are not those of an array.

    Example:
        >>> decoded(Array(np.arange(3))).tolist()
        [0, 1, 2]
        >>> decoded(Array("float32", (3,), "numpy.ndarray", b"?"))
        Traceback (most recent call last):
        noshow.flower.layout.UnreadableError: its bytes are not those of a NumPy array
    """
    begin = 10 + int.from_bytes(array.data[8:10], "little")
    try:
        shape, columns_first, dtype = _header(array.data[:begin])
        flat = np.frombuffer(array.data, dtype, count=math.prod(shape), offset=begin)
        if dtype.kind == "V" and jnp.dtype(array.dtype).kind == "V":
            flat = flat.view(jnp.dtype(array.dtype))  # bfloat16, say: NumPy's files have no name for it, Flower has
        return flat.reshape(shape, order="F" if columns_first else "C")
    except Exception:  # whatever NumPy makes of bytes that may be anything
        raise UnreadableError("unreadable", "its bytes are not those of a NumPy array") from None


@lru_cache(maxsize=4096)
def _header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """What NumPy's file header says; replies repeat the same few headers, and reading one takes long."""
    stream = BytesIO(head)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError
    shape, columns_first, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.subdtype is not None or any(isinstance(side, bool) or side < 0 for side in shape):
        raise ValueError
    return shape, columns_first, dtype


def _view(array: Array, slot: Slot) -> np.ndarray:
    values = decoded(array)
    if values.shape != slot.shape:
        raise UnreadableError("shapes", f"{slot.name!r} has shape {list(values.shape)}, not {list(slot.shape)}")
    if values.dtype.kind not in "fiub" and not jnp.issubdtype(values.dtype, np.floating):
        raise UnreadableError("unreadable", f"{slot.name!r} holds {values.dtype}, not numbers")
    return values.reshape(-1)
