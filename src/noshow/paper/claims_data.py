"""Claims that need no run: about the data, and about the memory that algorithms take."""

from __future__ import annotations

from typing import Literal

import jax
import numpy as np

from noshow import algorithms, datasets, models
from noshow.contracts import Model
from noshow.datasets import leaf, shakespeare_files
from noshow.errors import NoshowError
from noshow.paper.experiments import EXPERIMENTS
from noshow.paper.figures import BASELINES, BYZANTINE, VARIANTS
from noshow.paper.findings import Evidence, Finding, together
from noshow.paper.readings import FAILS, HOLDS
from noshow.parameters import first_model
from noshow.partition import label_counts

SKEWED = 0.5
"""A client's labels are far from everybody's where less than half of the two mixes is shared."""
ALPHAS = (0.1, 0.3, 0.5, 1.0, 2.0)
"""The paper's own, those it cites from others, and one between."""
NEAR = 0.01
"""What is said to be around 18 % is within one percentage point of it."""
UNEVEN = 10
"""Sizes are skewed where the largest client has so many times the median client's."""
LEAF = {"roles": 1129, "examples": 4_226_158, "groups": 660}
"""LEAF's counts; the paper has the latter two."""
NO_TEXT = Finding("not run", "needs the text of Shakespeare: noshow data get shakespeare")
NO_IMAGES = Finding("not run", "needs the files of CIFAR-10: noshow data get cifar10")


def label_skew(evidence: Evidence) -> Finding:
    """How far clients' labels under Dirichlet(0.1) are from everybody's."""
    try:
        counts = _labels_of_clients("dirichlet")
    except NoshowError:
        return NO_IMAGES
    held = (counts > 0).sum(1)
    return _far_apart(
        counts,
        f"; labels a client: {held.mean():.2f} on average, from {held.min()} to {held.max()}. The paper's draw gives "
        f"client #1 five and client #100 three, ours {held[0]} and {held[-1]}.",
    )


def skew_by_alpha(evidence: Evidence) -> Finding:
    """Whether clients' labels get nearer to everybody's as alpha grows."""
    try:
        apart = [float(total_variation(_labels_of_clients("dirichlet", alpha)).mean()) for alpha in ALPHAS]
    except NoshowError:
        return NO_IMAGES
    told = ", ".join(f"{mean:.3f} at {alpha:g}" for mean, alpha in zip(apart, ALPHAS, strict=True))
    verdict = HOLDS if (np.diff(apart) < 0).all() else FAILS
    return Finding(verdict, f"Total variation between a client's labels and all, mean over clients: {told}.")


def two_classes(evidence: Evidence) -> Finding:
    """Whether every client of the round-robin experiment holds two classes, and how far that is from all labels."""
    try:
        counts = _labels_of_clients("groups")
    except NoshowError:
        return NO_IMAGES
    held = (counts > 0).sum(1)
    told = f"{(held == 2).sum()} of {len(held)} clients hold exactly 2 of the 10 classes"
    return together([_far_apart(counts), Finding(HOLDS if (held == 2).all() else FAILS, told)])


def total_variation(counts: np.ndarray) -> np.ndarray:
    """How far each client's mix of labels is from that of all, of counts [clients, labels]: the share not in common.

    Example:
        >>> total_variation(np.array([[2, 0], [1, 1], [0, 2]])).tolist()
        [0.5, 0.0, 0.5]
    """
    shares = counts / counts.sum(axis=1, keepdims=True)
    apart: np.ndarray = np.abs(shares - counts.sum(0) / counts.sum()).sum(1) / 2
    return apart


def _far_apart(counts: np.ndarray, more: str = "") -> Finding:
    apart = total_variation(counts)
    words = (
        f"Total variation between a client's labels and all, yardstick {SKEWED}: {apart.mean():.3f} on average, from "
        f"{apart.min():.3f} to {apart.max():.3f}{more}"
    )
    return Finding(HOLDS if apart.mean() > SKEWED else FAILS, words)


def _labels_of_clients(partition: Literal["dirichlet", "groups"], alpha: float = 0.1) -> np.ndarray:
    federation = datasets.cifar10(partition, alpha)
    _, labels = federation.shared
    return label_counts(labels, federation.data.reshape(federation.clients, -1))


def text_counted(evidence: Evidence) -> Finding:
    """Shakespeare by LEAF's rules, counted."""
    try:
        roles = leaf.speakers(shakespeare_files.text().decode("utf-8-sig"))
    except NoshowError:
        return NO_TEXT
    grouped = [role.examples for role in roles if len(leaf.split(role.examples)[1]) > 0]
    groups = len(grouped)
    counts = {"roles": len(roles), "examples": sum(role.examples for role in roles), "groups": groups}
    clients = EXPERIMENTS["shakespeare-0.7"].specs(evidence.setting, "paper")[""].data["clients"]
    share = clients / groups
    words = ", ".join(f"{count:,} {what} (LEAF: {LEAF[what]:,})" for what, count in counts.items())
    return together(
        [
            Finding(HOLDS if counts == LEAF else FAILS, words),
            Finding(
                HOLDS if sum(grouped) == counts["examples"] else FAILS,
                f"the {groups} groups are the roles that LEAF's split leaves, with {sum(grouped):,} of the examples",
            ),
            Finding(HOLDS if abs(share - 0.18) < NEAR else FAILS, f"{clients} of {groups} groups, {share:.1%}"),
        ]
    )


def size_skew(evidence: Evidence) -> Finding:
    """How unevenly Synthetic's clients hold data, and how straight their sizes lie by rank on logarithmic axes."""
    held = np.sort(datasets.synthetic(1, 1).held)[::-1].astype(np.float64)
    rank, size = np.log(np.arange(1, len(held) + 1)), np.log(held)
    straight = float(np.corrcoef(rank, size)[0, 1] ** 2)
    slope = float(np.polyfit(rank, size, 1)[0])
    skew = Finding(
        HOLDS if held[0] > UNEVEN * np.median(held) else FAILS,
        f"quantity skew: the largest of {len(held)} clients has {held[0]:,.0f} examples, {held[0] / held.sum():.1%} of "
        f"all and {held[0] / np.median(held):.0f} times the median",
    )
    law = Finding(
        FAILS,
        "a power law: by definition sizes are floor(lognormal(4, 2)) + 50, which is none, though by rank on "
        f"logarithmic axes they lie on a line of slope {slope:.2f} with R² = {straight:.3f}",
    )
    return together([skew, law])


def memory(evidence: Evidence) -> Finding:
    """Numbers that servers keep between rounds beside the model."""
    kept = {name: _kept(name, models.lenet5(), 100) for name in (*BASELINES, *BYZANTINE)}
    d = first_model(models.lenet5(), 0).size
    free = [name for name, (server, _) in kept.items() if server == 0]
    full = [name for name, (server, _) in kept.items() if server > 0]
    (most,) = {kept[name][0] for name in full}
    clients = [name for name, (_, own) in kept.items() if own > 0]
    words = (
        f"Beside the model, of d = {d:,} numbers for LeNet-5, servers keep nothing in {', '.join(free)}, and M x d = "
        f"100 x {d:,} numbers, {4 * most / 1e6:.1f} MB, in {', '.join(full)}; the clients of {', '.join(clients)} keep "
        "d more each."
    )
    holds = set(VARIANTS) <= set(free) and {"mifa", *BYZANTINE} == set(full)
    return Finding(HOLDS if holds else FAILS, words)


def _kept(name: str, model: Model, clients: int) -> tuple[int, int]:
    """How many numbers the server and the clients of an algorithm keep."""
    make = getattr(algorithms, name)
    algorithm = make(0.1, mu=1.0) if name.startswith("fedprox") else make(0.1)
    d = first_model(model, 0).size
    return _numbers(algorithm.server.init, d, clients), _numbers(algorithm.client.init, d, clients)


def _numbers(init: object, d: int, clients: int) -> int:
    assert callable(init)
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(lambda: init(d, clients))))
