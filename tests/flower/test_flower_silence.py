"""Whatever goes wrong at a client is silence with a reason: the round goes on, and the model is that of the others."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import small_federation
from fake_grid import FakeGrid, Node, failed, introduced
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from numpy_clients import FIRST_NODE, NumpyClient, adding, enrolled, first_model, flat, live, model_of

import noshow as ns
from noshow.flower import REASONS, Roster, Strategy
from noshow.flower.layout import decoded

M = 4
FAULTY = 2


def replied(message: Message, **arrays: np.ndarray) -> Message:
    record = ArrayRecord({name: Array(np.asarray(values)) for name, values in arrays.items()})
    return Message(RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": 1})}), reply_to=message)


def with_header(message: Message, descr: str, shape: str) -> Message:
    """A reply whose bias is an array file with this header and twelve bytes."""
    kind = descr if descr.startswith("(") else repr(descr)
    head = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(12)
    record = ArrayRecord({"bias": Array("float32", (3,), "numpy.ndarray", data), "weights": Array(WEIGHTS)})
    return Message(RecordDict({"arrays": record}), reply_to=message)


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
    "negative sides": ("unreadable", lambda m: with_header(m, "<f4", "(-1, -1, -3)")),
    "no side and a negative one": ("unreadable", lambda m: with_header(m, "<f4", "(0, -1)")),
    "a negative side": ("unreadable", lambda m: with_header(m, "<f4", "(-5,)")),
    "truth for sides": ("unreadable", lambda m: with_header(m, "<f4", "(True, True, 3)")),
    "arrays in an array": ("unreadable", lambda m: with_header(m, "('<f4', (2,))", "(3,)")),
    "bytes of no type": ("unreadable", lambda m: with_header(m, "|V4", "(3,)")),
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


def playing(folder: Path, nodes: dict[int, Node], **changes: object) -> tuple[Strategy, FakeGrid]:
    settings: dict[str, object] = {
        "server": ns.servers.average(),
        "roster": Roster(folder / "f.sqlite"),
        "sampled": len(nodes),
        "timeout": 0.3,
        "evaluate_every": 0,
        "trace": folder / "trace.parquet",
    }
    return Strategy(**(settings | changes)), FakeGrid(nodes)  # type: ignore[arg-type]


def test_a_step_beyond_the_models_own_type_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    far = lambda m: replied(m, w=np.full(2, 2e5, np.float32))  # noqa: E731
    well = adding("b", 10)
    first = lambda m: far(m) if m.metadata.message_type == "train" else adding("a", 10)(m)  # noqa: E731
    strategy, grid = playing(tmp_path, {1: first, 2: well})
    result = strategy.start(grid, model_of(w=np.ones(2, np.float16)), 2)
    assert result.arrays["w"].numpy().tolist() == [1.0, 1.0]
    assert {entry.reason for entry in ns.trace.read(tmp_path / "trace.parquet")} == {"overflow"}


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_what_is_remembered_never_carries_the_model_beyond_its_numbers(kind: type, tmp_path: Path) -> None:
    far = 0.6 * float(np.finfo(kind).max)
    more = min(far, 5e14)  # as far as a reply may be from the model
    answers = adding("a", 10, more)

    def once(message: Message) -> Message | None:
        return None if message.metadata.message_type == "train" and len(grid.sent) > 2 else answers(message)

    grid = FakeGrid({1: once})
    server = ns.servers.remember(lambda points, weights, key: far / more * points[0])
    roster = Roster(tmp_path / "f.sqlite")
    strategy = Strategy(server=server, roster=roster, sampled=1, timeout=0.2, evaluate_every=0)
    after = [flat(strategy.start(grid, model_of(w=np.zeros(2, kind)), t).arrays) for t in (1, 2, 3)]
    np.testing.assert_allclose(after, far, rtol=1e-3)  # the second step of that length would be too far


def test_bfloat16_is_trained(tmp_path: Path) -> None:
    """NumPy's files know no such type, and Flower's records name it."""
    strategy, grid = playing(tmp_path, {1: adding("a", 10), 2: adding("b", 30)})
    start = model_of(w=np.asarray(jnp.full(3, 0.5, jnp.bfloat16)), b=np.zeros(2, np.float32))
    arrays = strategy.start(grid, start, 3).arrays
    assert arrays["w"].dtype == "bfloat16"
    assert decoded(arrays["w"]).astype(np.float32).tolist() == [3.5] * 3
    assert arrays["b"].numpy().tolist() == [3.0] * 2


@pytest.mark.parametrize("values", [[0.0, -np.inf], [0.0, np.nan], [0.0, 1e300]])
def test_a_first_model_that_is_not_finite_is_told_before_anybody_trains(values: list[float], tmp_path: Path) -> None:
    strategy, grid = playing(tmp_path, {1: adding("a", 10)})
    with pytest.raises(ns.NoshowError, match="the first model's 'mask' holds NaN, infinity, or more than float32"):
        strategy.start(grid, model_of(w=np.zeros(2), mask=np.array(values)), 1)
    assert grid.sent == []


@pytest.mark.parametrize("fails", ["offline", "raises"])
def test_an_outage_does_not_use_up_the_rounds(fails: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can be reached for a second, in which there would be time for a hundred rounds: a few pass at most."""
    down = threading.Event()
    nodes = {k: adding(name, 10) for k, name in ((1, "a"), (2, "b"))}
    if fails == "raises":
        nodes = {k: failing_while(down, node) for k, node in nodes.items()}
    strategy, grid = playing(tmp_path, nodes)

    def begin(t: int, arrays: ArrayRecord) -> None:
        if t == 2:
            down.set()
            online = set(grid.online)
            if fails == "offline":
                grid.online.clear()
            threading.Timer(1.0, lambda: (down.clear(), grid.online.update(online))).start()

    with caplog.at_level(logging.INFO, "flwr"):
        arrays = strategy.start(grid, model_of(w=np.zeros(1)), 12, evaluate_fn=begin).arrays
    waited = [
        record for record in caplog.records if "nobody on the roster is at a node that is online" in record.message
    ]
    assert len(waited) == (fails == "offline")
    silent = {entry.round for entry in ns.trace.read(tmp_path / "trace.parquet") if entry.status == "silent"}
    assert len(silent) <= 5
    assert arrays["w"].numpy().tolist() == [12.0 - len(silent)]


def failing_while(down: threading.Event, node: Node) -> Node:
    return lambda m: failed(m, 2, "down") if down.is_set() and m.metadata.message_type == "train" else node(m)


def test_a_round_stays_one_line_whatever_clients_send(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    forged = "a\nround 99: sampled x; answered x\x1b[31m"
    ray = (
        "<class 'ray.exceptions.RayTaskError(ClientAppException)'>:<'\x1b[36mray::ClientAppActor.run()\x1b[39m\n"
        "  File app.py, line 3, in train\nValueError: no data\n\nflwr.clientapp.client_app.ClientAppException: \n"
        "Exception ClientAppException occurred. Message: no data'>"
    )

    def of_another_model(message: Message) -> Message:
        if message.metadata.message_type == "query.roster":
            return introduced(message, "b", 10)
        return replied(message, **{f"layer.{number}": BIAS for number in range(3000)})

    def in_ray(message: Message) -> Message:
        asked = message.metadata.message_type == "query.roster"
        return introduced(message, "c", 10) if asked else failed(message, 2, ray)

    grid = FakeGrid({1: adding(forged, 10), 2: of_another_model, 3: in_ray})
    strategy = Strategy(server=ns.servers.average(), roster=Roster(tmp_path / "f.sqlite"), sampled=3, timeout=0.5)
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.start(grid, model_of(w=np.zeros(1, np.float32)), 1)
    told = [record.getMessage() for record in caplog.records]
    assert all(line.isprintable() for line in told)
    (line,) = [line for line in told if line.startswith("round ")]
    assert len(line) < 1000
    assert "b (names: missing ['w'], unknown ['layer.0', 'layer.1'" in line
    assert "c (error: no data)" in line
