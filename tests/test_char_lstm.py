from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noshow.errors import NoshowError
from noshow.models.char_lstm import char_lstm, logits

FIXTURE = Path(__file__).parent / "data" / "torch_models.npz"


def torch_arrays() -> dict[str, np.ndarray]:
    with np.load(FIXTURE) as arrays:
        return {name.removeprefix("char_lstm/"): arrays[name] for name in arrays if name.startswith("char_lstm/")}


def as_ours(arrays: dict[str, np.ndarray], kind: str) -> Any:
    """PyTorch's weights, or gradients, in our layout: outputs last. Two biases that only occur as a sum are one here,
    with the sum as its value and the gradient of either as its gradient."""

    def layer(number: int) -> dict[str, jax.Array]:
        first, second = (arrays[f"{kind}.lstm.bias_{end}_l{number}"] for end in ("ih", "hh"))
        if kind == "gradient":
            np.testing.assert_array_equal(first, second)
        return {
            "input": jnp.asarray(arrays[f"{kind}.lstm.weight_ih_l{number}"].T),
            "recurrent": jnp.asarray(arrays[f"{kind}.lstm.weight_hh_l{number}"].T),
            "bias": jnp.asarray(first + second if kind == "weight" else first),
        }

    dense = {"weights": arrays[f"{kind}.dense.weight"].T, "bias": arrays[f"{kind}.dense.bias"]}
    return {
        "embedding": jnp.asarray(arrays[f"{kind}.embedding.weight"]),
        "lstm1": layer(0),
        "lstm2": layer(1),
        "dense": jax.tree.map(jnp.asarray, dense),
    }


def assert_close(ours: Any, theirs: Any) -> None:
    assert np.linalg.norm(ours - theirs) <= 1e-5 * np.linalg.norm(theirs)


@pytest.mark.parametrize("codes", [jnp.uint8, jnp.int32])
def test_logits_losses_and_gradients_are_pytorchs(codes: Any) -> None:
    arrays = torch_arrays()
    model = char_lstm(vocabulary=11, embedding=3, hidden=16)
    params, x, y = as_ours(arrays, "weight"), jnp.asarray(arrays["x"], codes), jnp.asarray(arrays["y"], jnp.int32)
    assert_close(jax.jit(logits)(params, x), arrays["output.logits"])

    def mean_loss(params: Any) -> Any:
        losses, correct = model.measure(params, (x, y))
        return losses.mean(), (losses, correct)

    (_, (losses, correct)), gradients = jax.jit(jax.value_and_grad(mean_loss, has_aux=True))(params)
    assert_close(losses, arrays["losses"])
    assert correct.tolist() == (arrays["output.logits"].argmax(1) == arrays["y"]).astype(float).tolist()
    jax.tree.map(assert_close, gradients, as_ours(arrays, "gradient"))
    assert not np.any(gradients["embedding"][0])  # the fixture's texts never use symbol 0


def test_starts_as_pytorch_does() -> None:
    params = jax.jit(char_lstm().init)(jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 817_872
    assert params["embedding"].shape == (80, 8)
    assert abs(params["embedding"].std() - 1) < 0.1
    bound = 1 / 16
    for uniform in (params["lstm1"]["input"], params["lstm2"]["recurrent"], params["dense"]["weights"]):
        assert 0.99 * bound < np.abs(uniform).max() <= bound
        assert abs(uniform.var() / (bound**2 / 3) - 1) < 0.1
    for layer in ("lstm1", "lstm2"):  # a sum of two: twice the variance, twice the reach
        bias = params[layer]["bias"]
        assert bound < np.abs(bias).max() <= 2 * bound
        assert abs(bias.var() / (2 * bound**2 / 3) - 1) < 0.2


def test_learns_a_rhyme_by_heart() -> None:
    """Windows of a periodic text: what comes next follows from more than the last symbol."""
    text = np.array([0, 1, 0, 2, 0, 3] * 6)
    windows = np.lib.stride_tricks.sliding_window_view(text, 7)
    x, y = jnp.asarray(windows[:, :6], jnp.uint8), jnp.asarray(windows[:, 6], jnp.int32)
    model = char_lstm(vocabulary=4, embedding=4, hidden=16)
    gradient = jax.grad(lambda params: model.measure(params, (x, y))[0].mean())

    def step(k: int, params: Any) -> Any:
        return jax.tree.map(lambda p, g: p - 1.0 * g, params, gradient(params))

    params = jax.jit(lambda params: jax.lax.fori_loop(0, 300, step, params))(jax.jit(model.init)(jax.random.key(1)))
    losses, correct = jax.jit(model.measure)(params, (x, y))
    assert float(losses.mean()) < 0.1
    assert correct.min() == 1.0


@pytest.mark.parametrize("settings", [{"vocabulary": 1}, {"embedding": 0}, {"hidden": 0}])
def test_sizes_must_make_sense(settings: dict[str, int]) -> None:
    with pytest.raises(NoshowError, match=f"{next(iter(settings))} is"):
        char_lstm(**settings)


@pytest.mark.parametrize("x", [jnp.zeros((2, 5)), jnp.zeros((2, 5, 4), int)])
def test_only_codes_are_read(x: jax.Array) -> None:
    model = char_lstm(vocabulary=4, hidden=2)
    with pytest.raises(NoshowError, match=r"char_lstm reads codes \[n, characters\], and got"):
        model.measure(model.init(jax.random.key(0)), (x, jnp.zeros(2, int)))
