"""Rehearsals on copies of the data and on the data themselves: what is played, kept, left for later and drawn."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import noshow as ns
from noshow import cli
from noshow.adversaries.shadow import Changes
from noshow.clock import Clock
from noshow.paper import copies
from noshow.paper.copies import Copies, rehearsed
from noshow.randomness import Purpose, run_key
from noshow.rehearsal import rehearse
from noshow.spec import Spec
from noshow.spec_file import load
from noshow.workbench import Bench

SMALL = ["data.clients=40", "data.sizes=20", "steps=2", "adversary.pairs=[[0, 2], [1, 3]]"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small preset in place of the two."""
    monkeypatch.setattr(copies, "PRESETS", ("synthetic-0.9",))
    monkeypatch.setattr(copies, "load", lambda preset, _, setting, scale: load(preset, SMALL, setting, scale))


@pytest.mark.long
def test_one_seed_is_the_adversarys_rehearsal_and_the_same_on_the_data() -> None:
    spec = load("synthetic-0.9", SMALL)
    one = rehearsed("synthetic-0.9", spec, 3, Bench())
    federation = ns.datasets.synthetic(1, 1, clients=40, sizes=20)
    model, key = ns.models.logistic(), run_key(3, Purpose.PREPARE)

    def norms(on: ns.Federation, algorithm: ns.Algorithm, what: str, seed: int) -> np.ndarray:
        def probe(work: ns.Work) -> jax.Array:
            return jax.numpy.linalg.norm(getattr(work, what), axis=-1)

        seen = rehearse(on, model, algorithm, rounds=4, seed=seed, probe=probe)
        return np.abs(seen[2] - seen[0]) + np.abs(seen[3] - seen[1])

    fedavg, cclip = (ns.spec.realise(spec).algorithms[spec.labels.index(name)] for name in ("fedavg", "cclip"))  # type: ignore[attr-defined]
    copy, own = federation.resample(key), int(jax.random.bits(key, dtype=np.uint32))
    np.testing.assert_allclose(one.on_copy.by_fedavg, norms(copy, fedavg, "gradients", own), rtol=1e-5)
    np.testing.assert_allclose(one.on_copy.by_cclip, norms(copy, cclip, "reply", own), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(one.on_data.by_fedavg, norms(federation, fedavg, "gradients", 3), rtol=1e-5)
    np.testing.assert_allclose(one.on_data.by_cclip, norms(federation, cclip, "reply", 3), rtol=1e-5, atol=1e-7)
    by_hand = set(np.argsort(-one.on_copy.by_fedavg)[:25]) & set(np.argsort(-one.on_data.by_fedavg)[:25])
    assert len(by_hand) <= one.shared <= 35


def test_what_is_there_is_not_played_again(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made_up(preset: str, spec: Spec, seed: int, bench: Bench) -> copies.Rehearsed:
        rng = np.random.default_rng(seed)
        return copies.Rehearsed(preset, seed, *(Changes(rng.random(40), rng.random(40)) for _ in range(2)))

    monkeypatch.setattr(copies, "rehearsed", made_up)
    kept = Copies(tmp_path / "written", "written", "paper", [0, 1])
    assert (kept.rehearsed, kept.facts(), kept.asked) == ([], [], 2)
    assert list(kept.run_missing(Bench(), Clock(0.0))) == []
    first = next(kept.run_missing(Bench(), Clock(None)))
    assert [one.seed for one in kept.rehearsed] == [0]
    assert kept.complete == []
    (second,) = Copies(tmp_path / "written", "written", "paper", [0, 1]).run_missing(Bench(), Clock(None))
    assert second.seed == 1
    assert list(kept.run_missing(Bench(), Clock(None))) == []
    again, _ = kept.complete
    np.testing.assert_array_equal(again.on_data.by_fedavg, first.on_data.by_fedavg.astype(np.float32))
    assert all(fact["seconds"] >= 0 and fact["devices"] for fact in kept.facts())
    monkeypatch.setattr(copies, "load", lambda preset, _, setting, scale: load(preset, [*SMALL, "steps=3"]))
    with pytest.raises(ns.NoshowError, match=r"written holds another run \(algorithms differ\): choose another --out"):
        Copies(tmp_path / "written", "written", "paper", [0, 1])
    (tmp_path / "written" / "changes.parquet").write_bytes(b"torn")
    with pytest.raises(ns.NoshowError, match=r"changes\.parquet is damaged .*: remove it and run again"):
        _ = kept.rehearsed


@pytest.mark.long
def test_the_command(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*arguments: str) -> str:
        asked = ["reproduce", "shadow-copies", "--seeds", "0", "--out", str(tmp_path), *arguments]
        done = CliRunner().invoke(cli.app, asked, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    assert "shadow-copies (written): time is up" in command("--minutes", "0", "--setting", "written")
    said = command("--setting", "written")
    assert "0 of 1 there" in said
    assert "synthetic-0.9, seed 0: " in said
    assert (tmp_path / "shadow-copies" / "written" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "1 of 1 there" in command("--setting", "written")


def test_rehearsals_cost_what_runs_of_their_size_do() -> None:
    synthetic, cifar, *again = Copies(Path("nowhere"), "written", "paper", [0, 1]).as_runs()
    assert again == [synthetic, cifar]
    assert (cifar.labels, cifar.sampled, cifar.rounds, cifar.seeds) == (["fedavg", "cclip"], 100, 151, [0, 1])
