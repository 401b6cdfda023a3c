"""The inputs and labels of other libraries' data sets, as arrays.

PyTorch's and other map-style data sets are read row by row, Hugging Face's column by column from Arrow. Neither library
is imported here: a data set is what it can do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from noshow.errors import NoshowError, require


class Examples(NamedTuple):
    """Inputs [n, …] and labels [n, …]; `images` where inputs were images, bytes [n, rows, columns, channels] now."""

    x: np.ndarray
    y: np.ndarray
    images: bool = False


def examples_of(dataset: Any, x: str | None, y: str | None, whose: str) -> Examples:
    """All examples of a data set whose rows are pairs, or tables with columns called `x` and `y`.

    Example:
        >>> pairs = [([0.5, 1.0], 1), ([0.0, 2.0], 0)]
        >>> found = examples_of(pairs, None, None, "the train set")
        >>> found.x.tolist(), found.y.tolist()
        ([[0.5, 1.0], [0.0, 2.0]], [1, 0])
    """
    require(
        hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"),
        f"{whose} is a {type(dataset).__name__}, without length or places: give a map-style data set, no stream",
    )
    require(
        not isinstance(dataset, Mapping),
        f"{whose} is a table of data sets: give one of them, such as that of 'train'",
    )
    require(len(dataset) > 0, f"{whose} holds no examples: give one or more")
    inputs, labels = _columns(dataset, x, y, whose) if in_columns(dataset) else _rows(dataset, x, y, whose)
    kind = labels.values.dtype
    require(kind.kind in "iub", f"{labels.name} holds {kind}: labels must be whole numbers")
    return Examples(_narrow(inputs), _narrow(labels).astype(np.int32), inputs.images)


def in_columns(dataset: Any) -> bool:
    """Whether it is a Hugging Face data set, without a transform of the user's that only rows go through."""
    return (
        hasattr(dataset, "with_format")
        and hasattr(dataset, "features")
        and getattr(dataset, "format", {}).get("type") != "custom"
    )


class Column(NamedTuple):
    """One column's values, and what to call it in a sentence."""

    name: str
    values: np.ndarray
    images: bool = False


def _columns(dataset: Any, x: str | None, y: str | None, whose: str) -> list[Column]:
    return [_column(dataset, name, whose) for name in _names(x, y, dataset.column_names, whose)]


def _column(dataset: Any, name: str, whose: str) -> Column:
    feature, only = dataset.features[name], dataset.select_columns([name])
    called = _called(name, whose)
    if type(feature).__name__ == "Image" and feature.decode:
        images = enumerate(_one_by_one(only.with_format(None), name))
        return Column(called, _stacked([_array(image, called, row) for row, image in images], called), images=True)
    chunks = [_dense(chunk, called) for chunk in only.with_format("arrow")[:][name].chunks if len(chunk)]
    _check_alike([chunk.shape[1:] for chunk in chunks], called, "part")
    return Column(called, np.concatenate(chunks))


_AT_ONCE = 1000


def _one_by_one(dataset: Any, name: str) -> Iterator[Any]:
    for start in range(0, len(dataset), _AT_ONCE):
        yield from dataset[start : start + _AT_ONCE][name]


def _dense(array: Any, called: str) -> np.ndarray:
    """An Arrow array of numbers, or of equally long lists of them, as one block."""
    import pyarrow as pa

    shape = [len(array)]
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    while pa.types.is_list(array.type) or pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        require(array.null_count == 0, f"{called} has gaps (null): fill them, or leave those rows out")
        lengths = np.unique(np.asarray(array.value_lengths()))
        require(
            len(lengths) == 1,
            f"{called} is ragged, with lists of {lengths[0]} to {lengths[-1]} entries: cut or pad them",
        )
        shape.append(int(lengths[0]))
        array = array.flatten()
    numeric = pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type)
    require(numeric, f"{called} holds {array.type}: give numbers or images")
    require(array.null_count == 0, f"{called} has gaps (null): fill them, or leave those rows out")
    return np.asarray(array.to_numpy(zero_copy_only=False)).reshape(shape)


def _rows(dataset: Any, x: str | None, y: str | None, whose: str) -> list[Column]:
    first = dataset[0]
    keys: Sequence[Any] = (0, 1)
    called = [f"x of {whose}", f"y of {whose}"]
    if isinstance(first, Mapping):
        keys = _names(x, y, list(first), whose)
        called = [_called(name, whose) for name in keys]
    else:
        require(x is None and y is None, f"{whose} has no named columns: leave x and y out")
        pair = isinstance(first, tuple | list) and len(first) == 2
        require(pair, f"a row of {whose} is a {type(first).__name__}: rows must be pairs (x, y), or have named columns")
    taken: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for number in range(len(dataset)):
        row = dataset[number]
        for values, key, name in zip(taken, keys, called, strict=True):
            values.append(_array(row[key], name, number))
    return [
        Column(name, _stacked(values, name), _is_image(first[key]))
        for values, key, name in zip(taken, keys, called, strict=True)
    ]


def _names(x: str | None, y: str | None, columns: Sequence[str], whose: str) -> list[str]:
    listed = ", ".join(map(str, columns))
    for role, name in (("x", x), ("y", y)):
        require(name is not None, f'{whose} has named columns: give {role}="…", one of {listed}')
        require(name in columns, f"{whose} has no column {name!r}: give {role} as one of {listed}")
    return [str(x), str(y)]


def _called(name: str, whose: str) -> str:
    return f"column {name!r} of {whose}"


def _is_image(value: Any) -> bool:
    """Whether it is one of Pillow's."""
    return hasattr(value, "getbands") and hasattr(value, "mode")


def _array(value: Any, called: str, row: int) -> np.ndarray:
    """One row's entry: a number, an array, a tensor of PyTorch's, or an image [rows, columns, channels]."""
    if _is_image(value):
        # Other modes' bytes are no brightness: places in a palette, ink, transparency.
        known = value.mode in ("L", "RGB")
        require(known, f"{called} has an image of mode {value.mode!r} in row {row}: convert it to 'L' or 'RGB' first")
        return np.atleast_3d(np.asarray(value))
    try:
        array = np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise NoshowError(f"{called} cannot be read as an array in row {row}: {error}") from None
    require(array.dtype.kind in "biuf", f"{called} holds {type(value).__name__} in row {row}: give numbers or images")
    return array


def _stacked(arrays: Sequence[np.ndarray], called: str) -> np.ndarray:
    _check_alike([array.shape for array in arrays], called, "row")
    return np.stack(arrays)


def _check_alike(shapes: Sequence[tuple[int, ...]], called: str, what: str) -> None:
    for number, shape in enumerate(shapes):
        require(
            shape == shapes[0],
            f"{called} is ragged, of shape {list(shapes[0])} in {what} 0 and {list(shape)} in {what} {number}: "
            "make all of them alike",
        )


def _narrow(column: Column) -> np.ndarray:
    """The values as the engine keeps them: whole numbers of 32 bits at most, and float32."""
    values = column.values
    if values.dtype.kind == "f":
        return values.astype(np.float32, copy=False)
    if values.dtype.kind == "b" or values.dtype.itemsize < 4:
        return values
    fits = values.min() >= -(2**31) and values.max() < 2**31
    require(bool(fits), f"{column.name} has whole numbers of more than 32 bits: give smaller ones")
    return values.astype(np.int32, copy=False)
