"""Weights in files: what safetensors and PyTorch read there, and what comes back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_federation
from flax import nnx
from safetensors.numpy import load_file, save_file
from test_char_lstm import torch_arrays as char_lstm_arrays
from test_lenet5 import torch_arrays
from test_spec import SMALL

import noshow as ns
from noshow import weights
from noshow.arrays import save_arrays
from noshow.models import char_lstm as text_model
from noshow.models.char_lstm import logits as next_character
from noshow.models.lenet5 import logits_last
from noshow.parameters import first_model
from noshow.spec import realise
from noshow.spec_file import load

OURS = {
    "lenet5": ns.models.lenet5(),
    "char_lstm": text_model(vocabulary=11, embedding=3, hidden=16),
    "logistic": ns.models.logistic(features=4, classes=3),
    "quadratic": ns.models.quadratic([1.0, 2.0]),
    "flax": ns.models.from_flax(nn.Sequential([nn.Dense(5), nn.Dense(3)]), jnp.zeros((1, 4))),
    "nnx": ns.models.from_nnx(lambda rngs: nnx.Linear(4, 3, rngs=rngs)),
    "equinox": ns.models.from_equinox(lambda key: eqx.nn.MLP(4, 3, 5, 1, key=key)),
}
SHAPES = {
    "lenet5": {
        "conv1.weight": (6, 3, 5, 5),
        "conv1.bias": (6,),
        "conv2.weight": (16, 6, 5, 5),
        "conv2.bias": (16,),
        "fc1.weight": (120, 400),
        "fc1.bias": (120,),
        "fc2.weight": (84, 120),
        "fc2.bias": (84,),
        "fc3.weight": (10, 84),
        "fc3.bias": (10,),
    },
    "char_lstm": {
        "embedding.weight": (11, 3),
        "lstm.weight_ih_l0": (64, 3),
        "lstm.weight_hh_l0": (64, 16),
        "lstm.bias_ih_l0": (64,),
        "lstm.bias_hh_l0": (64,),
        "lstm.weight_ih_l1": (64, 16),
        "lstm.weight_hh_l1": (64, 16),
        "lstm.bias_ih_l1": (64,),
        "lstm.bias_hh_l1": (64,),
        "fc.weight": (11, 16),
        "fc.bias": (11,),
    },
    "logistic": {"weight": (3, 4), "bias": (3,)},
    "quadratic": {"theta": (2,)},
    "flax": {
        "layers_0.kernel": (4, 5),
        "layers_0.bias": (5,),
        "layers_1.kernel": (5, 3),
        "layers_1.bias": (3,),
    },
    "nnx": {"kernel.value": (4, 3), "bias.value": (3,)},
    "equinox": {
        "layers.0.weight": (5, 4),
        "layers.0.bias": (5,),
        "layers.1.weight": (3, 5),
        "layers.1.bias": (3,),
    },
}


def params_of(name: str) -> Any:
    """Parameters drawn at random, of the size of a model's first ones."""
    rng = np.random.default_rng(3)
    return jax.tree.map(
        lambda leaf: (rng.normal(size=leaf.shape) / np.sqrt(leaf.size / leaf.shape[-1])).astype(np.float32),
        jax.eval_shape(OURS[name].init, jax.random.key(0)),
    )


@jax.jit
def images_logits(params: Any, x: jax.Array) -> jax.Array:
    return logits_last(params, x.transpose(0, 2, 3, 1))


codes_logits = jax.jit(next_character)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("name", OURS)
def test_what_is_saved_comes_back(name: str, file: Path) -> None:
    params = params_of(name)
    weights.save(file, OURS[name], params)
    found = load_file(file)
    assert {tensor: array.shape for tensor, array in found.items()} == SHAPES[name]
    assert {array.dtype.name for array in found.values()} == {"float32"}
    back = weights.load(file, OURS[name])
    assert jax.tree.structure(back) == jax.tree.structure(params)
    jax.tree.map(np.testing.assert_array_equal, back, params)
    assert list(file.parent.iterdir()) == [file]


def pytorchs(arrays: dict[str, np.ndarray], dense: dict[str, str]) -> dict[str, np.ndarray]:
    """PyTorch's own weights in the fixture, under the names of a file."""
    own = {name.removeprefix("weight."): array for name, array in arrays.items() if name.startswith("weight.")}
    return {".".join(dense.get(word, word) for word in name.split(".")): own[name] for name in own}


def test_lenet5_from_pytorchs_own_weights(file: Path) -> None:
    arrays = torch_arrays("lenet5")
    tensors = pytorchs(arrays, {f"dense{k}": f"fc{k}" for k in (1, 2, 3)})
    save_file(tensors, file)
    params = weights.load(file, OURS["lenet5"])
    np.testing.assert_allclose(images_logits(params, arrays["x"]), arrays["output.logits"], atol=1e-5)
    weights.save(file, OURS["lenet5"], params)
    back = load_file(file)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(back[name], tensor)


def test_char_lstm_from_pytorchs_own_weights(file: Path) -> None:
    arrays = char_lstm_arrays()
    tensors = pytorchs(arrays, {"dense": "fc"})
    save_file(tensors, file)
    params = weights.load(file, OURS["char_lstm"])
    np.testing.assert_allclose(codes_logits(params, arrays["x"]), arrays["output.logits"], atol=1e-5)
    weights.save(file, OURS["char_lstm"], params)
    back = load_file(file)
    for name, tensor in tensors.items():
        if "bias" not in name or "fc" in name:
            np.testing.assert_array_equal(back[name], tensor)
    for layer in ("l0", "l1"):  # PyTorch adds them: what their sum is, not which, is the model's
        one, other = (tensors[f"lstm.bias_{end}_{layer}"] for end in ("ih", "hh"))
        np.testing.assert_array_equal(back[f"lstm.bias_ih_{layer}"] + back[f"lstm.bias_hh_{layer}"], one + other)


def lenet5_by_hand(tensors: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """LeNet-5 as PyTorch defines its layers, on images [n, channels, rows, columns]."""
    for name in ("conv1", "conv2"):
        seen = np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(2, 3))
        x = np.einsum("ncrsij,ocij->nors", seen, tensors[f"{name}.weight"], optimize=True)
        x = np.maximum(x + tensors[f"{name}.bias"][:, None, None], 0)
        n, channels, rows, columns = x.shape
        x = x.reshape(n, channels, rows // 2, 2, columns // 2, 2).max((3, 5))
    x = x.reshape(len(x), -1)
    for name in ("fc1", "fc2"):
        x = np.maximum(x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"], 0)
    return x @ tensors["fc3.weight"].T + tensors["fc3.bias"]


def char_lstm_by_hand(tensors: dict[str, np.ndarray], codes: np.ndarray) -> np.ndarray:
    """Two LSTM layers as PyTorch defines them, gates i, f, g, o one under the other."""

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    x = tensors["embedding.weight"][codes]
    for layer in ("l0", "l1"):
        into, within, first, second = (
            tensors[f"lstm.{name}_{layer}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h = c = np.zeros((len(x), within.shape[1]))
        states = []
        for t in range(x.shape[1]):
            i, f, g, o = np.split(x[:, t] @ into.T + first + h @ within.T + second, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        x = np.stack(states, axis=1)
    return x[:, -1] @ tensors["fc.weight"].T + tensors["fc.bias"]


def inputs_of(name: str) -> np.ndarray:
    """Inputs as PyTorch takes them."""
    rng = np.random.default_rng(0)
    match name:
        case "lenet5":
            return rng.normal(size=(3, 3, 32, 32)).astype(np.float32)
        case "char_lstm":
            return rng.integers(0, 11, (5, 12))
        case _:
            return rng.normal(size=(6, 4)).astype(np.float32)


def our_logits(name: str, params: Any, x: np.ndarray) -> np.ndarray:
    match name:
        case "lenet5":
            return np.asarray(images_logits(params, x))
        case "char_lstm":
            return np.asarray(codes_logits(params, x))
        case _:
            return np.asarray(x @ params["weights"].T + params["bias"])


@pytest.mark.parametrize("name", ["lenet5", "char_lstm"])
def test_files_compute_the_same_in_pytorchs_conventions(name: str, file: Path) -> None:
    params, x = params_of(name), inputs_of(name)
    weights.save(file, OURS[name], params)
    by_hand = {"lenet5": lenet5_by_hand, "char_lstm": char_lstm_by_hand}[name](load_file(file), x)
    np.testing.assert_allclose(our_logits(name, params, x), by_hand, atol=1e-5)


def network(torch: Any, name: str) -> Any:
    """The model as a user of PyTorch writes it down."""
    layers = torch.nn
    if name == "logistic":
        return layers.Linear(4, 3)

    class LeNet5(layers.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = layers.Conv2d(3, 6, 5), layers.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = layers.Linear(400, 120), layers.Linear(120, 84), layers.Linear(84, 10)

        def forward(self, x: Any) -> Any:
            for layer in (self.conv1, self.conv2):
                x = layers.functional.max_pool2d(torch.relu(layer(x)), 2)
            return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(torch.flatten(x, 1))))))

    class CharLSTM(layers.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.fc = layers.Embedding(11, 3), layers.Linear(16, 11)
            self.lstm = layers.LSTM(3, 16, num_layers=2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.fc(self.lstm(self.embedding(x))[0][:, -1])

    return LeNet5() if name == "lenet5" else CharLSTM()


@pytest.mark.parametrize("name", ["lenet5", "char_lstm", "logistic"])
def test_pytorch_reads_and_writes_the_same_model(name: str, file: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors import torch as tensors_in_torch

    x, theirs = inputs_of(name), network(torch, name)
    params = params_of(name)
    weights.save(file, OURS[name], params)
    theirs.load_state_dict(tensors_in_torch.load_file(file), strict=True)
    with torch.no_grad():
        np.testing.assert_allclose(our_logits(name, params, x), theirs(torch.from_numpy(x)), atol=1e-5)
        fresh = network(torch, name)
        tensors_in_torch.save_file(fresh.state_dict(), file)
        found = weights.load(file, OURS[name])
        np.testing.assert_allclose(our_logits(name, found, x), fresh(torch.from_numpy(x)), atol=1e-5)


def test_the_pages_pytorch_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    page = (Path(__file__).parent.parent / "docs" / "interoperability.md").read_text("utf-8")
    blocks = [part.partition("```")[0] for part in page.split("```py\n")[1:]]
    assert blocks
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, "interoperability.md", "exec"), {})


GOOD = {"weight": np.ones((3, 4), np.float32), "bias": np.zeros(3, np.float32)}


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({"weight": GOOD["weight"]}, r"lack bias float32 \[3\], which logistic needs: they hold weight"),
        (
            GOOD | {"weight": np.ones((4, 3), np.float32)},
            r"weight of .* is float32 \[4, 3\], .* needs float32 \[3, 4\]",
        ),
        (GOOD | {"bias": np.zeros(3)}, r"bias of .* is F64 \[3\], and logistic needs float32 \[3\]"),
        (GOOD | {"scale": np.zeros(1, np.float32)}, r"hold scale float32 \[1\], which logistic does not have"),
        (GOOD | {"bias": np.full(3, np.nan, np.float32)}, "bias in .* holds NaN or Inf"),
        ({}, "they hold nothing"),
    ],
)
def test_wrong_files_are_told(tensors: dict[str, np.ndarray], sentence: str, file: Path) -> None:
    save_file(tensors, file)
    with pytest.raises(ns.NoshowError, match=sentence):
        weights.load(file, OURS["logistic"])


@pytest.mark.parametrize("keep", [0, 7, 40, -1])
def test_torn_files_are_told(keep: int, file: Path) -> None:
    save_file(GOOD, file)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ns.NoshowError, match=r"is no whole \.safetensors file"):
        weights.load(file, OURS["logistic"])


def test_what_is_no_such_file_is_told(file: Path) -> None:
    with pytest.raises(ns.NoshowError, match="there is no file"):
        weights.load(file, OURS["logistic"])
    save_arrays(file, GOOD)
    with pytest.raises(ns.NoshowError, match=r"is no whole \.safetensors file"):
        weights.load(file, OURS["logistic"])


def test_another_models_parameters_are_told(file: Path) -> None:
    with pytest.raises(ns.NoshowError, match=r"lack conv1/bias float32 \[6\], which lenet5 needs"):
        weights.save(file, OURS["lenet5"], params_of("logistic"))
    assert not file.exists()


def test_without_the_library_the_extra_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ns.NoshowError, match=r"pip install 'noshow\[safetensors\]'"):
        weights.load(file, OURS["logistic"])


def test_a_simulation_starts_from_a_file(file: Path) -> None:
    federation, model, params = small_federation(), OURS["logistic"], params_of("logistic")
    weights.save(file, model, params)
    warm, algorithm = weights.start_from(file, model), ns.algorithms.fedavg(0.1, steps=2)
    history = ns.simulate(federation, warm, algorithm, sampled=4, rounds=3, seeds=[4, 5])
    first_loss = model.measure(params, federation.data)[0].mean()
    assert history.scores.train_loss[:, 0] == pytest.approx(float(first_loss), rel=1e-5)
    assert (history.scores.train_loss[:, -1] < history.scores.train_loss[:, 0]).all()


def test_a_spec_starts_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SMALL, "utf-8")
    plain = load("small.toml")
    assert "start_from" not in plain.model
    tensors = {"weight": np.full((10, 60), 0.25, np.float32), "bias": np.arange(10, dtype=np.float32)}
    save_file(tensors, "warm.safetensors")
    spec = load("small.toml", ["model.start_from='warm.safetensors'"])
    assert spec.digest != plain.digest
    Path("again.toml").write_text(spec.to_toml(), "utf-8")
    assert load("again.toml") == spec
    theta = first_model(realise(spec).model, seed=7)
    np.testing.assert_array_equal(theta, np.concatenate([tensors["bias"], tensors["weight"].ravel()]))
    for value, sentence in (("'cold.safetensors'", "model.start_from: there is no file cold"), ("3", "text in quotes")):
        with pytest.raises(ns.NoshowError, match=sentence):
            realise(load("small.toml", [f"model.start_from={value}"]))
