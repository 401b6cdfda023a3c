"""Whatever goes wrong at a client is silence with a reason: the round goes on, and the model is that of the others."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import small_federation
from fake_grid import FakeGrid, Node, failed
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from numpy_clients import FIRST_NODE, NumpyClient, enrolled, first_model, flat, live

import noshow as ns
from noshow.flower import REASONS, Roster, Strategy

M = 4
FAULTY = 2


def replied(message: Message, **arrays: np.ndarray) -> Message:
    record = ArrayRecord({name: Array(np.asarray(values)) for name, values in arrays.items()})
    return Message(RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": 1})}), reply_to=message)


BIAS, WEIGHTS = np.zeros(3, np.float32), np.zeros((3, 4), np.float32)
BROKEN = b"\x93NUMPY\x01\x00\x0a\x00{'descr': (" + b"(" * 40
GARBAGE = ArrayRecord({name: Array("float32", (3,), "numpy.ndarray", b"no") for name in ("bias", "weights")})
BAD = Array("float32", (3,), "numpy.ndarray", BROKEN)
FAULTS: dict[str, tuple[str, Callable[[Message], Message | None]]] = {
    "no reply": ("timeout", lambda m: None),
    "expired": ("timeout", lambda m: failed(m, 3)),
    "reply lost": ("timeout", lambda m: failed(m, 4)),
    "no node": ("unavailable", lambda m: failed(m, 5)),
    "raised": ("error", lambda m: failed(m, 2, "ValueError: no data\nTraceback")),
    "not loaded": ("error", lambda m: failed(m, 1)),
    "crashed": ("crash", lambda m: failed(m, 8)),
    "nan": ("not finite", lambda m: replied(m, bias=BIAS, weights=np.where(np.eye(3, 4) > 0, np.nan, WEIGHTS))),
    "infinity": ("not finite", lambda m: replied(m, bias=np.array([0, -np.inf, 0]), weights=WEIGHTS)),
    "too large for float32": ("not finite", lambda m: replied(m, bias=np.array([0, 1e300, 0]), weights=WEIGHTS)),
    "shape": ("shapes", lambda m: replied(m, bias=BIAS, weights=WEIGHTS.T)),
    "missing name": ("names", lambda m: replied(m, bias=BIAS)),
    "extra name": ("names", lambda m: replied(m, bias=BIAS, weights=WEIGHTS, more=BIAS)),
    "far away": ("norm", lambda m: replied(m, bias=BIAS + 2.0, weights=WEIGHTS)),
    "absurd": ("norm", lambda m: replied(m, bias=BIAS + 3e38, weights=WEIGHTS)),
    "no arrays": ("unreadable", lambda m: Message(RecordDict({"metrics": MetricRecord({"a": 1})}), reply_to=m)),
    "text": ("unreadable", lambda m: replied(m, bias=np.array(["a", "b", "c"]), weights=WEIGHTS)),
    "broken header": (
        "unreadable",
        lambda m: Message(RecordDict({"arrays": ArrayRecord({"bias": BAD, "weights": BAD})}), reply_to=m),
    ),
    "garbage": ("unreadable", lambda m: Message(RecordDict({"arrays": GARBAGE}), reply_to=m)),
}


def federation_and_grid(faulty: Callable[[Message], Message | None]) -> tuple[ns.Federation, FakeGrid]:
    federation = small_federation(M)
    grid = live(federation)
    well = grid.nodes[FIRST_NODE + FAULTY]
    grid.nodes[FIRST_NODE + FAULTY] = lambda m: faulty(m) if m.metadata.message_type == "train" else well(m)
    return federation, grid


def by_hand(federation: ns.Federation, rate: float, rounds: int) -> np.ndarray:
    """theta after so many rounds in which all but the faulty client answer: sum of w_i (z_i - theta), with beta = 1."""
    theta = {"bias": BIAS.astype(float), "weights": WEIGHTS.astype(float)}
    sizes = federation.sizes / federation.sizes.sum()
    for _ in range(rounds):
        ends = [NumpyClient("", federation.of_client(i), "sgd", 4).sgd(theta, {"rate": rate}) for i in range(M)]
        theta = {
            name: theta[name] + sum(sizes[i] * (ends[i][name] - theta[name]) for i in range(M) if i != FAULTY)
            for name in theta
        }
    return np.concatenate([theta["bias"], theta["weights"].ravel()])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_silence_with_its_reason(fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reason, faulty = FAULTS[fault]
    federation, grid = federation_and_grid(faulty)
    strategy = Strategy(
        server=ns.servers.amplify(beta=1.0),
        roster=enrolled(tmp_path / "f.sqlite", federation),
        sampled=M,
        timeout=0.2,
        rate=0.1,
        largest_norm=3.0,
        trace=tmp_path / "trace.parquet",
    )
    with caplog.at_level(logging.INFO, "flwr"):
        result = strategy.start(grid, first_model(), num_rounds=2)
    np.testing.assert_allclose(flat(result.arrays), by_hand(federation, 0.1, 2), rtol=0, atol=1e-6)
    silent = [entry for entry in ns.trace.read(tmp_path / "trace.parquet") if entry.status == "silent"]
    assert [(e.round, e.client, e.reason) for e in silent] == [(t, "client-02", reason) for t in (1, 2)]
    assert reason in REASONS
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("round ")]
    assert len(lines) == 2
    used = federation.sizes[FAULTY] / federation.sizes.sum()  # K = M
    for line in lines:
        assert f"epsilon_t {used:.3f}" in line
        assert f"silent client-02 ({reason}" in line
        assert all(f"client-0{i}" in line.split("answered ")[1].split(";")[0] for i in range(M) if i != FAULTY)


def test_a_late_reply_is_not_used_and_is_told_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    federation, grid = federation_and_grid(lambda m: None)
    well = NumpyClient("client-02", federation.of_client(FAULTY), "sgd", 4)
    grid.nodes[FIRST_NODE + FAULTY] = well

    def slow_down(t: int, arrays: ArrayRecord) -> None:
        grid.delay[FIRST_NODE + FAULTY] = 0.3 if t < 2 else 0.0

    strategy = Strategy(
        server=ns.servers.amplify(beta=1.0),
        roster=enrolled(tmp_path / "f.sqlite", federation),
        sampled=M,
        timeout=0.25,
        rate=0.1,
        evaluate_every=0,
        trace=tmp_path / "trace.parquet",
    )
    result = strategy.start(grid, first_model(), num_rounds=2, evaluate_fn=slow_down)
    np.testing.assert_allclose(flat(result.arrays), by_hand(federation, 0.1, 2), rtol=0, atol=1e-6)
    silent = [e for e in ns.trace.read(tmp_path / "trace.parquet") if e.status == "silent"]
    assert [(e.round, e.reason) for e in silent] == [(1, "late"), (2, "timeout")]
    grid.delay[FIRST_NODE + FAULTY] = 0.0
    strategy.start(grid, first_model(), num_rounds=3)
    assert [e.status for e in ns.trace.read(tmp_path / "trace.parquet") if e.round == 3] == ["answered"] * M


def test_replies_that_overflow_together_leave_the_model_alone(tmp_path: Path) -> None:
    federation, grid = small_federation(M), live(small_federation(M))

    def far(client: Node) -> Node:
        away = functools.partial(replied, bias=BIAS + 1e14, weights=WEIGHTS)
        return lambda m: away(m) if m.metadata.message_type == "train" else client(m)

    grid.nodes = {node: far(client) for node, client in grid.nodes.items()}
    explode = ns.Server(lambda state, theta, replies, rate: (state, theta + 1e30 * replies.displacements(rate).sum(0)))
    strategy = Strategy(
        server=explode,
        roster=enrolled(tmp_path / "f.sqlite", federation),
        sampled=M,
        timeout=1.0,
        trace=tmp_path / "trace.parquet",
    )
    result = strategy.start(grid, first_model(), num_rounds=1)
    assert (flat(result.arrays) == 0).all()
    assert {e.reason for e in ns.trace.read(tmp_path / "trace.parquet")} == {"overflow"}


def test_claims_of_more_examples_change_no_weight(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    federation, grid = federation_and_grid(lambda m: None)
    boast = NumpyClient("client-02", federation.of_client(FAULTY), "sgd", 4)

    def boastful(message: Message) -> Message:
        reply = boast(message)
        for record in reply.content.metric_records.values():
            record["num-examples"] = 10**9
        return reply

    grid.nodes[FIRST_NODE + FAULTY] = boastful
    honest = live(federation)
    finals = []
    for name, one in (("boastful", grid), ("honest", honest)):
        strategy = Strategy(
            server=ns.servers.average(),
            roster=enrolled(tmp_path / f"{name}.sqlite", federation),
            sampled=M,
            timeout=1.0,
            rate=0.1,
        )
        finals.append(strategy.start(one, first_model(), num_rounds=1))
    np.testing.assert_array_equal(*(flat(result.arrays) for result in finals))
    claimed = [r.getMessage() for r in caplog.records if "client-02 claims 1000000000 examples" in r.getMessage()]
    assert len(claimed) == 1
    losses = [result.evaluate_metrics_clientapp[1]["loss"] for result in finals]
    assert losses[0] == pytest.approx(losses[1])


def test_evaluation_is_weighted_by_the_roster(tmp_path: Path) -> None:
    federation, grid = small_federation(M), live(small_federation(M))
    strategy = Strategy(
        server=ns.servers.average(),
        roster=enrolled(tmp_path / "f.sqlite", federation),
        sampled=M,
        timeout=1.0,
        rate=0.1,
    )
    result = strategy.start(grid, first_model(), num_rounds=1)
    bias, weights = (result.arrays[name].numpy().astype(float) for name in ("bias", "weights"))
    losses = []
    for i in range(M):
        x, y = federation.of_client(i)
        logits = x @ weights.T + bias
        losses += (np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]).tolist()
    assert result.evaluate_metrics_clientapp[1]["loss"] == pytest.approx(np.mean(losses))


def test_clients_learn_when_they_were_last_heard(tmp_path: Path) -> None:
    federation, grid = federation_and_grid(lambda m: None)
    told: list[dict[str, object]] = []
    well = NumpyClient("client-02", federation.of_client(FAULTY), "sgd", 4)

    def deaf_in_round_2(message: Message) -> Message | None:
        if message.metadata.message_type != "train":
            return well(message)
        told.append(dict(message.content["config"]))
        return None if told[-1]["server-round"] == 2 else well(message)

    grid.nodes[FIRST_NODE + FAULTY] = deaf_in_round_2
    strategy = Strategy(
        server=ns.servers.average(),
        roster=enrolled(tmp_path / "f.sqlite", federation),
        sampled=M,
        timeout=0.2,
        rate=0.25,
        mu=0.5,
    )
    strategy.start(grid, first_model(), 4, train_config=ConfigRecord({"epochs": 3}))
    assert [one["last-heard"] for one in told] == [0, 1, 1, 3]
    assert all((one["rate"], one["proximal-mu"], one["epochs"]) == (0.25, 0.5, 3) for one in told)


def test_names_shapes_and_types_are_kept(tmp_path: Path) -> None:
    model = ArrayRecord(
        {
            "layer.weight": Array(np.ones((2, 3), np.float16)),
            "scale": Array(np.array(2.0)),
            "batches": Array(np.array(7, np.int64)),
            "columns": Array(np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))),
        }
    )

    def node(message: Message) -> Message:
        if message.metadata.message_type == "query.roster":
            return live(small_federation(M)).nodes[FIRST_NODE](message)
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        return replied(message, **{name: values + 1 for name, values in arrays.items()})

    roster = Roster(tmp_path / "f.sqlite")
    roster.enrol("client-00", 5)
    strategy = Strategy(server=ns.servers.average(), roster=roster, sampled=1, timeout=1.0, evaluate_every=0)
    arrays = strategy.start(FakeGrid({FIRST_NODE: node}), model, num_rounds=2).arrays
    assert list(arrays) == list(model)
    for name, first in ((name, array.numpy()) for name, array in model.items()):
        got = arrays[name].numpy()
        assert (got.shape, got.dtype) == (first.shape, first.dtype)
        np.testing.assert_array_equal(got, first if name == "batches" else first + 2)
