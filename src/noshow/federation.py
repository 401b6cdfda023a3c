"""Who the clients are: their data, their sizes n_i and weights w_i = n_i / N, and an independent copy of them.

Clients' examples lie one client after the other in flat arrays: nobody is padded to the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import jax
import numpy as np

from noshow.contracts import Batch, Key
from noshow.errors import NoshowError, require, whole

Batches = Literal["round", "step", "full"]
"""How a client draws: one batch a round, a fresh batch every local step, or its whole data set."""
Shared = Any
"""Arrays that all rows refer to, such as a text; `None` if rows stand for themselves."""


def as_stored(shared: Shared, rows: Batch) -> Batch:
    """The `read` of federations whose rows are what the model sees."""
    return rows


@dataclass(frozen=True, eq=False)
class Federation:
    """The clients of a federation and the data they hold.

    Args:
        data: a pytree of arrays, e.g. `(x, y)`; the first axis counts examples, client after client. What is stored
            may be compact, such as bytes of images or places in a text: `read` makes of it what the model sees.
        held: how many examples each client holds [M].
        test: held-out examples of the whole federation, a pytree like `data`.
        batches: how clients draw; see `drawing`.
        batch_size: examples a client draws a round (`"round"`) or a step (`"step"`); unused by `"full"`.
        resampled: makes an independent copy: the same client distributions, new draws (`resample`).
        name: for tables and figures.
        shared: arrays that all rows refer to, such as a text, kept once.
        read: `read(shared, rows)` turns stored rows into the batch that the model sees, in the compiled program.
        of_round: `of_round(key, data)` makes what clients hold in a round, where data move: arrays like `data`. The key
            is the one that the round's adversary gets, so that an omniscient one can know. Evaluation reads `data`.

    Example:
        >>> import numpy as np, noshow as ns
        >>> clients = [(np.zeros((n, 2), np.float32), np.zeros(n, np.int32)) for n in (3, 5)]
        >>> federation = ns.Federation.from_clients(clients, test=clients[0])
        >>> federation.clients, federation.weights.tolist()
        (2, [0.375, 0.625])
    """

    data: Batch
    held: np.ndarray
    test: Batch
    batches: Batches = "full"
    batch_size: int | None = None
    resampled: Callable[[Key], Federation] | None = None
    name: str = "federation"
    shared: Shared = None
    read: Callable[[Shared, Batch], Batch] = as_stored
    of_round: Callable[[Key, Batch], Batch] | None = None

    def __post_init__(self) -> None:
        require(
            self.batches in ("round", "step", "full"), f"batches is {self.batches!r}: give 'round', 'step' or 'full'"
        )
        object.__setattr__(self, "held", _sizes(self.held))
        object.__setattr__(self, "data", jax.tree.map(aligned, self.data))
        object.__setattr__(self, "test", jax.tree.map(aligned, self.test))
        object.__setattr__(self, "shared", jax.tree.map(aligned, self.shared))
        counts = {len(leaf) for leaf in jax.tree.leaves(self.data)}
        total = int(self.held.sum())
        require(
            counts == {total}, f"the data arrays hold {sorted(counts)} examples but the clients' sizes sum to {total}"
        )
        tested = {len(leaf) for leaf in jax.tree.leaves(self.test)}
        require(
            len(tested) == 1 and min(tested) > 0,
            "the test data must be arrays with the same number, 1 or more, of examples",
        )
        if self.batches != "full":
            size = self.batch_size
            require(size is not None and size >= 1, f"batch_size is {size}: batches = {self.batches!r} needs 1 or more")
            whole(size, f"batch_size is {size!r}")

    @classmethod
    def from_clients(cls, clients: Sequence[Batch], test: Batch, **settings: Any) -> Federation:
        """A federation from a list of each client's data, e.g. `[(x_0, y_0), (x_1, y_1), …]`."""
        require(len(clients) > 0, "a federation needs at least one client")
        held = [_length(data, f"client {i}") for i, data in enumerate(clients)]
        data = jax.tree.map(lambda *leaves: np.concatenate(leaves), *clients)
        return cls(data, np.array(held), test, **settings)

    @property
    def clients(self) -> int:
        """M, the number of registered clients."""
        return len(self.held)

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where each client's examples start [M]."""
        return aligned(np.concatenate([[0], np.cumsum(self.held)[:-1]]).astype(np.int32))

    @cached_property
    def sizes(self) -> np.ndarray:
        """n_i, how many examples each client draws a round [M]."""
        if self.batches == "full" or self.batch_size is None:
            return self.held
        return aligned(np.minimum(self.held, self.batch_size).astype(np.int32))

    @cached_property
    def weights(self) -> np.ndarray:
        """w_i = n_i / N [M]."""
        return aligned((self.sizes / self.sizes.sum(dtype=np.int64)).astype(np.float32))

    def drawing(self, batches: Batches, batch_size: int | None = None) -> Federation:
        """The same clients and data, drawn another way.

        `"round"` draws `batch_size` examples without replacement once a round and uses them in every local step
        (the paper's definition), `"step"` draws afresh every step, `"full"` uses all a client holds.
        """
        copier = self.resampled
        copy = None if copier is None else lambda key: copier(key).drawing(batches, batch_size)
        return replace(self, batches=batches, batch_size=batch_size, resampled=copy)

    def resample(self, key: Key) -> Federation:
        """An independent copy: the same client distributions, new draws."""
        if self.resampled is None:
            raise NoshowError(
                f"the data set {self.name!r} cannot draw an independent copy of itself: "
                "give it a `resampled` function, or choose an adversary that needs none"
            )
        return self.resampled(key)

    def of_client(self, client: int) -> Batch:
        """The examples of one client, as the model sees them."""
        start, stop = self.offsets[client], self.offsets[client] + self.held[client]
        return self.read(self.shared, jax.tree.map(lambda leaf: leaf[start:stop], self.data))


def _length(batch: Batch, whose: str) -> int:
    lengths = sorted({len(leaf) for leaf in jax.tree.leaves(batch)})
    require(len(lengths) == 1, f"the arrays of {whose} hold {lengths} examples: give each the same number")
    return lengths[0]


def _sizes(held: Any) -> np.ndarray:
    held = np.asarray(held)
    require(held.ndim == 1 and held.size > 0, "a federation needs a list of its clients' sizes, one or more")
    empty = np.flatnonzero(held < 1)
    require(empty.size == 0, f"client {empty[0] if empty.size else None} holds no examples: leave such clients out")
    require(int(held.sum(dtype=np.int64)) < 2**31, "more than 2^31 examples in one federation: split it")
    return aligned(held.astype(np.int32))


ALIGNMENT = 64


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An empty array that starts on a 64-byte boundary: JAX's CPU devices then all share it without a copy."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = np.empty(size + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size].view(dtype).reshape(shape)


def aligned(array: Any) -> np.ndarray:
    """The same array, copied only if it does not already start on a 64-byte boundary."""
    array = np.asarray(array)
    # What 32-bit JAX would narrow later on every device is narrowed here, once.
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.dtype == dtype and array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
        return array
    copy = aligned_empty(array.shape, dtype)
    copy[...] = array
    return copy
