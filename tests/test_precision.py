"""What products are computed in, and what stays float32."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_federation

import noshow as ns
from noshow.cli_flags import start_on
from noshow.precision import bfloat16_allowed, products_in, weighted_sum
from noshow.rehearsal import prepare
from noshow.spec_file import load

MODEL = ns.models.logistic(features=4, classes=3)


def current() -> str | None:
    return jax.config.jax_default_matmul_precision  # type: ignore[attr-defined,no-any-return]


def test_models_multiply_as_told_and_the_rest_stays_float32() -> None:
    """Each part notes what it was traced with, in training and in evaluation."""
    seen: dict[str, set[str | None]] = {"model": set(), "server": set(), "adversary": set()}

    def measure(params, batch):  # type: ignore[no-untyped-def]
        seen["model"].add(current())
        return MODEL.measure(params, batch)

    def step(state, theta, replies, rate):  # type: ignore[no-untyped-def]
        seen["server"].add(current())
        return ns.servers.average().step(state, theta, replies, rate)

    def score(state, key, scene):  # type: ignore[no-untyped-def]
        seen["adversary"].add(current())
        return scene.sizes.astype(float)

    run = ns.Simulation(
        small_federation(),
        MODEL._replace(measure=measure),
        ns.Algorithm(ns.clients.sgd(1), ns.Server(step), ns.rates.constant(0.1)),
        ns.Adversary(score),
        sampled=3,
        rounds=2,
        epsilon=0.3,
        precision="bfloat16",
    )
    while not run.done:
        run.advance()
    # The check before a run looks at shapes alone, in no particular precision.
    assert seen["model"] == {None, "BF16_BF16_F32"}
    assert seen["server"] == seen["adversary"] == {"float32"}
    assert current() is None


def test_what_an_adversary_prepares_is_computed_likewise() -> None:
    seen: list[bool] = []

    def init(key, federation, model):  # type: ignore[no-untyped-def]
        seen.append(bfloat16_allowed())
        return jnp.zeros(())

    adversary = ns.adversaries.largest_reply()._replace(init=init)
    prepare(adversary, small_federation(), MODEL, [0], "bfloat16")
    assert seen == [True]


def test_sums_are_float32_within_any_context() -> None:
    with products_in("bfloat16"):
        traced = str(jax.make_jaxpr(weighted_sum)(jnp.ones(3), jnp.ones(3)))
        product = str(jax.make_jaxpr(jnp.dot)(jnp.ones(3), jnp.ones(3)))
    assert "HIGHEST" in traced
    assert "BF16" not in traced
    assert "BF16" in product


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="an accelerator computes something else")
def test_a_cpu_computes_float32_whatever_is_asked() -> None:
    def end(precision: str | None) -> np.ndarray:
        history = ns.simulate(
            small_federation(),
            MODEL,
            ns.algorithms.fedavg(0.1, steps=2),
            sampled=3,
            rounds=3,
            precision=precision,  # type: ignore[arg-type]
        )
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(history.models[0])])

    np.testing.assert_allclose(end(None), end("bfloat16"), rtol=1e-4, atol=1e-6)


def test_a_wrong_precision_is_told() -> None:
    with pytest.raises(ns.NoshowError, match="precision is 'half': give one of 'float32', 'tf32', 'bfloat16'"):
        ns.simulate(
            small_federation(),
            MODEL,
            ns.algorithms.fedavg(0.1, steps=1),
            sampled=3,
            rounds=1,
            precision="half",  # type: ignore[arg-type]
        )
    with pytest.raises(ns.NoshowError, match="precision is 'half': give 'float32', 'tf32' or 'bfloat16'"):
        load("synthetic-0.9", ["precision=half"])


def test_precision_is_part_of_a_spec_and_old_folders_keep_their_names() -> None:
    plain, short = load("synthetic-0.9"), load("synthetic-0.9", ["precision=bfloat16"])
    assert short.run_settings("fedavg")["precision"] == "bfloat16"
    assert 'precision = "bfloat16"' in short.to_toml()
    assert short.digest != plain.digest
    settings = plain.model_dump(exclude={"description", "precision"})
    assert plain.digest == hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def noshow(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from noshow.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


SMALL = """
name = "small"
rounds = 2
sampled = 4
epsilon = 0.5
data = { name = "synthetic", clients = 12, sizes = 10 }
model = { name = "logistic" }
adversary = { name = "largest_reply" }
algorithms = [{ name = "fedavg", rate = 0.01 }]
"""


@pytest.mark.slow
def test_the_flags_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    flags = ["--device", "cpu", "--cores", "1", "--precision", "bfloat16"]
    done = noshow(tmp_path, "run", "small.toml", "--out", "out", *flags)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "about.json").read_text())["devices"] == ["cpu"]
    assert 'precision = "bfloat16"' in (tmp_path / "out" / "spec.toml").read_text()


@pytest.mark.parametrize(
    ("device", "cores", "sentence"),
    [
        (None, 0, "cores is 0: give a number from 1 to"),
        (None, 10**6, "cores is 1000000: give a number from 1 to"),
        ("abacus", None, "device is 'abacus': give 'cpu', 'gpu' or 'tpu'"),
    ],
)
def test_wrong_flags_are_told(device: str | None, cores: int | None, sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        start_on(device, cores)


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="there is a GPU")
def test_a_device_that_is_not_there_is_told(tmp_path: Path) -> None:
    told = noshow(tmp_path, "run", "synthetic-0.9", "--device", "gpu")
    assert told.returncode == 2
    assert "JAX finds no gpu here: leave --device out" in told.stderr
