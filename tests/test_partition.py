"""Partitions: every example once, equal shares, and the law that each one states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noshow import NoshowError, partition

Rng = np.random.Generator
LABELS = np.repeat(np.arange(10), 500)


@st.composite
def dealings(draw: st.DrawFn) -> tuple[np.ndarray, int, int]:
    """Labels in any order and amounts, a number of clients and of shards that divide them evenly."""
    clients, shards, size = draw(st.integers(1, 9)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    n = clients * shards * size
    labels = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    return np.array(labels), clients, shards


@settings(max_examples=150, deadline=None)
@given(dealings(), st.integers(0, 2**32), st.sampled_from([1e-8, 0.01, 0.1, 1.0, 1e5]))
def test_every_example_is_dealt_once_in_equal_shares(
    dealing: tuple[np.ndarray, int, int], seed: int, alpha: float
) -> None:
    labels, clients, shards = dealing
    for deal in (
        lambda rng: partition.iid(labels, clients, rng),
        lambda rng: partition.by_label(labels, clients, shards, rng),
        lambda rng: partition.in_groups(labels, clients, 1, rng),
        lambda rng: partition.dirichlet(labels, clients, alpha, rng),
    ):
        rows = deal(np.random.default_rng(seed))
        assert rows.shape == (clients, len(labels) // clients)
        assert sorted(rows.ravel().tolist()) == list(range(len(labels)))
        assert np.array_equal(rows, deal(np.random.default_rng(seed)))
        counts = partition.label_counts(labels, rows)
        expected = [[Counter(held)[label] for label in range(labels.max() + 1)] for held in labels[rows].tolist()]
        assert counts.tolist() == expected


@pytest.mark.parametrize(
    "deal",
    [
        lambda rng: partition.iid(LABELS, 20, rng),
        lambda rng: partition.by_label(LABELS, 20, 2, rng),
        lambda rng: partition.in_groups(LABELS, 20, 5, rng),
        lambda rng: partition.dirichlet(LABELS, 20, 0.1, rng),
    ],
)
def test_no_partition_follows_the_order_of_the_data(deal: Callable[[Rng], np.ndarray]) -> None:
    """Each label's examples are spread at random: neighbours in the data are rarely neighbours with a client."""
    one, other = (deal(np.random.default_rng(seed)) for seed in (0, 1))
    assert not np.array_equal(np.sort(one), np.sort(other))
    assert np.mean(np.diff(np.sort(one)) == 1) < 0.6  # in order, it would be above 0.95
    owner = np.empty(len(LABELS), int)
    owner[one] = np.arange(20)[:, None]
    halves = [np.bincount(owner[LABELS == 3][part], minlength=20) for part in (slice(0, 250), slice(250, None))]
    assert np.abs(halves[0] - halves[1]).max() < 60


class TestByLabel:
    def test_a_client_sees_as_many_labels_as_shards_at_most(self) -> None:
        for shards in (1, 2, 5):
            counts = partition.label_counts(LABELS, partition.by_label(LABELS, 50, shards, np.random.default_rng(1)))
            assert (counts > 0).sum(axis=1).max() <= shards
            assert set((counts % (100 // shards)).ravel().tolist()) == {0}

    def test_shards_are_dealt_at_random(self) -> None:
        """With 2 of 100 shards a client, two of the same label have probability 9/99."""
        same = []
        for seed in range(40):
            counts = partition.label_counts(LABELS, partition.by_label(LABELS, 50, 2, np.random.default_rng(seed)))
            same.append(np.mean((counts > 0).sum(axis=1) == 1))
        assert np.mean(same) == pytest.approx(9 / 99, abs=0.03)


def test_groups_hold_labels_of_their_own() -> None:
    rows = partition.in_groups(LABELS, 100, 5, np.random.default_rng(0))
    counts = partition.label_counts(LABELS, rows)
    for client, held in enumerate(counts):
        group = client // 20
        assert held[2 * group] + held[2 * group + 1] == 50
        assert held[2 * group] > 5 < held[2 * group + 1]  # 25 ± 3.2 each


def test_iid_clients_hold_all_labels_alike() -> None:
    counts = partition.label_counts(LABELS, partition.iid(LABELS, 10, np.random.default_rng(0)))
    # Without replacement, each count has mean 50 and variance 500 · 0.1 · 0.9 · (1 - 0.1) = 40.5.
    assert np.mean((counts - 50.0) ** 2) == pytest.approx(40.5, rel=0.35)


class TestDirichlet:
    @pytest.mark.parametrize(("alpha", "least", "most"), [(0.1, 0.55, 0.61), (1.0, 0.182, 0.21), (100.0, 0.102, 0.106)])
    def test_concentration(self, alpha: float, least: float, most: float) -> None:
        """Dirichlet has E sum p² = (alpha + 1) / (10 alpha + 1): 0.55, 0.182, 0.101.

        Drawing 500 labels adds (1 - that) / 500, and late clients, who take what is left, a little more.
        """
        labels = np.repeat(np.arange(10), 5000)
        squares = []
        for seed in range(12):
            rows = partition.dirichlet(labels, 100, alpha, np.random.default_rng(seed))
            squares.append(np.mean(np.sum((partition.label_counts(labels, rows) / 500) ** 2, axis=1)))
        assert least < np.mean(squares) < most

    def test_no_place_and_no_label_is_preferred(self) -> None:
        counts = np.stack(
            [
                partition.label_counts(LABELS, partition.dirichlet(LABELS, 10, 0.3, np.random.default_rng(seed)))
                for seed in range(400)
            ]
        )
        np.testing.assert_allclose(counts.mean(axis=0), 50.0, atol=17)  # 4.5 standard errors
        concentration = np.mean(np.sum((counts / 500) ** 2, axis=2), axis=0)
        np.testing.assert_allclose(concentration, concentration.mean(), rtol=0.12)

    def test_a_tiny_alpha_gives_one_label_while_it_lasts(self) -> None:
        rows = partition.dirichlet(LABELS, 1000, 1e-9, np.random.default_rng(0))
        assert np.mean((partition.label_counts(LABELS, rows) > 0).sum(axis=1) == 1) == 1.0  # 5 divides 500

    def test_labels_are_drawn_as_if_one_by_one(self) -> None:
        """The counts' probabilities against an exact recursion over single draws from what is left."""
        weights, left, share = (0.5, 0.3, 0.15, 0.05), (2, 1, 3, 3), 5

        @cache
        def exact(counts: tuple[int, ...]) -> float:
            if sum(counts) == 0:
                return 1.0
            total = 0.0
            for label in range(4):
                if counts[label] > 0:
                    before = tuple(c - (k == label) for k, c in enumerate(counts))
                    open_weight = sum(w for w, c, most in zip(weights, before, left, strict=True) if c < most)
                    total += exact(before) * weights[label] / open_weight
            return total

        outcomes = [c for c in np.ndindex(3, 2, 4, 4) if sum(c) == share]
        assert sum(map(exact, outcomes)) == pytest.approx(1)
        rng, draws = np.random.default_rng(0), 40_000
        drawn = Counter(
            tuple(partition._drawn(np.log(weights), np.array(left), share, rng).tolist()) for _ in range(draws)
        )
        chi_square = sum((drawn[c] - draws * exact(c)) ** 2 / (draws * exact(c)) for c in outcomes)
        assert set(drawn) <= set(outcomes)
        assert chi_square < len(outcomes) - 1 + 4 * np.sqrt(2 * (len(outcomes) - 1))


@pytest.mark.parametrize(
    ("deal", "sentence"),
    [
        (lambda rng: partition.iid(LABELS, 0, rng), "clients is 0: give 1 or more"),
        (lambda rng: partition.iid(LABELS, 7, rng), "clients is 7: it must divide the 5,000 examples evenly"),
        (lambda rng: partition.iid(LABELS[:0], 1, rng), "clients is 1: it must divide the 0 examples"),
        (lambda rng: partition.iid(LABELS / 2, 10, rng), "labels must be a list of whole numbers"),
        (lambda rng: partition.iid(LABELS - 1, 10, rng), "labels must be a list of whole numbers"),
        (lambda rng: partition.dirichlet(LABELS, 10, 0.0, rng), "alpha is 0.0: give a number above zero"),
        (lambda rng: partition.dirichlet(LABELS, 10, float("nan"), rng), "alpha is nan"),
        (lambda rng: partition.by_label(LABELS, 10, 0, rng), "shards is 0: give 1 or more"),
        (lambda rng: partition.by_label(LABELS, 10, 3, rng), "shards is 3: it must divide the 500 examples"),
        (lambda rng: partition.in_groups(LABELS, 10, 0, rng), "groups is 0: give 1 or more"),
        (lambda rng: partition.in_groups(LABELS, 25, 2, rng), "groups is 2: it must divide the 25 clients"),
        (lambda rng: partition.in_groups(LABELS, 20, 4, rng), "groups is 4: it must divide the 10 labels"),
        (
            lambda rng: partition.in_groups(np.array([0, 0, 0, 1]), 2, 2, rng),
            r"groups is 2: their labels have \[3, 1\] examples",
        ),
    ],
)
def test_bad_input_is_one_sentence(deal: Callable[[Rng], object], sentence: str) -> None:
    with pytest.raises(NoshowError, match=sentence) as caught:
        deal(np.random.default_rng(0))
    assert "\n" not in str(caught.value)
