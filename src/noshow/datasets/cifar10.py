"""CIFAR-10 as a federation: whose images are of which classes is what its partitions are about."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from noshow import partition as partitions
from noshow.contracts import Array, Key
from noshow.errors import NoshowError, require, whole
from noshow.federation import Batches, Federation

Partition = Literal["dirichlet", "by_label", "groups", "iid"]

# Each channel's mean and standard deviation over the train images, as shares of 255.
MEANS = (0.4914, 0.4822, 0.4465)
DEVIATIONS = (0.2470, 0.2435, 0.2616)


def cifar10(
    partition: Partition = "dirichlet",
    alpha: float = 0.1,
    clients: int = 100,
    shards: int = 2,
    groups: int = 5,
    batch_size: int = 100,
    batches: Batches = "round",
    seed: int = 0,
    dir: str | None = None,  # noqa: A002
) -> Federation:
    """CIFAR-10, every train image with one of `clients` clients of the same size, inputs normalised by channel.

    The model gets x = (pixels / 255 - mean) / deviation, float32 [n, 32, 32, 3], and labels int32 [n]. The independent
    copy draws, for every client and label, as many train images of that label as the client has, without
    replacement within a client, afresh for each client.

    Args:
        partition: how images are dealt: `"dirichlet"` by label proportions p_i ~ Dirichlet(alpha), `"by_label"` as
            `shards` pieces a client of the images sorted by label, `"groups"` by `groups` groups of clients with
            labels of their own, `"iid"` at random (see `noshow.partition`).
        alpha: for `"dirichlet"`: the smaller, the fewer labels a client has.
        shards: for `"by_label"`.
        groups: for `"groups"`.
        seed: of the partition.
        dir: the data folder, where it is not the one set (`noshow data use DIR`).

    Example:
        >>> import noshow as ns
        >>> from noshow.datasets.cifar10 import cifar10
        >>> try:
        ...     cifar10(dir="/no/such/folder")
        ... except ns.NoshowError as error:
        ...     print(str(error)[:62])
        CIFAR-10 is neither in /no/such/folder nor in /no/such/folder/
    """
    from noshow.datasets import cifar10_files  # not above: it needs packages that `import noshow` can do without

    clients, seed = whole(clients, f"clients is {clients!r}"), whole(seed, f"seed is {seed!r}")
    shards, groups = whole(shards, f"shards is {shards!r}"), whole(groups, f"groups is {groups!r}")
    require(seed >= 0, f"seed is {seed}: give zero or more")
    data = cifar10_files.load(dir)
    _, labels = data.train
    rng = np.random.default_rng([seed, _PARTITION])
    match partition:
        case "dirichlet":
            rows = partitions.dirichlet(labels, clients, alpha, rng)
        case "by_label":
            rows = partitions.by_label(labels, clients, shards, rng)
        case "groups":
            rows = partitions.in_groups(labels, clients, groups, rng)
        case "iid":
            rows = partitions.iid(labels, clients, rng)
        case _:
            raise NoshowError(f"partition is {partition!r}: give 'dirichlet', 'by_label', 'groups' or 'iid'")
    name = f"cifar10({partition} {alpha:g})" if partition == "dirichlet" else f"cifar10({partition})"
    counts = partitions.label_counts(labels, rows)
    rows_of = [np.flatnonzero(labels == label) for label in range(counts.shape[1])]

    def federation(rows: np.ndarray) -> Federation:
        return Federation(
            data=rows.ravel().astype(np.int32),
            held=np.full(clients, rows.shape[1]),
            test=np.arange(data.trained, len(data.labels), dtype=np.int32),
            batches=batches,
            batch_size=batch_size,
            resampled=resampled,
            name=name,
            shared=(data.images, data.labels),
            read=read,
        )

    def resampled(key: Key) -> Federation:
        words = np.asarray(jax.random.key_data(key)).ravel().tolist()
        fresh = np.random.default_rng([seed, _COPIES, *words])
        return federation(np.stack([_like(held, rows_of, fresh) for held in counts]))

    return federation(rows)


def read(shared: tuple[Array, Array], rows: Array) -> tuple[Array, Array]:
    """The images and labels in these rows, pixels normalised: what the model sees."""
    images, labels = shared
    pixels = jnp.take(images, rows, axis=0, mode="clip").astype(jnp.float32)
    means, deviations = 255 * jnp.array(MEANS), 255 * jnp.array(DEVIATIONS)
    return (pixels - means) / deviations, jnp.take(labels, rows, axis=0, mode="clip")


_PARTITION, _COPIES = 0, 1  # one random stream each


def _like(counts: np.ndarray, rows_of: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """New images for a client, as many of every label as it has now."""
    return np.concatenate([rng.choice(rows, held, replace=False) for rows, held in zip(rows_of, counts, strict=True)])
