"""Clients of a live federation in plain NumPy, for a grid without processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fake_grid import FakeGrid, Node, introduced
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from plain_logistic import descend, gradient, loss

import noshow as ns
from noshow.flower import Roster
from noshow.flower.layout import decoded

FIRST_NODE = 2**63 + 5  # node ids are unsigned 64-bit numbers


class NumpyClient:
    """`kind` is what it computes: `sgd`, `prox` or `momentum`, as the simulator's clients of these names."""

    def __init__(self, name: str, data: tuple[np.ndarray, np.ndarray], kind: str, steps: int) -> None:
        self.name, self.kind, self.steps = name, kind, steps
        self.x, self.y = np.asarray(data[0], np.float64), np.asarray(data[1])
        self.buffer: dict[str, np.ndarray] = {}
        self.told: list[dict[str, Any]] = []

    def __call__(self, message: Message) -> Message:
        if message.metadata.message_type == "query.roster":
            return introduced(message, self.name, len(self.y))
        theta = {name: array.numpy().astype(np.float64) for name, array in message.content["arrays"].items()}
        if message.metadata.message_type == "evaluate":
            metrics = MetricRecord({"loss": loss(theta, self.x, self.y), "num-examples": len(self.y)})
            return Message(RecordDict({"metrics": metrics}), reply_to=message)
        config = dict(message.content["config"])
        self.told.append(config)
        return self.reply(message, getattr(self, self.kind)(theta, config))

    def reply(self, message: Message, arrays: dict[str, np.ndarray]) -> Message:
        record = ArrayRecord({name: Array(values.astype(np.float32)) for name, values in arrays.items()})
        metrics = MetricRecord({"num-examples": len(self.y)})
        return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

    def sgd(self, theta: dict[str, np.ndarray], config: dict[str, Any]) -> dict[str, np.ndarray]:
        return descend(theta, self.x, self.y, config["rate"], self.steps)

    def prox(self, theta: dict[str, np.ndarray], config: dict[str, Any]) -> dict[str, np.ndarray]:
        z, m = dict(theta), {name: np.zeros_like(values) for name, values in theta.items()}
        for _ in range(self.steps):
            g = gradient(z, self.x, self.y)
            m = {n: 0.9 * m[n] + 0.1 * (g[n] + config["proximal-mu"] * (z[n] - theta[n])) for n in z}
            z = {n: z[n] - config["rate"] * m[n] for n in z}
        return z

    def momentum(self, theta: dict[str, np.ndarray], config: dict[str, Any]) -> dict[str, np.ndarray]:
        g = gradient(theta, self.x, self.y)
        self.buffer = {name: 0.9 * self.buffer.get(name, 0.0) + 0.1 * g[name] for name in g}
        return self.buffer


def first_model(features: int = 4, classes: int = 3) -> ArrayRecord:
    """The simulator's first logistic model, in the order of its flat vector."""
    return ArrayRecord(
        {"bias": Array(np.zeros(classes, np.float32)), "weights": Array(np.zeros((classes, features), np.float32))}
    )


def flat(arrays: ArrayRecord) -> np.ndarray:
    return np.concatenate([array.numpy().ravel() for array in arrays.values()])


def live(federation: ns.Federation, kind: str = "sgd", steps: int = 4) -> FakeGrid:
    """The federation's clients at nodes of their own; their names are in the order of the federation's clients."""
    nodes: dict[int, Node] = {
        FIRST_NODE + i: NumpyClient(f"client-{i:02}", federation.of_client(i), kind, steps)
        for i in range(federation.clients)
    }
    return FakeGrid(nodes)


def enrolled(path: Path, federation: ns.Federation) -> Roster:
    """The federation's clients on a roster, in their order, under the names they have in `live`."""
    roster = Roster(path)
    for i, n in enumerate(federation.sizes.tolist()):
        roster.enrol(f"client-{i:02}", n)
    return roster


def adding(name: str, n: int, more: float = 1.0) -> Node:
    """A client that adds a number to every array of the model."""

    def answer(message: Message) -> Message:
        if message.metadata.message_type == "query.roster":
            return introduced(message, name, n)
        if message.metadata.message_type == "evaluate":
            return Message(RecordDict({"metrics": MetricRecord({"loss": 1.0})}), reply_to=message)
        arrays = {key: decoded(array) for key, array in message.content["arrays"].items()}
        moved = ArrayRecord({key: Array((values + more).astype(values.dtype)) for key, values in arrays.items()})
        return Message(RecordDict({"arrays": moved, "metrics": MetricRecord({"num-examples": n})}), reply_to=message)

    return answer


def model_of(**arrays: object) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(values)) for name, values in arrays.items()})
