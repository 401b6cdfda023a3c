"""What the Flower strategy itself takes in a round, without network and clients.

Sampling and messages, reading and checking 100 replies of a million parameters, the server's step, keeping the round in
SQLite, and the new model as Flower's arrays. Replies differ from round to round, as those of real clients do.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import noshow as ns
from noshow.flower import Roster, Strategy

SHAPES = {"hidden.weight": (900, 1000), "hidden.bias": (1000,), "out.weight": (99, 1000)}
SERVERS = {
    "average": ns.servers.average,
    "amplify": ns.servers.amplify,
    "remember(mean)": lambda: ns.servers.remember(ns.aggregators.mean()),
}


def model(rng: np.random.Generator) -> ArrayRecord:
    return ArrayRecord({name: Array(rng.normal(size=shape).astype(np.float32)) for name, shape in SHAPES.items()})


def answered(messages: list[Message], contents: list[RecordDict]) -> list[Message]:
    for number, message in enumerate(messages):
        message.metadata.__dict__["_message_id"] = f"message-{number}"
    return [Message(content, reply_to=message) for content, message in zip(contents, messages, strict=True)]


def seconds_a_round(server: ns.Server, clients: int, rounds: int, folder: Path) -> list[float]:
    rng = np.random.default_rng(0)
    roster = Roster(folder / "federation.sqlite")
    for number in range(clients):
        roster.enrol(f"client-{number}", 100 + number)
        roster.seen_at(f"client-{number}", 1000 + number)
    strategy = Strategy(server=server, roster=roster, sampled=clients, timeout=60.0, evaluate_every=0)
    metrics = MetricRecord({"num-examples": 100, "loss": 1.0})
    contents = [RecordDict({"arrays": model(rng), "metrics": metrics}) for _ in range(clients)]
    arrays, taken = model(rng), []
    for t in range(1, rounds + 1):
        begun = time.perf_counter()
        messages = list(strategy.configure_train(t, arrays, ConfigRecord(), None))  # type: ignore[arg-type]
        called = time.perf_counter() - begun
        replies = answered(messages, contents[t % clients :] + contents[: t % clients])
        begun = time.perf_counter()
        arrays, _ = strategy.aggregate_train(t, replies)
        taken.append(called + time.perf_counter() - begun)
    return taken


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=100)
    options.add_argument("--rounds", type=int, default=12)
    asked = options.parse_args()
    logging.getLogger("flwr").setLevel(logging.WARNING)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    print(f"d = 1,000,000, {asked.clients} replies a round; the first round, which compiles, is left out")
    for name, server in SERVERS.items():
        with tempfile.TemporaryDirectory() as folder:
            taken = seconds_a_round(server(), asked.clients, asked.rounds, Path(folder))[1:]
        middle, least, most = (1e3 * of(taken) for of in (statistics.median, min, max))
        print(f"{name:15} median {middle:6.1f} ms, from {least:.1f} to {most:.1f}")


if __name__ == "__main__":
    main()
