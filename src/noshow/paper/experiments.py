"""What the paper shows, experiment by experiment, and which runs each one is made of."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from noshow.errors import nearest, require
from noshow.spec import Spec
from noshow.spec_file import load

SETTINGS = ("written", "published")
SEEDS = (0, 1, 2)


class Experiment(NamedTuple):
    """One experiment: a preset, and the cells of its grid (one unnamed cell where there is no grid).

    `cells` names each cell and gives what it changes in the preset, as `key=value`.
    """

    name: str
    shows: str
    preset: str
    cells: dict[str, tuple[str, ...]]
    seeds: tuple[int, ...] = SEEDS

    def specs(self, setting: str, scale: str, seeds: tuple[int, ...] | None = None) -> dict[str, Spec]:
        """The spec of each cell, with these seeds or the experiment's own."""
        chosen = f"seeds={list(seeds or self.seeds)}"
        return {cell: load(self.preset, [*changes, chosen], setting, scale) for cell, changes in self.cells.items()}


def _plain(name: str, shows: str, seeds: tuple[int, ...] = SEEDS) -> Experiment:
    return Experiment(name, shows, name, {"": ()}, seeds)


def _round_robin_cells() -> dict[str, tuple[str, ...]]:
    """Rows K = 5, 10, 30 and columns r = 4, 5, 10; beta = sqrt(M/K) follows K."""
    return {
        f"K{sampled}-r{groups}": (
            f"sampled={sampled}",
            f"adversary.groups={groups}",
            f"algorithms.fedavg_variant-beta-root.beta={sqrt(100 / sampled)}",
            f"algorithms.fedprox_variant-beta-root.beta={sqrt(100 / sampled)}",
        )
        for sampled in (5, 10, 30)
        for groups in (4, 5, 10)
    }


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        _plain("cifar10-0.8", "Figure 2: nine algorithms on CIFAR-10 when 80 % of the sampled data may be silenced"),
        _plain("cifar10-0.2", "Figures 7 and 8: the same with 20 %"),
        _plain("cifar10-long", "Figure 11a: the Byzantine-resilient rules for 4000 rounds"),
        _plain("shakespeare-0.7", "Figure 3: the next character, the largest replies silenced", seeds=(0,)),
        _plain("shakespeare-random", "Held against Figure 3: as much silenced, but at random", seeds=(0,)),
        _plain("synthetic-0.9", "Figures 5 and 6: nine algorithms on Synthetic(1,1), epsilon = 0.9, and epsilon_t"),
        _plain("synthetic-0.7", "Figures 9 and 10: the same with epsilon = 0.7"),
        _plain("synthetic-long", "Figure 11b: the same for 4000 rounds"),
        Experiment(
            "round-robin",
            "Figures 12 and 13: groups fall silent in turn; K = 5, 10, 30 by r = 4, 5, 10",
            "round-robin",
            _round_robin_cells(),
        ),
        Experiment(
            "random-response",
            "Named in the paper, without a figure: clients answer with probability p, from 0.2 to 0.9",
            "random-response",
            {f"p{p / 10:g}": (f"adversary.probability={p / 10:g}",) for p in range(2, 10)},
        ),
    )
}

PICTURES = {
    "dirichlet-populations": "Figure 1: the label mix of CIFAR-10's clients under Dirichlet(0.1)",
    "power-law": "Figure 4: how many examples the clients of Synthetic(1,1) hold",
}
"""Figures of the data alone: nothing is run for them."""


COPIES = "shadow-copies"
COPIES_SHOW = "Section 7.1: whose gradients change most, on an independent copy of the data and on the data themselves"


def names() -> list[str]:
    """All that can be reproduced.

    Example:
        >>> "round-robin" in names(), "power-law" in names()
        (True, True)
    """
    return [*EXPERIMENTS, COPIES, *PICTURES]


def find(name: str) -> Experiment | str:
    """The experiment of this name, or the name itself if it is a picture of data or the rehearsal on copies.

    Example:
        >>> find("round-robin").cells["K5-r4"][0]
        'sampled=5'
    """
    known = names()
    require(name in known, f"there is no experiment {name!r}: {nearest(name, known)}")
    return EXPERIMENTS.get(name, name)
