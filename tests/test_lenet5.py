from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns
from noshow.errors import NoshowError
from noshow.models.convolution import convolve
from noshow.models.examples_last import convolve_and_pool
from noshow.models.lenet5 import ACCELERATOR_BLOCKS, CPU_BLOCKS, first_windows, init, lenet5, logits, pool

FIXTURE = Path(__file__).parent / "data" / "torch_models.npz"
BLOCKS = pytest.mark.parametrize("blocks", [CPU_BLOCKS, ACCELERATOR_BLOCKS], ids=["cpu", "accelerator"])


def torch_arrays(model: str) -> dict[str, np.ndarray]:
    with np.load(FIXTURE) as arrays:
        return {name.removeprefix(f"{model}/"): arrays[name] for name in arrays if name.startswith(f"{model}/")}


def as_ours(arrays: dict[str, np.ndarray], kind: str) -> Any:
    """PyTorch's weights or gradients in our layout: outputs last, and features by row, column, channel."""

    def layer(name: str) -> dict[str, jax.Array]:
        weights = arrays[f"{kind}.{name}.weight"]
        if name == "dense1":
            weights = weights.reshape(120, 16, 5, 5).transpose(2, 3, 1, 0).reshape(400, 120)
        else:
            weights = weights.transpose(2, 3, 1, 0) if weights.ndim == 4 else weights.T
        return {"weights": jnp.asarray(weights), "bias": jnp.asarray(arrays[f"{kind}.{name}.bias"])}

    return {name: layer(name) for name in ("conv1", "conv2", "dense1", "dense2", "dense3")}


def batch_of(arrays: dict[str, np.ndarray]) -> tuple[jax.Array, jax.Array]:
    return jnp.asarray(arrays["x"].transpose(0, 2, 3, 1)), jnp.asarray(arrays["y"], jnp.int32)


def assert_close(ours: Any, theirs: Any) -> None:
    assert np.linalg.norm(ours - theirs) <= 1e-5 * np.linalg.norm(theirs)


@BLOCKS
def test_logits_are_pytorchs(blocks: Any) -> None:
    arrays = torch_arrays("lenet5")
    seen = first_windows(batch_of(arrays)[0], blocks)
    ours = jax.jit(logits, static_argnums=2)(as_ours(arrays, "weight"), seen, blocks)
    assert_close(ours, arrays["output.logits"])


@BLOCKS
def test_layers_are_pytorchs(blocks: Any) -> None:
    """Layer by layer, each from PyTorch's own input to it."""
    arrays = torch_arrays("lenet5")
    params, (x, _) = as_ours(arrays, "weight"), batch_of(arrays)
    for name, block in zip(("conv1", "conv2"), blocks, strict=True):
        theirs = arrays[f"output.{name}"].transpose(0, 2, 3, 1)
        ours = jax.nn.relu(pool(convolve(x, params[name]["weights"], block)) + params[name]["bias"])
        assert_close(ours, theirs)
        x = jnp.asarray(theirs)
    x = x.reshape(len(x), -1)
    for name in ("dense1", "dense2"):
        assert_close(jax.nn.relu(x @ params[name]["weights"] + params[name]["bias"]), arrays[f"output.{name}"])
        x = jnp.asarray(arrays[f"output.{name}"])


@pytest.mark.parametrize("on_cpu", [True, False], ids=["cpu", "accelerator"])
def test_losses_and_gradients_are_pytorchs(on_cpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["noshow.models.lenet5"], "on_cpu", lambda: on_cpu)
    arrays, measure = torch_arrays("lenet5"), lenet5().measure
    params, batch = as_ours(arrays, "weight"), batch_of(arrays)

    def mean_loss(params: Any) -> Any:
        losses, correct = measure(params, batch)
        return losses.mean(), (losses, correct)

    (_, (losses, correct)), gradients = jax.jit(jax.value_and_grad(mean_loss, has_aux=True))(params)
    assert_close(losses, arrays["losses"])
    assert correct.tolist() == (arrays["output.logits"].argmax(1) == arrays["y"]).astype(float).tolist()
    jax.tree.map(assert_close, gradients, as_ours(arrays, "gradient"))


@pytest.mark.parametrize(
    "block", [(2, 4), *(pytest.param(block, marks=pytest.mark.long) for block in ((4, 2), (2, 2)))]
)
def test_examples_last_or_first_convolve_and_pool_the_same(block: Any) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    x, kernel = jax.random.normal(keys[0], (3, 12, 16, 2)), jax.random.normal(keys[1], (5, 5, 2, 7))
    bias = jax.random.normal(keys[2], (7,))

    def first(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
        return jax.nn.relu(pool(convolve(x, kernel, (1, 1))) + bias)

    def last(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
        return convolve_and_pool(x.transpose(3, 1, 2, 0), kernel, bias, block).transpose(3, 1, 2, 0)

    (theirs, pull_theirs), (ours, pull_ours) = (jax.vjp(way, x, kernel, bias) for way in (first, last))
    assert_close(ours, theirs)
    jax.tree.map(assert_close, pull_ours(theirs), pull_theirs(theirs))


def test_examples_last_needs_blocks_of_squares() -> None:
    with pytest.raises(NoshowError, match="give even divisors of its sides"):
        convolve_and_pool(jnp.zeros((1, 6, 6, 1)), jnp.zeros((5, 5, 1, 1)), jnp.zeros(1), (1, 2))


def test_clients_models_side_by_side_are_the_models_one_by_one() -> None:
    model = lenet5()
    x = jax.random.normal(jax.random.key(0), (2, 4, 32, 32, 3))
    y = jnp.array([[0, 1, 2, 3], [9, 8, 7, 6]])
    params = jax.jit(jax.vmap(model.init))(jax.random.split(jax.random.key(1), 2))

    @jax.jit
    def gradient(params: Any, x: jax.Array, y: jax.Array) -> Any:
        return jax.grad(lambda params: model.measure(params, (x, y))[0].mean())(params)

    together = jax.jit(jax.vmap(gradient))(params, x, y)
    for client in range(2):
        own = jax.tree.map(lambda leaf, client=client: leaf[client], params)
        alone = gradient(own, x[client], y[client])
        jax.tree.map(assert_close, jax.tree.map(lambda leaf, client=client: leaf[client], together), alone)


def test_pool_sends_gradients_where_pytorch_does() -> None:
    arrays = torch_arrays("pool")
    x, upstream = (jnp.asarray(arrays[name].transpose(0, 2, 3, 1)) for name in ("x", "upstream"))
    pooled, pull = jax.vjp(pool, x)
    np.testing.assert_array_equal(pooled, arrays["pooled"].transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(pull(upstream)[0], arrays["gradient"].transpose(0, 2, 3, 1))


def test_he_keeps_the_size_of_the_signal() -> None:
    """From standard normal images, logits have about the size of their inputs; from PyTorch's start, a tenth of it."""
    images = jax.random.normal(jax.random.key(0), (200, 32, 32, 3))
    sizes = {}
    for start in ("he", "pytorch"):
        params = lenet5(start).init(jax.random.key(3))  # type: ignore[arg-type]
        for name, layer in params.items():
            spread = np.sqrt(2 / np.prod(layer["weights"].shape[:-1]))
            if start == "he":
                assert not np.any(layer["bias"])
                assert np.std(layer["weights"]) == pytest.approx(spread, rel=0.15), name
        answers = jax.jit(lambda params: logits(params, first_windows(images, CPU_BLOCKS), CPU_BLOCKS))(params)
        sizes[start] = float(jnp.std(answers, axis=0).mean())
    assert sizes["he"] > 5 * sizes["pytorch"]
    assert 0.2 < sizes["he"] < 5
    with pytest.raises(ns.NoshowError, match="start is 'zero': give 'pytorch' or 'he'"):
        lenet5("zero")  # type: ignore[arg-type]


def test_starts_as_pytorch_does() -> None:
    """Uniform on ± 1/sqrt(inputs): the bound is kept, nearly reached, and the variance is a third of its square."""
    params = jax.jit(init)(jax.random.key(3))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 62_006
    for name, inputs in {"conv1": 75, "conv2": 150, "dense1": 400, "dense2": 120, "dense3": 84}.items():
        weights, bias = np.asarray(params[name]["weights"]), np.asarray(params[name]["bias"])
        bound = inputs**-0.5
        assert 0.95 * bound < np.abs(weights).max() <= bound
        assert 0.4 * bound < np.abs(bias).max() <= bound
        assert abs(weights.var() / (bound**2 / 3) - 1) < 0.25
    assert not np.allclose(params["conv1"]["weights"], jax.jit(init)(jax.random.key(4))["conv1"]["weights"])


@pytest.mark.long
def test_learns_ten_images_by_heart() -> None:
    model = lenet5()
    batch = jax.random.normal(jax.random.key(0), (10, 32, 32, 3)), jnp.arange(10)
    gradient = jax.grad(lambda params: model.measure(params, batch)[0].mean())

    def step(k: int, params: Any) -> Any:
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient(params))

    params = jax.jit(lambda params: jax.lax.fori_loop(0, 150, step, params))(model.init(jax.random.key(1)))
    losses, correct = model.measure(params, batch)
    assert float(losses.mean()) < 0.1
    assert correct.tolist() == [1.0] * 10


def test_images_of_another_shape_are_refused() -> None:
    model = lenet5()
    with pytest.raises(NoshowError, match=r"reads images \[n, 32, 32, 3\], and got \[2, 3, 32, 32\]"):
        model.measure(model.init(jax.random.key(0)), (jnp.zeros((2, 3, 32, 32)), jnp.zeros(2, int)))


def test_prepared_batches_measure_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an accelerator, where the first layer's input is lowered once a batch."""
    monkeypatch.setattr(sys.modules["noshow.models.lenet5"], "on_cpu", lambda: False)
    arrays, model = torch_arrays("lenet5"), lenet5()
    params, batch = as_ours(arrays, "weight"), batch_of(arrays)
    prepared = model.prepare(batch)
    assert prepared[0].shape[1:] != batch[0].shape[1:]
    np.testing.assert_array_equal(model.measure(params, prepared)[0], model.measure(params, batch)[0])
