from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.flatten_util import ravel_pytree

import noshow as ns
from noshow.models.adapters import from_equinox, from_flax, from_nnx
from noshow.models.scores import cross_entropy

ZERO = nn.initializers.zeros


def in_flax() -> ns.Model:
    return from_flax(nn.Dense(3, kernel_init=ZERO), jnp.zeros((1, 4)))


def in_nnx() -> ns.Model:
    return from_nnx(lambda rngs: nnx.Linear(4, 3, kernel_init=ZERO, rngs=rngs))


def in_equinox() -> ns.Model:
    def make(key: jax.Array) -> eqx.nn.Linear:
        return jax.tree.map(jnp.zeros_like, eqx.nn.Linear(4, 3, key=key))

    return from_equinox(make)


def weights_of(params: Any) -> np.ndarray:
    """Logistic regression's parameters as [classes, features + 1], whoever wrote it down."""
    leaves = {leaf.ndim: np.asarray(leaf) for leaf in jax.tree.leaves(params)}
    weights = leaves[2] if leaves[2].shape[0] == len(leaves[1]) else leaves[2].T
    return np.column_stack([weights, leaves[1]])


@pytest.mark.parametrize("written", [in_flax, in_nnx, in_equinox])
def test_lands_on_the_same_model_as_noshows_own(
    written: Callable[[], ns.Model], federation: ns.Federation, model: ns.Model
) -> None:
    def play(model: ns.Model) -> ns.History:
        return ns.simulate(
            federation,
            model,
            ns.algorithms.fedavg_variant(0.5, steps=3),
            ns.adversaries.largest_reply(),
            sampled=6,
            epsilon=0.5,
            rounds=6,
            evaluate_every=3,
        )

    ours, theirs = play(model), play(written())
    expected = weights_of(ours.models[0])
    assert np.linalg.norm(expected) > 0.1  # it has gone somewhere
    np.testing.assert_allclose(weights_of(theirs.models[0]), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(ours.roll_call.answered, theirs.roll_call.answered)
    np.testing.assert_allclose(ours.scores.test_accuracy, theirs.scores.test_accuracy)


class LinenNet(nn.Module):
    drop: bool = False
    normalise: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.relu(nn.Dense(5)(x))
        if self.normalise:
            x = nn.BatchNorm(use_running_average=False)(x)
        return nn.Dense(3)(nn.Dropout(0.5, deterministic=not self.drop)(x))


class NnxNet(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, drop: bool = False, normalise: bool = False) -> None:
        self.first, self.last = nnx.Linear(4, 5, rngs=rngs), nnx.Linear(5, 3, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs) if drop else nnx.identity
        self.normalise = nnx.BatchNorm(5, rngs=rngs) if normalise else nnx.identity

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(self.drop(self.normalise(nnx.relu(self.first(x)))))


class EquinoxNet(eqx.Module):
    first: eqx.nn.Linear
    last: eqx.nn.Linear
    drop: eqx.nn.Dropout
    normalise: Any

    def __init__(self, key: jax.Array, drop: bool = False, normalise: bool = False) -> None:
        self.first = eqx.nn.Linear(4, 5, key=key)
        self.last = eqx.nn.Linear(5, 3, key=jax.random.fold_in(key, 1))
        self.drop = eqx.nn.Dropout(0.5, inference=not drop)
        self.normalise = eqx.nn.BatchNorm(5, "batch", mode="ema") if normalise else None

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(self.drop(jax.nn.relu(self.first(x))))


def net(library: str, **settings: bool) -> ns.Model:
    if library == "flax":
        return from_flax(LinenNet(**settings), jnp.zeros((1, 4)))
    if library == "nnx":
        return from_nnx(lambda rngs: NnxNet(rngs, **settings))
    return from_equinox(lambda key: EquinoxNet(key, **settings))


LIBRARIES = pytest.mark.parametrize("library", ["flax", "nnx", "equinox"])


@LIBRARIES
def test_measures_and_differentiates_a_network(library: str) -> None:
    """One entry an example; a step along the gradient lowers the mean loss; keys give different networks."""
    model = net(library)
    batch = jax.random.normal(jax.random.key(0), (7, 4)), jnp.arange(7) % 3
    theta, unravel = ravel_pytree(model.init(jax.random.key(1)))
    assert theta.size == 4 * 5 + 5 + 5 * 3 + 3
    assert not np.allclose(theta, ravel_pytree(model.init(jax.random.key(2)))[0])

    def mean_loss(theta: jax.Array) -> jax.Array:
        losses, correct = model.measure(unravel(theta), batch)
        assert losses.shape == correct.shape == (7,)
        return losses.mean()

    before, gradient = jax.jit(jax.value_and_grad(mean_loss))(theta)
    assert mean_loss(theta - 0.1 * gradient) < before


@LIBRARIES
def test_own_scores(library: str) -> None:
    """Least squares on the first output, say."""

    def squares(outputs: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return 0.5 * (outputs[:, 0] - y) ** 2, jnp.zeros(len(y))

    model = {
        "flax": lambda: from_flax(nn.Dense(1), jnp.zeros((1, 4)), score=squares, name="line"),
        "nnx": lambda: from_nnx(lambda rngs: nnx.Linear(4, 1, rngs=rngs), score=squares, name="line"),
        "equinox": lambda: from_equinox(lambda key: eqx.nn.Linear(4, 1, key=key), score=squares, name="line"),
    }[library]()
    params = jax.tree.map(jnp.zeros_like, model.init(jax.random.key(0)))
    losses, _ = model.measure(params, (jnp.ones((2, 4)), jnp.array([1.0, 3.0])))
    assert losses.tolist() == [0.5, 4.5]
    assert model.name == "line"


@LIBRARIES
@pytest.mark.parametrize(("layer", "said"), [("drop", "draws random numbers"), ("normalise", "keeps state")])
def test_state_and_dropout_are_refused(library: str, layer: str, said: str) -> None:
    with pytest.raises(ns.NoshowError, match=f"Net {said}"):
        net(library, **{layer: True})


class Nothing(eqx.Module):
    def __call__(self, x: jax.Array) -> jax.Array:
        return x


@pytest.mark.parametrize(
    "build",
    [
        lambda: from_flax(nn.Sequential([nn.relu]), jnp.zeros((1, 4))),
        lambda: from_nnx(lambda rngs: nnx.Sequential(nnx.relu)),
        lambda: from_equinox(lambda key: Nothing()),
    ],
)
def test_nothing_to_train_is_refused(build: Callable[[], ns.Model]) -> None:
    with pytest.raises(ns.NoshowError, match="has no parameters"):
        build()


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: from_flax(nn.Dense, jnp.zeros((1, 4))), "not the class"),
        (lambda: from_flax(nnx.Linear(4, 3, rngs=nnx.Rngs(0)), jnp.zeros((1, 4))), "not a Linear.*use from_nnx"),
        (lambda: from_nnx(lambda rngs: 3), "returned a int"),
        (lambda: from_equinox(lambda key: 3), "returned a int"),
    ],
)
def test_other_things_are_refused(build: Callable[[], ns.Model], said: str) -> None:
    with pytest.raises(ns.NoshowError, match=said):
        build()


def in_library(library: str, linear: Callable[..., Any], features: int) -> ns.Model:
    if library == "flax":
        return from_flax(linear(), jnp.zeros((1, features)), name="mine")
    return (from_nnx if library == "nnx" else from_equinox)(linear, name="mine")


@LIBRARIES
def test_data_of_another_width_are_one_sentence(library: str, federation: ns.Federation) -> None:
    """The federation has 4 features, the model 3."""
    linear = {
        "flax": lambda: nn.Dense(3),
        "nnx": lambda rngs: nnx.Linear(3, 3, rngs=rngs),
        "equinox": lambda key: eqx.nn.Linear(3, 3, key=key),
    }[library]
    refused(in_library(library, linear, 3), federation, r".*\(?4\b.*\(?3\b|.*\(?3\b.*\(?4\b")


class LinenPair(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> Any:
        return nn.Dense(3)(x), x


class NnxPair(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.only = nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x: jax.Array) -> Any:
        return self.only(x), x


class EquinoxPair(eqx.Module):
    only: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        self.only = eqx.nn.Linear(4, 3, key=key)

    def __call__(self, x: jax.Array) -> Any:
        return self.only(x), x


PAIRS: dict[str, Callable[..., Any]] = {"flax": LinenPair, "nnx": NnxPair, "equinox": EquinoxPair}


@LIBRARIES
def test_a_tuple_instead_of_logits_is_one_sentence(library: str, federation: ns.Federation) -> None:
    model = in_library(library, PAIRS[library], 4)
    refused(model, federation, "the module returns a tuple, not logits: give a `score` that takes it$")


def test_a_score_may_take_a_tuple() -> None:
    def first(outputs: Any, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return cross_entropy(outputs[0], y)

    model = from_flax(LinenPair(), jnp.zeros((1, 4)), score=first)
    losses, _ = model.measure(model.init(jax.random.key(0)), (jnp.ones((2, 4)), jnp.array([0, 1])))
    assert losses.shape == (2,)


def test_a_model_that_looks_for_what_data_lack_is_one_sentence(federation: ns.Federation) -> None:
    model = ns.Model(lambda key: jnp.zeros(3), lambda params, batch: batch.images, "mine")
    refused(model, federation, "'tuple' object has no attribute 'images'$")


def refused(model: ns.Model, federation: ns.Federation, why: str) -> None:
    sentence = f"^the model 'mine' cannot read the data of {federation.name!r}: {why}"
    with pytest.raises(ns.NoshowError, match=sentence):
        ns.simulate(federation, model, ns.algorithms.fedavg(0.1, steps=1), sampled=2, rounds=1)


@LIBRARIES
def test_says_what_to_install(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] in ("flax", "equinox"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    extra = "equinox" if library == "equinox" else "flax"
    with pytest.raises(ns.NoshowError, match=rf"pip install 'noshow\[{extra}\]'"):
        net(library)
