"""Partitions: every example once, equal shares, and the law that each one states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
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


@settings(max_examples=150)
@given(dealings(), st.integers(0, 2**32), st.sampled_from([1e-8, 0.01, 0.1, 1.0, 1e5]))
@example((np.arange(4), 1, 2), 1, 1e-8)
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
    @pytest.mark.parametrize("alpha", [0.05, 0.1, 1.0, 100.0])
    def test_concentration(self, alpha: float) -> None:
        """Dirichlet has E sum p² = (alpha + 1) / (10 alpha + 1): 0.7, 0.55, 0.182, 0.101; bending evens out a bit."""
        labels = np.repeat(np.arange(10), 5000)
        squares = []
        for seed in range(12):
            rows = partition.dirichlet(labels, 100, alpha, np.random.default_rng(seed))
            squares.append(np.mean(np.sum((partition.label_counts(labels, rows) / 500) ** 2, axis=1)))
        assert np.mean(squares) == pytest.approx((alpha + 1) / (10 * alpha + 1), rel=0.04)

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

    def test_a_tiny_alpha_gives_one_label_where_labels_suffice(self) -> None:
        """Clients that want one label each get nothing else, but where more want it than there are examples."""
        counts = partition.label_counts(LABELS, partition.dirichlet(LABELS, 100, 1e-9, np.random.default_rng(0)))
        wanted = np.argmax(counts, axis=1)
        enough = np.bincount(wanted, minlength=10) * 50 <= 500
        assert 0 < enough.sum() < 10
        assert np.all(counts.max(axis=1)[enough[wanted]] == 50)

    @settings(max_examples=20)
    @given(st.integers(0, 2**32), st.sampled_from([0.1, 0.5, 3.0]))
    def test_amounts_are_those_that_proportional_fitting_finds(self, seed: int, alpha: float) -> None:
        """Scaling columns and rows in turn converges to the same nearest amounts (Deming and Stephan, 1940)."""
        rng = np.random.default_rng(seed)
        proportions = rng.dirichlet(np.full(4, alpha), 12) + 1e-9
        totals = np.array([30, 12, 48, 30])
        found = partition._fitted(np.log(proportions), 10, totals)
        scaled = proportions
        for _ in range(20_000):
            scaled = scaled * totals / scaled.sum(axis=0)
            scaled = scaled * 10 / scaled.sum(axis=1, keepdims=True)
        assert np.abs(scaled.sum(axis=0) - totals).max() < 1e-3
        np.testing.assert_allclose(found, scaled, atol=0.02)

    @settings(max_examples=100)
    @given(st.integers(0, 2**32), st.integers(2, 40))
    def test_rounding_keeps_sums_and_stays_near(self, seed: int, clients: int) -> None:
        rng = np.random.default_rng(seed)
        whole = rng.multinomial(30, rng.dirichlet(np.ones(5), clients))
        moved = rng.uniform(-1, 1, whole.shape)
        moved -= moved.mean(axis=0) + moved.mean(axis=1, keepdims=True) - moved.mean()
        shrink = min(1.0, float(np.min(np.where(moved < 0, whole / np.maximum(-moved, 1e-9), np.inf))))
        amounts = whole + shrink * moved  # the same sums, no longer whole
        counts = partition._rounded(amounts, 30, whole.sum(axis=0))
        assert counts.min() >= 0
        assert np.array_equal(counts.sum(axis=1), np.full(clients, 30))
        assert np.array_equal(counts.sum(axis=0), whole.sum(axis=0))
        assert np.abs(counts - amounts).max() < 2


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
