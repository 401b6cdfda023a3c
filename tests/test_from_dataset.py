"""Federations from other libraries' data sets, against what those libraries say themselves."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Callable
from typing import Any

import datasets as hf
import numpy as np
import pytest
from flwr_datasets import partitioner as flower
from PIL import Image

import noshow as ns
from noshow.datasets import from_dataset
from noshow.datasets.columns import examples_of

# flwr-datasets sorts with an argument that pyarrow is about to move.
pytestmark = pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")
N, FEATURES, CLASSES = 240, 6, 4


def table(n: int = N, seed: int = 0) -> hf.Dataset:
    """Rows of features, a label, a writer and the row's own number."""
    rng = np.random.default_rng(seed)
    columns = {
        "features": rng.normal(size=(n, FEATURES)).astype(np.float32).tolist(),
        "label": rng.integers(0, CLASSES, n).tolist(),
        "writer": [f"w{k % 7}" for k in rng.permutation(n)],
        "number": [[k] for k in range(n)],
    }
    kinds = {
        "features": hf.List(hf.Value("float32")),
        "label": hf.ClassLabel(num_classes=CLASSES),
        "writer": hf.Value("string"),
        "number": hf.List(hf.Value("int64"), length=1),
    }
    return hf.Dataset.from_dict(columns, features=hf.Features(kinds))


PARTITIONERS: dict[str, Callable[[], Any]] = {
    "iid": lambda: flower.IidPartitioner(8),
    "dirichlet": lambda: flower.DirichletPartitioner(8, "label", alpha=0.5, min_partition_size=2, seed=1),
    "natural": lambda: flower.NaturalIdPartitioner("writer"),
    "shard": lambda: flower.ShardPartitioner(8, "label", num_shards_per_partition=2, seed=1),
    "pathological": lambda: flower.PathologicalPartitioner(8, "label", num_classes_per_partition=2, seed=1),
    "linear": lambda: flower.LinearPartitioner(6),
}


@pytest.mark.parametrize("name", PARTITIONERS)
def test_clients_hold_what_flowers_partitioner_loads(name: str) -> None:
    federation = from_dataset(table(), PARTITIONERS[name](), test=table(20, 1), x="features", y="label")
    own = PARTITIONERS[name]()
    own.dataset = table()
    assert federation.clients == own.num_partitions
    for client in range(federation.clients):
        theirs = own.load_partition(client)
        x, y = federation.of_client(client)
        np.testing.assert_array_equal(x, np.array(list(theirs["features"]), np.float32))
        np.testing.assert_array_equal(y, list(theirs["label"]))
    np.testing.assert_array_equal(federation.test[1], list(table(20, 1)["label"]))
    assert (federation.data[0].dtype, federation.data[1].dtype) == (np.float32, np.int32)


@pytest.mark.parametrize("name", ["dirichlet", "shard"])
def test_pairs_are_dealt_as_a_table_of_the_same_labels_is(name: str) -> None:
    """PyTorch's data sets know no columns: the partitioner sees their labels."""
    pairs = [(np.asarray(row["features"], np.float32), row["label"]) for row in table()]
    plain = from_dataset(pairs, PARTITIONERS[name](), test=pairs)
    named = from_dataset(table(), PARTITIONERS[name](), test=table(), x="features", y="label")
    np.testing.assert_array_equal(plain.held, named.held)
    np.testing.assert_array_equal(plain.data[0], named.data[0])
    np.testing.assert_array_equal(plain.data[1], named.data[1])


def test_owners_and_partition_functions() -> None:
    data = table()
    writers = list(data["writer"])
    by_writer = from_dataset(data, writers, test=data, x="number", y="label")
    for client, writer in enumerate(sorted(set(writers))):
        rows = [k for k, owner in enumerate(writers) if owner == writer]
        assert by_writer.of_client(client)[0].ravel().tolist() == rows
    dealt = from_dataset(
        data,
        lambda labels: ns.partition.by_label(labels, 6, 2, np.random.default_rng(0)),
        test=data,
        x="number",
        y="label",
    )
    rows = ns.partition.by_label(np.array(list(data["label"])), 6, 2, np.random.default_rng(0))
    assert [dealt.of_client(client)[0].ravel().tolist() for client in range(6)] == rows.tolist()


def test_a_shuffled_and_selected_table_is_read_in_its_own_order() -> None:
    data = table().shuffle(seed=3).select(range(50))
    found = examples_of(data, "number", "label", "it")
    assert found.x.ravel().tolist() == [row["number"][0] for row in data]
    assert found.y.tolist() == [row["label"] for row in data]


def test_arrays_keep_shape_and_type() -> None:
    blocks = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    features = hf.Features({"x": hf.Array2D((2, 4), "uint8"), "y": hf.Value("bool")})
    data = hf.Dataset.from_dict({"x": blocks.tolist(), "y": [True, False, True]}, features=features)
    found = examples_of(data, "x", "y", "it")
    np.testing.assert_array_equal(found.x, blocks)
    assert (found.x.dtype, found.y.tolist(), found.images) == (np.uint8, [1, 0, 1], False)


def test_a_transform_of_the_users_is_kept() -> None:
    def doubled(batch: dict[str, Any]) -> dict[str, Any]:
        return {"number": [2 * k[0] for k in batch["number"]], "label": batch["label"]}

    found = examples_of(table(5).with_transform(doubled), "number", "label", "it")
    assert found.x.tolist() == [0, 2, 4, 6, 8]


def pictures(mode: str, n: int = 12) -> tuple[np.ndarray, hf.Dataset]:
    shape = (n, 5, 4) if mode == "L" else (n, 5, 4, 3)
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    columns = {"img": [Image.fromarray(one) for one in pixels], "label": [k % 3 for k in range(n)]}
    features = hf.Features({"img": hf.Image(), "label": hf.Value("int64")})
    return pixels.reshape(n, 5, 4, -1), hf.Dataset.from_dict(columns, features=features)


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("pairs", [True, False])
def test_images_are_bytes_that_models_see_as_shares(mode: str, pairs: bool) -> None:
    pixels, data = pictures(mode)
    source: Any = [(row["img"], row["label"]) for row in data] if pairs else data
    names = {} if pairs else {"x": "img", "y": "label"}
    federation = from_dataset(source, flower.IidPartitioner(3), test=source, **names)  # type: ignore[arg-type]
    assert federation.data[0].dtype == np.uint8
    seen, labels = federation.of_client(1)
    rows = [4, 5, 6, 7]  # IidPartitioner cuts the rows into equal stretches
    np.testing.assert_allclose(seen, pixels[rows].astype(np.float64) / 255, atol=1e-7)
    assert labels.tolist() == [1, 2, 0, 1]
    raw = from_dataset(source, [0] * 12, test=source, read=lambda shared, rows: rows, **names)  # type: ignore[arg-type]
    np.testing.assert_array_equal(raw.of_client(0)[0], pixels)


class Tensor:
    """What is used of PyTorch's."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.values


class Rows:
    """A map-style data set as PyTorch has them: a length, and places."""

    def __init__(self, row: Callable[[int], Any], n: int = 6) -> None:
        self.row, self.n = row, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, place: int) -> Any:
        return self.row(place)


def test_tensors_and_named_rows() -> None:
    pairs = Rows(lambda k: (Tensor([k, k + 0.5]), Tensor(k % 2)))
    named = Rows(lambda k: {"pixels": Tensor([k, k + 0.5]), "target": k % 2})
    for data, names in ((pairs, (None, None)), (named, ("pixels", "target"))):
        found = examples_of(data, *names, "it")
        assert found.x.tolist() == [[k, k + 0.5] for k in range(6)]
        assert found.y.tolist() == [0, 1, 0, 1, 0, 1]


def test_pytorchs_own_data_sets() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.randn(30, 4), torch.arange(30) % 3
    whole = torch.utils.data.TensorDataset(x, y)
    part = torch.utils.data.Subset(whole, range(5, 25))
    federation = from_dataset(part, flower.IidPartitioner(4), test=whole)
    np.testing.assert_array_equal(federation.of_client(1)[0], x[10:15].numpy())
    np.testing.assert_array_equal(federation.test[1], y.numpy())


def test_a_federation_learns_at_once() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    x = rng.normal(size=(80, 2)) + 3 * y[:, None]
    data = hf.Dataset.from_dict({"x": x.tolist(), "y": y.tolist()})
    federation = from_dataset(data, flower.IidPartitioner(5), test=data, x="x", y="y", name="two")
    model, algorithm = ns.models.logistic(2, 2), ns.algorithms.fedavg_variant(0.1, steps=5)
    adversary = ns.adversaries.largest_reply()
    history = ns.simulate(federation, model, algorithm, adversary, sampled=3, epsilon=0.5, rounds=15)
    assert history.scores.test_accuracy[0, -1] > 0.9


def ragged() -> hf.Dataset:
    return hf.Dataset.from_dict({"x": [[1.0], [1.0, 2.0]], "y": [0, 1]})


@pytest.mark.parametrize(
    ("data", "names", "sentence"),
    [
        (ragged(), ("x", "y"), "column 'x' of it is ragged, with lists of 1 to 2 entries"),
        (table(4), ("writer", "label"), "column 'writer' of it holds string: give numbers or images"),
        (table(4), ("label", "writer"), "column 'writer' of it holds string"),
        (table(4), ("number", None), 'it has named columns: give y="…", one of features, label, writer, number'),
        (table(4), ("pixels", "label"), "it has no column 'pixels': give x as one of features"),
        (hf.Dataset.from_dict({"x": [1, None], "y": [0, 1]}), ("x", "y"), r"column 'x' of it has gaps \(null\)"),
        (
            hf.Dataset.from_dict({"x": [1, 2], "y": [0.5, 1]}),
            ("x", "y"),
            "'y' of it holds float64: labels must be whole",
        ),
        (
            hf.Dataset.from_dict({"x": [1, 2**40], "y": [0, 1]}),
            ("x", "y"),
            "'x' of it has whole numbers of more than 32",
        ),
        (hf.DatasetDict({"train": table(4)}), ("x", "y"), "it is a table of data sets: give one of them"),
        (table(4).to_iterable_dataset(), ("x", "y"), "it is a IterableDataset, without length or places"),
        (table(4).select([]), ("x", "y"), "it holds no examples"),
        ([([1.0], 0), ([1.0, 2.0], 1)], (None, None), r"x of it is ragged, of shape \[1\] in row 0 and \[2\] in row 1"),
        ([("cat", 0)], (None, None), "x of it holds str in row 0: give numbers or images"),
        ([([[1.0], [1.0, 2.0]], 0)], (None, None), "x of it cannot be read as an array in row 0"),
        ([(1.0, 0, 3)], (None, None), r"a row of it is a tuple: rows must be pairs \(x, y\)"),
        ([(1.0, 0)], ("x", "y"), "it has no named columns: leave x and y out"),
        ([(Image.new("P", (2, 2)), 0)], (None, None), "x of it has an image of mode 'P' in row 0: convert it"),
    ],
)
def test_what_cannot_be_read_is_told(data: Any, names: tuple[str | None, str | None], sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        examples_of(data, *names, "it")


PAIRS = [(np.zeros(2, np.float32), k % 2) for k in range(6)]


@pytest.mark.parametrize(
    ("partitioner", "sentence"),
    [
        ([0, 1], "there are 2 owners of 6 examples"),
        ([[0, 1], [2, 6]], "rows from 0 to 6, and the train set has 6"),
        ([[0.5, 1.0]], "give an owner an example"),
        (flower.IidPartitioner(9), "the IidPartitioner cannot deal the train set"),
        (flower.DirichletPartitioner(2, "writer", alpha=1.0), "the DirichletPartitioner cannot deal the train set"),
    ],
)
def test_what_cannot_be_dealt_is_told(partitioner: Any, sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        from_dataset(PAIRS, partitioner, test=PAIRS)


class LeavesOneOut(flower.IidPartitioner):  # type: ignore[misc]
    def load_partition(self, partition_id: int) -> hf.Dataset:
        part = super().load_partition(partition_id)
        return part.select([]) if partition_id == 1 else part


@pytest.mark.parametrize("data", [PAIRS, table(6)], ids=["pairs", "table"])
def test_a_client_without_examples_is_told(data: Any) -> None:
    names = {"x": "features", "y": "label"} if isinstance(data, hf.Dataset) else {}
    with pytest.raises(ns.NoshowError, match="client 1 holds no examples"):
        from_dataset(data, LeavesOneOut(3), test=data, **names)


def test_a_partitioner_of_other_data_is_told() -> None:
    used = flower.IidPartitioner(2)
    data = table(6)
    for _ in range(2):  # the same data twice are no other data
        from_dataset(data, used, test=data, x="features", y="label")
    with pytest.raises(ns.NoshowError, match="the partitioner has another data set already"):
        from_dataset(table(8), used, test=data, x="features", y="label")


def test_a_test_set_of_another_form_is_told() -> None:
    other = [(np.zeros(3, np.float32), 0)]
    sentence = r"inputs of the test set are arrays, float32 \[3\], and client 0's arrays, float32 \[2\]"
    with pytest.raises(ns.NoshowError, match=sentence):
        from_dataset(PAIRS, [0] * 6, test=other)


def test_files_cannot_name_it() -> None:
    from noshow.parts import DATASETS

    assert "from_dataset" not in DATASETS
