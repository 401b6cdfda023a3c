"""The Shakespeare federation: against the texts themselves, cut up one example at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import DATA
from hypothesis import given, settings
from hypothesis import strategies as st

import noshow as ns
from noshow.datasets import shakespeare_files
from noshow.datasets.leaf import LETTERS, VOCABULARY, decode, encode, speakers
from noshow.datasets.shakespeare import CLIENTS, federate, shakespeare, windows

TEXT_LENGTHS = (900, 1300, 871, 2050)


def made_up(length: int, seed: int) -> str:
    return decode(np.random.default_rng(seed).integers(0, VOCABULARY, length))


TEXTS = [made_up(length, seed) for seed, length in enumerate(TEXT_LENGTHS)]
SMALL = federate(TEXTS, batch_size=50, batches="round", seed=3)


@pytest.fixture(scope="module")
def folder() -> str:
    if shakespeare_files.find(DATA) is None:
        pytest.skip(f"Shakespeare's text is not in {DATA}")
    return str(DATA)


@pytest.fixture(scope="module")
def everyone(folder: str) -> ns.Federation:
    return shakespeare(clients=CLIENTS, dir=folder)


def examples(text: str) -> list[tuple[str, str]]:
    """All examples of a text, in order."""
    return [(text[k : k + 80], text[k + 80]) for k in range(len(text) - 80)]


def spelled(batch: tuple[jax.Array, jax.Array]) -> list[tuple[str, str]]:
    return [(decode(x), LETTERS[y]) for x, y in zip(*map(np.asarray, batch), strict=True)]


def test_a_client_holds_the_first_nine_tenths_of_its_own_windows() -> None:
    assert SMALL.held.tolist() == [738, 1098, 711, 1773]  # 0.9 times 820, 1220, 791 and 1970
    for client, text in enumerate(TEXTS):
        assert spelled(SMALL.of_client(client)) == examples(text)[: SMALL.held[client]]


def test_the_last_windows_test() -> None:
    expected = [
        example for text, held in zip(TEXTS, SMALL.held, strict=True) for example in examples(text)[held + 79 :]
    ]
    assert spelled(windows(SMALL.shared, SMALL.test)) == expected
    assert len(SMALL.test) == 3 + 43 + 1 + 118


@settings(max_examples=25)
@given(st.text(LETTERS, min_size=81, max_size=300), st.data())
def test_windows_are_slices_of_the_text(text: str, data: st.DataObject) -> None:
    starts = data.draw(st.lists(st.integers(0, len(text) - 81), min_size=1, max_size=5))
    x, y = windows(encode(text), np.array(starts))
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((len(starts), 80), jnp.int32, (len(starts),), jnp.int32)
    assert spelled((x, y)) == [(text[k : k + 80], text[k + 80]) for k in starts]


def test_every_federation_reads_with_the_same_function() -> None:
    assert SMALL.read is windows is SMALL.resample(jax.random.key(0)).read


def test_texts_are_stored_once() -> None:
    assert SMALL.shared.nbytes == sum(TEXT_LENGTHS)
    assert SMALL.data.dtype == SMALL.test.dtype == np.int32
    assert SMALL.data.ndim == 1


class TestCopy:
    def test_each_client_draws_from_its_own_training_windows(self) -> None:
        copy = SMALL.resample(jax.random.key(5))
        assert copy.held.tolist() == SMALL.held.tolist()
        for client in range(SMALL.clients):
            rows = slice(SMALL.offsets[client], SMALL.offsets[client] + SMALL.held[client])
            assert set(copy.data[rows]) < set(SMALL.data[rows])

    def test_draws_are_uniform_and_with_replacement(self) -> None:
        copies = [SMALL.resample(key).data[-1773:] for key in jax.random.split(jax.random.key(0), 40)]
        distinct = np.mean([len(set(copy)) for copy in copies]) / 1773
        assert distinct == pytest.approx(1 - np.exp(-1), abs=0.01)
        times = np.unique(np.concatenate(copies), return_counts=True)[1]
        assert len(times) == 1773  # each is drawn about 40 times: none is left out
        assert times.var() == pytest.approx(40, rel=0.15)

    def test_a_key_gives_one_copy_and_copies_copy_the_original(self) -> None:
        key, other = jax.random.split(jax.random.key(1))
        copy = SMALL.resample(key)
        assert np.array_equal(copy.data, SMALL.resample(key).data)
        assert not np.array_equal(copy.data, SMALL.resample(other).data)
        assert np.array_equal(copy.resample(other).data, SMALL.resample(other).data)

    def test_a_copy_draws_batches_alike(self) -> None:
        copy = SMALL.drawing("step", 7).resample(jax.random.key(1))
        assert (copy.batches, copy.sizes.tolist()) == ("step", [7] * 4)


def letter_frequencies(favourite: str) -> ns.Model:
    """A model that does not look at x: one logit a letter, one favourite at first."""

    def measure(logits: jax.Array, batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        _, y = batch
        return -jax.nn.log_softmax(logits)[y], (jnp.argmax(logits) == y).astype(jnp.float32)

    return ns.Model(lambda key: jnp.zeros(VOCABULARY).at[LETTERS.index(favourite)].set(1.0), measure)


def test_the_engine_reads_the_windows() -> None:
    history = ns.simulate(SMALL, letter_frequencies("e"), ns.algorithms.fedavg(0.1), sampled=2, rounds=1)
    labels = [y for text, held in zip(TEXTS, SMALL.held, strict=True) for _, y in examples(text)[held + 79 :]]
    assert history.scores.test_accuracy[0, 0] == pytest.approx(labels.count("e") / len(labels))
    normaliser = np.log(79 + np.e)
    losses = [
        normaliser - np.mean([y == "e" for _, y in examples(text)[:held]])
        for text, held in zip(TEXTS, SMALL.held, strict=True)
    ]
    # The train loss is F = sum w_i F_i, and with 50 examples a round from each client the weights are equal.
    assert history.scores.train_loss[0, 0] == pytest.approx(np.mean(losses), rel=1e-5)


class TestRealText:
    def test_all_660(self, everyone: ns.Federation) -> None:
        assert everyone.clients == 660
        # Smallest, sum, and what tests: from LEAF's rules written another way, as a script over lists of examples.
        assert (everyone.held.min(), everyone.held.sum(), len(everyone.test)) == (721, 3_678_451, 356_921)
        assert everyone.data.nbytes + everyone.test.nbytes + everyone.shared.nbytes < 21e6

    def test_the_paper_s_125_draw_500_each(self, folder: str) -> None:
        federation = shakespeare(dir=folder)
        assert (federation.clients, federation.batches) == (125, "round")
        assert set(federation.sizes.tolist()) == {500}
        np.testing.assert_allclose(federation.weights, 1 / 125)

    def test_the_seed_chooses_and_fewer_are_some_of_the_more(self, folder: str, everyone: ns.Federation) -> None:
        def texts(federation: ns.Federation) -> list[bytes]:
            starts = federation.data[federation.offsets]
            return [part.tobytes() for part in np.split(federation.shared, starts[1:])]

        few, more = texts(shakespeare(clients=20, dir=folder)), texts(shakespeare(clients=60, dir=folder))
        assert len(set(few)) == 20
        assert [text for text in more if text in few] == few
        assert [text for text in texts(everyone) if text in more] == more
        assert texts(shakespeare(clients=20, seed=1, dir=folder)) != few

    def test_clients_are_speakers_in_the_order_of_the_works(self, folder: str) -> None:
        federation = shakespeare(clients=125, dir=folder)
        opening, _ = windows(federation.shared, federation.data[federation.offsets])
        works = shakespeare_files.text(folder).decode("utf-8-sig")
        places = {speaker.text[:80]: place for place, speaker in enumerate(speakers(works))}
        assert np.all(np.diff([places[decode(x)] for x in np.asarray(opening)]) > 0)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"clients": 0}, "clients is 0: give 1 to 660"),
        ({"clients": 661}, "clients is 661: give 1 to 660"),
        ({"seed": -1}, "seed is -1"),
        ({"clients": 1.5}, "clients is 1.5: give a whole number"),
        ({"clients": "3"}, "clients is '3': give a whole number"),
        ({"seed": 2.0}, "seed is 2.0: give a whole number"),
        ({"dir": "/nowhere"}, "/nowhere"),
    ],
)
def test_bad_settings(setting: dict[str, object], sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        shakespeare(**({"dir": "/nowhere"} | setting))  # type: ignore[arg-type]
