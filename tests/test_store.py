"""Run folders: what the adversary prepared is kept, and a new start forgets it."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import Result
from conftest import small_federation
from test_spec import SMALL
from typer.testing import CliRunner

import noshow as ns
from noshow import cli
from noshow.spec_file import load
from noshow.store import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    file = tmp_path / "small.toml"
    file.write_text(SMALL, "utf-8")
    run = RunFolder.of(load(str(file)), tmp_path / "out")
    run.begin()
    return run


def counting_adversary(prepared: list[int]) -> ns.Adversary:
    def init(key: jax.Array, federation: ns.Federation, model: ns.Model) -> jax.Array:
        prepared.append(1)
        return jax.random.normal(key, (3,))

    return ns.Adversary(lambda state, key, scene: jnp.zeros(scene.ids.shape), init)


def test_what_the_adversary_prepared_is_kept_for_each_key(folder: RunFolder, model: ns.Model) -> None:
    prepared: list[int] = []
    federation = small_federation()
    first = [
        folder.keeping(counting_adversary(prepared)).init(jax.random.key(seed), federation, model) for seed in (0, 1, 0)
    ]
    assert len(prepared) == 2
    assert np.array_equal(first[0], first[2])
    assert not np.array_equal(first[0], first[1])
    folder.begin()
    folder.keeping(counting_adversary(prepared)).init(jax.random.key(1), federation, model)
    assert len(prepared) == 2


def test_a_new_start_forgets_it(folder: RunFolder, model: ns.Model) -> None:
    prepared: list[int] = []
    for _ in range(2):
        folder.begin(anew=True)
        folder.keeping(counting_adversary(prepared)).init(jax.random.key(0), small_federation(), model)
    assert len(prepared) == 2


def test_a_damaged_memory_of_the_adversary_is_told(folder: RunFolder, model: ns.Model) -> None:
    (folder.path / "adversary.npz").write_bytes(b"PK not an archive")
    with pytest.raises(ns.NoshowError, match="is damaged"):
        folder.keeping(counting_adversary([])).init(jax.random.key(0), small_federation(), model)


def test_a_damaged_spec_is_told(folder: RunFolder) -> None:
    (folder.path / "spec.toml").write_text("name = ", "utf-8")
    with pytest.raises(ns.NoshowError, match="is damaged"):
        RunFolder.open(folder.path)


def test_a_file_behind_a_spec_that_has_changed_is_told(tmp_path: Path) -> None:
    """A first model under the same name is another run, whether the old one is finished or not."""
    (tmp_path / "small.toml").write_text(SMALL, "utf-8")
    weights = tmp_path / "start.safetensors"

    def run(*options: str) -> Result:
        starting = ["--set", f"model.start_from='{weights}'", "--out", str(tmp_path / "out")]
        return CliRunner().invoke(cli.app, ["run", str(tmp_path / "small.toml"), *starting, *options])

    def write(bias: float) -> None:
        ns.weights.save(weights, ns.models.logistic(), {"weights": jnp.zeros((10, 60)), "bias": jnp.full(10, bias)})

    write(0.0)
    assert run().exit_code == 0
    assert run().exit_code == 0
    write(1.0)
    changed = run()
    assert changed.exit_code != 0
    assert "holds a run with what was in model.start_from then, which has changed" in str(changed.exception)
    assert run("--again").exit_code == 0
    assert run().exit_code == 0
