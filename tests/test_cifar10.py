"""CIFAR-10 as a federation, with fake images."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax
from test_cifar10_formats import fake

import noshow as ns
from noshow import NoshowError, partition
from noshow.datasets import cifar10_files
from noshow.datasets.cifar10 import DEVIATIONS, MEANS, cifar10, read
from noshow.federation import aligned


class TestFederation:
    @pytest.fixture(autouse=True)
    def images(self, monkeypatch: pytest.MonkeyPatch) -> cifar10_files.Images:
        """60 images of each label to train on, 4 to test on."""
        train, test = fake(60, 4), fake(4, 5)
        stacked = [np.concatenate(parts) for parts in zip(train, test, strict=True)]
        images = cifar10_files.Images(aligned(stacked[0]), aligned(stacked[1].astype(np.int32)), 600)
        monkeypatch.setattr(cifar10_files, "load", lambda _: images)
        return images

    @pytest.mark.parametrize("how", ["dirichlet", "by_label", "groups", "iid"])
    def test_every_image_is_with_one_client(self, how: Any, images: cifar10_files.Images) -> None:
        federation = cifar10(how, clients=20, batch_size=7)
        assert federation.held.tolist() == [30] * 20
        assert federation.sizes.tolist() == [7] * 20
        assert (federation.batches, federation.batch_size) == ("round", 7)
        assert sorted(federation.data.tolist()) == list(range(600))
        assert sorted(federation.test.tolist()) == list(range(600, 640))
        assert how in federation.name
        seen = [federation.of_client(client) for client in range(20)]
        assert sorted(np.concatenate([labels for _, labels in seen]).tolist()) == sorted(images.train[1].tolist())

    def test_partitions_are_told_apart(self) -> None:
        def labels_a_client(federation: ns.Federation) -> list[int]:
            return [len(set(federation.of_client(client)[1].tolist())) for client in range(20)]

        assert max(labels_a_client(cifar10("by_label", clients=20, shards=2))) == 2
        assert max(labels_a_client(cifar10("by_label", clients=20, shards=1))) == 1
        assert max(labels_a_client(cifar10("groups", clients=20, groups=5))) == 2
        assert max(labels_a_client(cifar10("groups", clients=20, groups=10))) == 1
        assert min(labels_a_client(cifar10("iid", clients=20))) >= 6
        spread = [np.mean(labels_a_client(cifar10("dirichlet", clients=20, alpha=alpha))) for alpha in (0.01, 0.1, 10)]
        assert spread == sorted(spread)
        assert spread[0] < 3 < 8 < spread[2]

    def test_the_model_sees_normalised_pixels(self, images: cifar10_files.Images) -> None:
        rows = np.array([3, 639, 3])
        x, y = jax.jit(read)((images.images, images.labels), rows)
        assert (x.dtype, y.dtype) == (jnp.float32, jnp.int32)
        expected = (images.images[rows].astype(np.float64) / 255 - np.array(MEANS)) / np.array(DEVIATIONS)
        np.testing.assert_allclose(x, expected, atol=1e-5)
        assert y.tolist() == images.labels[rows].tolist()

    def test_the_seed_fixes_the_partition(self) -> None:
        one, same, other = (cifar10(clients=20, seed=seed).data for seed in (1, 1, 2))
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)

    @pytest.mark.parametrize("how", ["dirichlet", "by_label", "groups"])
    def test_a_copy_keeps_the_label_counts_and_draws_anew(self, how: Any, images: cifar10_files.Images) -> None:
        federation = cifar10(how, clients=20, batches="step", batch_size=5)
        copy, again, other = (federation.resample(jax.random.key(seed)) for seed in (0, 0, 1))
        assert np.array_equal(copy.data, again.data)
        rows, copied, others = (each.data.reshape(20, 30) for each in (federation, copy, other))
        labels = images.train[1]
        assert np.array_equal(partition.label_counts(labels, rows), partition.label_counts(labels, copied))
        assert all(len(set(held)) == 30 for held in copied.tolist())
        assert np.mean([np.isin(a, b).mean() for a, b in zip(copied, rows, strict=True)]) < 0.75
        assert np.mean([np.isin(a, b).mean() for a, b in zip(copied, others, strict=True)]) < 0.75
        assert copied.max() < 600
        assert (copy.batches, copy.batch_size, copy.name) == ("step", 5, federation.name)
        assert copy.shared[0] is federation.shared[0]
        assert copy.read is federation.read
        assert np.array_equal(copy.test, federation.test)

    def test_copies_draw_every_image_of_a_label_alike(self, images: cifar10_files.Images) -> None:
        federation = cifar10("iid", clients=20)
        drawn = [np.bincount(federation.resample(jax.random.key(k)).data, minlength=640) for k in range(200)]
        times = np.sum(drawn, axis=0)
        assert times[600:].sum() == 0
        assert times[:600].mean() == 200
        assert np.abs(times[:600] - 200).max() < 5 * np.sqrt(200)

    @pytest.mark.slow
    def test_a_run_is_gradient_descent_on_the_images(self, images: cifar10_files.Images) -> None:
        """With all clients, whole data sets and one step, FedAvg is gradient descent: here in NumPy, float64."""

        def measure(weights: jax.Array, batch: Any) -> tuple[jax.Array, jax.Array]:
            x, y = batch
            logits = x.mean(axis=(1, 2)) @ weights
            losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]
            return losses, (logits.argmax(axis=1) == y).astype(jnp.float32)

        model = ns.Model(lambda key: jnp.zeros((3, 10)), measure)
        fedavg = ns.algorithms.fedavg(50.0, steps=1)
        federation = cifar10(clients=20, batch_size=30)
        history = ns.simulate(federation, model, fedavg, sampled=20, rounds=3, evaluate_every=3)

        pixels, labels = images.train
        x = ((pixels / 255 - np.array(MEANS)) / np.array(DEVIATIONS)).mean(axis=(1, 2))
        weights = np.zeros((3, 10))
        for _ in range(3):
            weights = weights - 50.0 * x.T @ (softmax(x @ weights, axis=1) - np.eye(10)[labels]) / 600
        np.testing.assert_allclose(history.models[0], weights, atol=1e-4 * np.abs(weights).max())
        loss = -np.log(softmax(x @ weights, axis=1)[np.arange(600), labels]).mean()
        assert history.scores.train_loss[0, -1] == pytest.approx(loss, rel=1e-5)

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"clients": 7}, "clients is 7"),
            ({"alpha": 0.0}, "alpha is 0.0"),
            ({"partition": "by_label", "shards": 4}, "shards is 4"),
            ({"partition": "groups", "groups": 3}, "groups is 3"),
            ({"partition": "sorted"}, "partition is 'sorted'"),
            ({"batch_size": 0}, "batch_size is 0"),
            ({"seed": -1}, "seed is -1"),
        ],
    )
    def test_bad_settings(self, settings: dict[str, Any], sentence: str) -> None:
        with pytest.raises(NoshowError, match=sentence):
            cifar10(**({"clients": 20} | settings))


@pytest.mark.parametrize("name", ["clients", "seed", "shards", "groups"])
@pytest.mark.parametrize("number", [100.0, 1.5, "2", None, True, [2]])
def test_numbers_have_to_be_whole_before_data_are_looked_for(name: str, number: Any) -> None:
    with pytest.raises(NoshowError) as caught:
        cifar10(**{name: number}, dir="/nowhere")
    assert str(caught.value) == f"{name} is {number!r}: give a whole number"


def test_whole_numbers_may_be_numpys() -> None:
    with pytest.raises(NoshowError, match="neither in /nowhere"):
        cifar10(clients=np.int64(100), seed=np.uint8(1), dir="/nowhere")  # type: ignore[arg-type]
