"""Faults in a client's app: who stays away, crashes, dawdles or sends nonsense, and in which calls."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from moving_nodes import model

import noshow as ns
from noshow.flower.faults import absent, unreliable
from noshow.flower.layout import decoded
from noshow.trace import Entry, Trace


def call(
    app: ClientApp, client: int, t: int | None, kind: str = "train", node_config: dict[str, Any] | None = None
) -> Message:
    config = ConfigRecord({} if t is None else {"server-round": t})
    message = Message(RecordDict({"arrays": model(1.0, 2.0), "config": config}), client, kind)
    message.metadata.__dict__["_message_id"] = "message-1"
    node = {"partition-id": client, "num-partitions": 10} if node_config is None else node_config
    return app(message, Context(1, client, node, RecordDict(), {}))


def echo(mod: Any) -> ClientApp:
    """An app that sends the model back as it came, with a counter beside it."""
    app = ClientApp(mods=[mod])

    def reply(message: Message, context: Context) -> Message:
        arrays = ArrayRecord({**message.content["arrays"], "steps": Array(np.array([3]))})
        return Message(RecordDict({"arrays": arrays}), reply_to=message)

    app.train()(reply)
    app.evaluate()(reply)
    return app


def fault_of(app: ClientApp, client: int, t: int, slept: list[float]) -> str:
    before = len(slept)
    try:
        reply = call(app, client, t)
    except RuntimeError as error:
        return str(error)
    arrays = reply.content["arrays"]
    assert arrays["steps"].numpy().tolist() == [3]
    if np.isnan(arrays["w"].numpy()).all():
        return "corrupt"
    assert arrays["w"].numpy().tolist() == [1.0, 2.0]
    return "delay" if slept[before:] == [45.0] else "none"


def test_unreliable_clients_fail_as_often_as_asked_and_in_the_same_calls_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)

    def calls(seed: int) -> list[str]:
        app = echo(unreliable(crash=0.2, delay=0.1, corrupt=0.3, seconds=45.0, seed=seed))
        return [fault_of(app, client, t, slept) for client in range(20) for t in range(1, 21)]

    first = calls(seed=1)
    counts = {name: first.count(name) / 400 for name in set(first)}
    expected = {"this crash was rehearsed": 0.2, "delay": 0.1, "corrupt": 0.3, "none": 0.4}
    assert counts.keys() == expected.keys()
    for name, share in expected.items():  # four standard deviations
        assert abs(counts[name] - share) < 4 * np.sqrt(share * (1 - share) / 400), name
    assert calls(seed=1) == first
    assert calls(seed=2) != first
    assert first[:20] != first[20:40]


def test_arrays_of_bfloat16_are_corrupted_too() -> None:
    small = Array(np.asarray(jnp.ones(3, jnp.bfloat16)))

    def replies(message: Message, context: Context) -> Message:
        return Message(RecordDict({"arrays": ArrayRecord({"w": small})}), reply_to=message)

    message = Message(RecordDict({"config": ConfigRecord({"server-round": 1})}), 5, "train")
    context = Context(1, 1, {"partition-id": 0}, RecordDict({}), {})
    spoilt = unreliable(corrupt=1.0)(message, context, replies).content["arrays"]["w"]
    assert spoilt.dtype == "bfloat16"
    assert np.isnan(decoded(spoilt).astype(np.float32)).all()


def test_only_training_is_disturbed() -> None:
    reply = call(echo(unreliable(crash=1.0)), 3, 1, kind="evaluate")
    assert reply.content["arrays"]["w"].numpy().tolist() == [1.0, 2.0]
    silent = ns.adversaries.random_response(0.0)
    assert call(echo(absent(silent, clients=10)), 3, None, kind="evaluate").has_content()


def test_absent_clients_are_those_of_the_simulators_groups() -> None:
    """Round robin: whoever the simulator silences in a round of full participation is silent in the app, too."""
    adversary = ns.adversaries.round_robin(groups=3, period=2)
    federation = ns.datasets.synthetic(clients=10, sizes=10)
    history = ns.simulate(
        federation,
        ns.models.logistic(),
        ns.algorithms.fedavg(0.1, steps=1),
        adversary,
        sampled=10,
        rounds=6,
        seeds=(4,),
    )
    app = echo(absent(adversary, clients=10, seed=4))
    for t in range(6):
        silent = [client for client in range(10) if call(app, client, t + 1).has_error()]
        assert silent == sorted(history.roll_call.silenced(0, t).tolist())
    reply = next(reply for reply in (call(app, client, 1) for client in range(10)) if reply.has_error())
    assert (reply.error.code, reply.error.reason) == (2, "kept silent by round_robin")


def test_absent_clients_by_a_trace_and_by_chance() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    night = Trace.of([Entry(5, str(k), *(("silent", "off") if k % 2 else ("answered", "")), 1, now) for k in range(4)])
    app = echo(absent(ns.adversaries.replay(night), clients=4))
    assert [call(app, client, 1).has_error() for client in range(4)] == [False, True, False, True]
    app = echo(absent(ns.adversaries.random_response([0.3] * 5 + [0.8] * 5), clients=10))
    answers = np.array([[call(app, client, t).has_content() for t in range(1, 41)] for client in range(10)])
    assert abs(answers[:5].mean() - 0.3) < 4 * np.sqrt(0.21 / 200)
    assert abs(answers[5:].mean() - 0.8) < 4 * np.sqrt(0.16 / 200)
    assert len({row.tobytes() for row in answers}) == 10


def test_mods_say_what_they_miss() -> None:
    with pytest.raises(ns.NoshowError, match="'largest_reply' must see a whole round to choose: give it to `rehearse`"):
        absent(ns.adversaries.largest_reply(), clients=4)
    with pytest.raises(ns.NoshowError, match=r"clients is 2\.5: give a whole number"):
        absent(ns.adversaries.random_response(0.5), clients=2.5)  # type: ignore[arg-type]
    with pytest.raises(ns.NoshowError, match=r"seed is -1: give a whole number from 0"):
        unreliable(seed=-1)
    with pytest.raises(ns.NoshowError, match="clients is 0"):
        absent(ns.adversaries.random_response(0.5), clients=0)
    with pytest.raises(ns.NoshowError, match="partition-id is 7, and clients is 4: give the number of all clients"):
        call(echo(absent(ns.adversaries.random_response(0.5), clients=4)), 7, 1)
    app = echo(unreliable(crash=0.1))
    with pytest.raises(ns.NoshowError, match="does not say which round it is: send 'server-round' in its config"):
        call(app, 1, None)
    with pytest.raises(ns.NoshowError, match="partition-id is None: give each its number, as in --node-config"):
        call(app, 1, 1, node_config={})
    with pytest.raises(ns.NoshowError, match=r"delay is -0\.1: give a probability"):
        unreliable(delay=-0.1)
    with pytest.raises(ns.NoshowError, match=r"add up to 1\.5: a call has one fault at most"):
        unreliable(crash=0.9, corrupt=0.6)
    with pytest.raises(ns.NoshowError, match="seconds is nan: give 0 or more"):
        unreliable(seconds=float("nan"))
