"""Federations: sizes, weights, drawing, independent copies, bad input."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

import noshow as ns
from noshow.datasets.synthetic import Recipe, _labellers
from noshow.federation import ALIGNMENT


def clients(*sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.full((n, 2), i, np.float32), np.full(n, i, np.int32)) for i, n in enumerate(sizes)]


def test_data_lie_client_after_client_without_padding() -> None:
    federation = ns.Federation.from_clients(clients(3, 1, 5), test=clients(2)[0])
    assert federation.data[1].tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    assert federation.offsets.tolist() == [0, 3, 4]
    assert federation.of_client(2)[1].tolist() == [2] * 5


def test_sizes_follow_the_drawing() -> None:
    federation = ns.Federation.from_clients(clients(3, 1, 6), test=clients(2)[0])
    assert federation.sizes.tolist() == [3, 1, 6]
    np.testing.assert_allclose(federation.weights, [0.3, 0.1, 0.6])
    drawn = federation.drawing("round", 2)
    assert drawn.sizes.tolist() == [2, 1, 2]
    np.testing.assert_allclose(drawn.weights, [0.4, 0.2, 0.4])
    assert drawn.data[0] is federation.data[0]


def test_arrays_can_be_shared_by_all_cpu_devices() -> None:
    federation = ns.Federation.from_clients(clients(3, 1), test=clients(2)[0])
    assert all(leaf.ctypes.data % ALIGNMENT == 0 for leaf in jax.tree.leaves((federation.data, federation.test)))
    wide = ns.Federation.from_clients([np.zeros((2, 1), np.float64)], test=np.zeros((1, 1), np.float64))
    assert wide.data.dtype == np.float32


def test_without_resampled_there_is_no_copy() -> None:
    federation = ns.Federation.from_clients(clients(3), test=clients(2)[0], name="mine")
    with pytest.raises(ns.NoshowError, match="'mine' cannot draw an independent copy"):
        federation.resample(jax.random.key(0))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ns.Federation.from_clients([], test=clients(1)[0]), "at least one client"),
        (lambda: ns.Federation.from_clients(clients(2, 0), test=clients(1)[0]), "client 1 holds no examples"),
        (
            lambda: ns.Federation.from_clients(
                [(np.zeros((3, 2)), np.zeros(2)), (np.zeros((2, 2)), np.zeros(3))], test=clients(1)[0]
            ),
            r"the arrays of client 0 hold \[2, 3\] examples",
        ),
        (lambda: ns.Federation(clients(3)[0], np.array([1, 1]), clients(1)[0]), "sizes sum to 2"),
        (lambda: ns.Federation.from_clients(clients(3), test=(np.zeros((0, 2)), np.zeros(0))), "test data"),
        (lambda: ns.Federation.from_clients(clients(3), test=clients(1)[0], batches="some"), "batches is 'some'"),
        (lambda: ns.Federation.from_clients(clients(3), test=clients(1)[0]).drawing("step"), "batch_size is None"),
    ],
)
def test_bad_input_is_one_sentence(make: object, sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


class TestSynthetic:
    def test_sizes_and_split(self) -> None:
        federation = ns.datasets.synthetic(1, 1, clients=50, sizes=60)
        assert federation.clients == 50
        assert federation.held.tolist() == [54] * 50
        assert len(federation.test[1]) == 50 * 6

    def test_power_law(self) -> None:
        federation = ns.datasets.synthetic(1, 1, clients=4000, seed=3)
        total = federation.held / 0.9
        assert total.min() >= 49
        # floor(lognormal(4, 2)) + 50: the median is e^4 + 50, and log(size - 50) has deviation 2.
        assert np.median(total) == pytest.approx(np.exp(4) + 50, rel=0.05)
        large = total[total > 150] - 50
        assert np.quantile(np.log(large), 0.99) == pytest.approx(4 + 2 * 2.7, abs=0.6)

    def test_features_have_the_stated_covariance(self) -> None:
        federation = ns.datasets.synthetic(1, 1, clients=1, sizes=40_000)
        x, _ = federation.of_client(0)
        np.testing.assert_allclose(x.var(axis=0), np.arange(1.0, 61.0) ** -1.2, rtol=0.05)
        correlation = np.corrcoef(x.T)
        assert np.abs(correlation - np.eye(60)).max() < 0.03

    def test_labels_are_a_linear_function_of_the_inputs(self) -> None:
        x, y = ns.datasets.synthetic(1, 1, clients=1, sizes=400, seed=5).of_client(0)
        inputs = np.hstack([x, np.ones((len(x), 1))]).astype(np.float64)

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            logits = inputs @ flat.reshape(61, 10)
            shares = softmax(logits, axis=1)
            shares[np.arange(len(y)), y] -= 1
            right = logits[np.arange(len(y)), y]
            return float((logsumexp(logits, axis=1) - right).sum()), (inputs.T @ shares).ravel()

        fitted = minimize(loss, np.zeros(610), jac=True, method="L-BFGS-B", options={"maxiter": 3000}).x
        assert np.array_equal(np.argmax(inputs @ fitted.reshape(61, 10), axis=1), y)
        assert len(set(y.tolist())) > 1

    def test_centres_spread_with_beta(self) -> None:
        federation = ns.datasets.synthetic(1, 9, clients=300, sizes=20)
        centres = np.array([federation.of_client(i)[0].mean() for i in range(300)])
        assert centres.std() == pytest.approx(3, rel=0.2)  # B_i ~ N(0, beta), averaged over 60 features

    def test_labellers_spread_with_alpha(self) -> None:
        labellers = list(_labellers(Recipe(9.0, 1.0, 300, 20, 0)))
        means = np.array([labeller.weights.mean() for labeller in labellers])
        assert means.std() == pytest.approx(3, rel=0.2)  # u_i ~ N(0, alpha), averaged over 600 entries
        assert np.mean([labeller.weights.std() for labeller in labellers]) == pytest.approx(1, rel=0.05)

    def test_same_seed_same_data_other_seed_other_data(self) -> None:
        one, same, other = (ns.datasets.synthetic(clients=3, seed=seed) for seed in (1, 1, 2))
        assert np.array_equal(one.data[0], same.data[0])
        assert one.held.tolist() != other.held.tolist()

    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_copy_keeps_the_clients_and_draws_anew(self, seed: int) -> None:
        federation = ns.datasets.synthetic(clients=5, sizes=5000)
        copy = federation.resample(jax.random.key(seed))
        again = federation.resample(jax.random.key(seed))
        assert copy.held.tolist() == federation.held.tolist()
        assert np.array_equal(copy.data[0], again.data[0])
        assert not {row.tobytes() for row in copy.data[0]} & {row.tobytes() for row in federation.data[0]}
        for i in range(5):
            (x, y), (copied_x, copied_y) = federation.of_client(i), copy.of_client(i)
            np.testing.assert_allclose(x.mean(0), copied_x.mean(0), atol=0.1)
            shares = [np.bincount(labels, minlength=10) / len(labels) for labels in (y, copied_y)]
            np.testing.assert_allclose(*shares, atol=0.05)

    def test_a_drawn_federation_copies_with_its_drawing(self) -> None:
        copy = ns.datasets.synthetic(clients=3, sizes=50).drawing("step", 7).resample(jax.random.key(0))
        assert (copy.batches, copy.batch_size) == ("step", 7)

    @pytest.mark.parametrize(
        "settings", [{"alpha": -1}, {"beta": -1}, {"clients": 0}, {"clients": 10**12}, {"sizes": 1}]
    )
    def test_bad_settings(self, settings: dict[str, float]) -> None:
        with pytest.raises(ns.NoshowError, match=next(iter(settings))):
            ns.datasets.synthetic(**settings)  # type: ignore[arg-type]
