"""Pictures of how the data are spread over clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noshow import datasets
from noshow.partition import label_counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def dirichlet_populations() -> Figure:
    """Each client of CIFAR-10 under Dirichlet(0.1) as a bar of its labels' shares."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    federation = datasets.cifar10(alpha=0.1)
    _, labels = federation.shared
    counts = label_counts(labels, federation.data.reshape(federation.clients, -1))
    shares = counts / counts.sum(axis=1, keepdims=True)
    figure = Figure(figsize=(7, 10), layout="constrained")
    axes = figure.subplots()
    left = np.zeros(len(shares))
    for label in range(shares.shape[1]):
        colour = colormaps["tab10"](label)
        axes.barh(np.arange(len(shares)), shares[:, label], left=left, height=1.0, color=colour, label=str(label))
        left += shares[:, label]
    axes.set(xlim=(0, 1), ylim=(len(shares) - 0.5, -0.5), xlabel="share of the client's images", ylabel="client")
    axes.set_title("labels of CIFAR-10's clients, Dirichlet(0.1)", loc="left")
    figure.legend(loc="outside lower center", ncols=5, frameon=False, title="label")
    return figure


def power_law() -> Figure:
    """How many train examples the clients of Synthetic(1,1) hold: how often, and by rank on logarithmic axes."""
    from matplotlib.figure import Figure

    held = np.sort(datasets.synthetic(1, 1).held)[::-1]
    figure = Figure(figsize=(11, 4), layout="constrained")
    often, rank = figure.subplots(1, 2)
    often.hist(held, bins=np.geomspace(held.min(), held.max() + 1, 25), color="#0072b2")
    often.set(xscale="log", xlabel="train examples", ylabel="clients")
    often.set_title(
        f"Synthetic(1,1): {held.sum():,} examples, the largest client has {held[0] / held.sum():.0%}", loc="left"
    )
    rank.loglog(np.arange(1, len(held) + 1), held, ".", color="#0072b2")
    rank.set(xlabel="rank", ylabel="train examples")
    for axes in (often, rank):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    return figure


PICTURES = {"dirichlet-populations": dirichlet_populations, "power-law": power_law}
