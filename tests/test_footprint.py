"""What a run needs is told before it starts, and what cannot fit ends in one sentence."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_federation

import noshow as ns
from noshow import footprint
from noshow.cli_flags import bytes_of
from noshow.display import PlainLines
from noshow.run import run
from noshow.spec import realise, validate
from noshow.store import RunFolder
from noshow.width import as_kept, remembered, widen

SPEC = {
    "name": "small",
    "rounds": 3,
    "sampled": 5,
    "seeds": [0, 1],
    "epsilon": 0.5,
    "data": {"name": "synthetic", "clients": 600, "sizes": 4},
    "model": {"name": "logistic"},
    "adversary": {"name": "largest_reply"},
    "algorithms": [
        {"name": "fedavg", "rate": 0.01, "steps": 2},
        {"name": "mifa", "rate": 0.01, "steps": 2},
        {"name": "cclip", "rate": 0.01},
        {"name": "gm", "rate": 0.01},
    ],
}
MODEL = ns.models.logistic(features=4, classes=3)


def test_what_is_remembered_is_what_the_run_holds() -> None:
    """The estimate against the arrays of a run: those of the state, on every device."""
    federation, algorithm = small_federation(), ns.algorithms.gm(0.1, memory="bfloat16")
    told = footprint.of_run(federation, MODEL, algorithm, sampled=4, rounds=2, seeds=[0, 1])
    run = ns.Simulation(federation, MODEL, algorithm, sampled=4, rounds=2, seeds=[0, 1])
    held = sum(shard.data.nbytes for leaf in jax.tree.leaves(run._program.state) for shard in leaf.addressable_shards)
    assert told.remembered == held


def test_records_grow_with_rounds_and_seeds() -> None:
    def records(rounds: int, seeds: int) -> int:
        algorithm = ns.algorithms.fedavg(0.1)
        return footprint.of_run(
            small_federation(), MODEL, algorithm, sampled=4, rounds=rounds, seeds=list(range(seeds))
        ).records

    assert records(20, 3) == 2 * records(10, 3) == 6 * records(10, 1)


def test_a_run_that_cannot_fit_says_both_numbers_and_writes_nothing(tmp_path: Path) -> None:
    spec = validate(SPEC)
    folder = RunFolder(tmp_path / "out", spec)
    with pytest.raises(
        ns.NoshowError, match=r"(cclip|gm) needs 1\d MB of memory \(.*and 2.0 MB may be used: .*bfloat16"
    ):
        run(spec, folder, PlainLines(None), memory=2_000_000)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_working_memory_counts_too() -> None:
    """Between the arrays and all that is needed, only the compiled program tells that it cannot fit."""
    spec = validate(SPEC | {"algorithms": SPEC["algorithms"][:1]})
    parts = realise(spec)
    needs = footprint.of_run(parts.federation, parts.model, parts.algorithms[0], sampled=5, rounds=3, seeds=[0, 1])
    whole = footprint.with_working_memory(
        needs, parts.federation, parts.model, parts.algorithms[0], parts.adversary, sampled=5, seeds=[0, 1]
    )
    assert whole.working > 10 * 2 * 610 * 4  # the sampled clients' replies at least
    with pytest.raises(ns.NoshowError, match=r"fedavg needs .*working .*KB"):
        footprint.check(spec, parts, ["fedavg"], (needs.total + whole.total) // 2)


def test_what_is_free_here_is_the_limit_if_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = validate(SPEC)
    monkeypatch.setattr(footprint, "memory_free", lambda: 1_000_000)
    with pytest.raises(ns.NoshowError, match="are free here"):
        footprint.check(spec, realise(spec), ["mifa"])


def test_one_line_for_algorithms_that_keep_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = validate(SPEC)
    cores = f", on each of {len(jax.devices())} cores" if len(jax.devices()) > 1 else ""
    assert footprint.check(spec, realise(spec), spec.labels) == [
        f"mifa keeps 600 x 610 numbers a seed: 2.9 MB{cores}",
        f"cclip, gm each keep 2 x 600 x 610 numbers a seed: 5.9 MB{cores}",
    ]


def test_narrow_memory_is_half_and_ends_close_by() -> None:
    """bfloat16 has 8 digits in base two: the models differ by less than a hundredth of how far they went."""
    federation = small_federation()

    def end(memory: str | None) -> tuple[np.ndarray, int]:
        rule = ns.algorithms.cclip(0.05, memory=memory)  # type: ignore[arg-type]
        run = ns.Simulation(federation, MODEL, rule, ns.adversaries.largest_reply(), sampled=5, rounds=30, epsilon=0.4)
        while not run.done:
            run.advance()
        return run.thetas, sum(leaf.nbytes for leaf in jax.tree.leaves(run._program.state)) - run.thetas.nbytes

    (wide, bytes_wide), (narrow, bytes_narrow) = end(None), end("bfloat16")
    assert bytes_narrow == bytes_wide / 2
    away = np.linalg.norm(narrow - wide) / np.linalg.norm(wide)
    assert 0 < away < 0.01


def test_a_rule_of_ones_own_gets_wide_numbers() -> None:
    seen = []

    def rule(points, weights, key):  # type: ignore[no-untyped-def]
        seen.append(points.dtype)
        return weights @ points

    server = ns.servers.remember(rule, memory="bfloat16")
    replies = ns.Replies(
        jnp.ones((1, 2)), jnp.array([1]), jnp.array([True]), jnp.ones(1), jnp.ones(3), jax.random.key(0)
    )
    state, theta = server.step(server.init(2, 3), jnp.zeros(2), replies, jnp.array(0.5))
    np.testing.assert_allclose(widen(state), [[0, 0], [-2, -2], [0, 0]])
    np.testing.assert_allclose(theta, [1, 1])
    assert set(seen) == {np.dtype(np.float32)}


def test_narrow_numbers_are_the_nearest_bfloat16() -> None:
    values = jax.random.normal(jax.random.key(0), (1000,)) * 10.0 ** jax.random.randint(
        jax.random.key(1), (1000,), -30, 30
    )
    kept = as_kept(values, remembered((1000,), "bfloat16"))
    assert kept.dtype == np.uint16
    np.testing.assert_array_equal(widen(kept), values.astype("bfloat16").astype(np.float32))


@pytest.mark.long
def test_narrow_tables_of_many_blocks_are_aggregated_like_wide_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noshow.width.BLOCK", 50)
    points = jax.random.normal(jax.random.key(0), (33, 7))
    weights = jax.random.uniform(jax.random.key(1), (33,))
    kept = as_kept(points, remembered((33, 7), "bfloat16"))
    median = ns.aggregators.geometric_median()
    for rule in (ns.aggregators.mean(), median, ns.aggregators.centered_clip(2.0), ns.aggregators.bucketed(2, median)):
        blocks = rule(kept, weights, jax.random.key(2))
        with monkeypatch.context() as at_once:
            at_once.setattr("noshow.width.BLOCK", 10**6)
            np.testing.assert_allclose(blocks, rule(widen(kept), weights, jax.random.key(2)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("memory", ["float16", "half", 3])
def test_another_width_is_told(memory: object) -> None:
    with pytest.raises(ns.NoshowError, match="give 'bfloat16', or leave it out"):
        ns.algorithms.mifa(0.1, memory=memory)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["8", "8 G", "eight GB", "-1GB", ""])
def test_sizes_that_are_none_are_told(size: str) -> None:
    with pytest.raises(ns.NoshowError, match="give a size such as 8GB"):
        bytes_of(size)


def test_memory_is_a_setting_in_a_file() -> None:
    spec = validate(SPEC | {"algorithms": [{"name": "mifa", "rate": 0.01, "memory": "bfloat16"}]})
    assert spec.algorithms[0]["memory"] == "bfloat16"
    assert "memory" not in validate(SPEC).algorithms[1]
    with pytest.raises(ns.NoshowError, match=r"algorithms.mifa.memory is 'half': give 'float32' or 'bfloat16'"):
        validate(SPEC | {"algorithms": [{"name": "mifa", "rate": 0.01, "memory": "half"}]})
