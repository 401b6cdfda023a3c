"""A federation from a data set of another library's, and from whoever says which client holds what."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax.numpy as jnp
import numpy as np

from noshow.contracts import Batch
from noshow.datasets.columns import Examples, examples_of, in_columns
from noshow.errors import NoshowError, require
from noshow.federation import Federation, Shared

Owners = Any
"""Who holds which example: an owner an example [n], numbers or names, or a client's rows in each row [clients, k]."""


def from_dataset(
    train: Any,
    partitioner: Owners | Callable[[np.ndarray], Owners],
    test: Any,
    *,
    x: str | None = None,
    y: str | None = None,
    **settings: Any,
) -> Federation:
    """A federation from a map-style data set, PyTorch's or Hugging Face's, dealt to clients by a partitioner.

    Rows are pairs of an input and a label, or have named columns. Inputs are numbers, equally long lists, arrays,
    tensors or Pillow's images; labels are whole numbers. Images are kept as bytes [n, rows, columns, channels] and the
    model sees them as shares of 255, unless `read` says otherwise.

    Args:
        train: the examples that clients hold.
        partitioner: one of `flwr_datasets.partitioner`; or an owner an example [n], clients then being in the order of
            their numbers or names; or a function from the labels to either owners or rows [clients, k], as those of
            `noshow.partition` are.
        test: held-out examples, of the same make as `train`.
        x: the column of the inputs, where columns have names.
        y: the column of the labels, likewise.
        settings: of `Federation`, such as `batches`, `batch_size`, `name` and `read`.

    Example:
        >>> import numpy as np, noshow as ns
        >>> pairs = [(np.full(3, k, np.float32), k % 2) for k in range(12)]
        >>> federation = ns.datasets.from_dataset(pairs, ["ann", "bob", "cat"] * 4, test=pairs)
        >>> federation.clients, federation.of_client(1)[0][:, 0].tolist()
        (3, [1.0, 4.0, 7.0, 10.0])
        >>> rng = np.random.default_rng(0)
        >>> dealt = ns.datasets.from_dataset(pairs, lambda y: ns.partition.dirichlet(y, 4, 0.5, rng), test=pairs)
        >>> dealt.held.tolist()
        [3, 3, 3, 3]
    """
    held = _held(train, partitioner, x, y)
    tested = examples_of(test, x, y, "the test set")
    for whose, found in (*((f"client {i}", examples) for i, examples in enumerate(held)), ("the test set", tested)):
        form, first = _form(found), _form(held[0])
        require(form == first, f"inputs of {whose} are {form}, and client 0's {first}: make them alike")
    clients = [(examples.x, examples.y) for examples in held]
    reading = {"read": shares_of_255} if tested.images else {}
    return Federation.from_clients(clients, test=(tested.x, tested.y), **(reading | settings))


def shares_of_255(shared: Shared, rows: Batch) -> Batch:
    """The `read` of federations of images: bytes become float32 from 0 to 1, as in PyTorch."""
    x, y = rows
    return x.astype(jnp.float32) / 255, y


def _form(examples: Examples) -> str:
    return f"{'images' if examples.images else 'arrays'}, {examples.x.dtype} {list(examples.x.shape[1:])}"


def _held(train: Any, partitioner: Any, x: str | None, y: str | None) -> list[Examples]:
    """What each client holds."""
    of_flower = hasattr(type(partitioner), "load_partition")
    if of_flower and in_columns(train):
        parts = _partitions(partitioner, train)
        return [examples_of(part, x, y, f"client {number}") for number, part in enumerate(parts)]
    whole = examples_of(train, x, y, "the train set")
    if of_flower:
        numbered = {y or "label": whole.y, "row": np.arange(len(whole.y))}
        parts = _partitions(partitioner, import_module("datasets").Dataset.from_dict(numbered))
        rows = [np.asarray(part.with_format("numpy")["row"][:], np.int64) for part in parts]
    else:
        rows = _rows(partitioner(whole.y) if callable(partitioner) else partitioner, len(whole.y))
    return [whole._replace(x=whole.x[taken], y=whole.y[taken]) for taken in rows]


def _partitions(partitioner: Any, dataset: Any) -> list[Any]:
    """The data sets that a partitioner of flwr-datasets makes of one."""
    assigned = partitioner.is_dataset_assigned()
    require(
        not assigned or partitioner.dataset is dataset,
        "the partitioner has another data set already: make a new partitioner for this one",
    )
    try:
        if not assigned:
            partitioner.dataset = dataset
        return [partitioner.load_partition(number) for number in range(partitioner.num_partitions)]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        name = type(partitioner).__name__
        raise NoshowError(f"the {name} cannot deal the train set: {error}") from None


def _rows(owners: Any, n: int) -> list[np.ndarray]:
    """Each client's rows."""
    found = np.asarray(owners)
    if found.ndim == 1:
        require(len(found) == n, f"there are {len(found)} owners of {n} examples: give one an example")
        _, clients = np.unique(found, return_inverse=True)
        order = np.argsort(clients, kind="stable")
        return np.split(order, np.cumsum(np.bincount(clients))[:-1])
    require(
        found.ndim == 2 and found.dtype.kind in "iu" and found.size > 0,
        f"the partitioner gives {found.dtype} {list(found.shape)}: "
        "give an owner an example [n], rows [clients, k], or a partitioner of flwr-datasets",
    )
    require(
        found.min() >= 0 and found.max() < n,
        f"the partitioner gives rows from {found.min()} to {found.max()}, and the train set has {n}: count from 0",
    )
    return list(found)
