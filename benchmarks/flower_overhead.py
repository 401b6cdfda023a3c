"""What a round of a live federation waits for the Flower strategy, without network and clients.

From the moment at which the last of 100 replies of a million parameters is there to that at which the next round's
calls go out: checking replies, the server's step, keeping the round in SQLite, the new model as Flower's arrays,
sampling and messages. Replies come one after the other within some seconds, as those of real clients do, or all at
once; they differ from round to round. Beside it, what rules that are no sums take by themselves for a table of rows,
after a pause, as in a round.
"""

from __future__ import annotations

import argparse
import logging
import math
import statistics
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

import noshow as ns
from noshow.additive import factors_of
from noshow.flower import Roster, Strategy
from noshow.recall import aggregator_of, recalled

SHAPES = {"hidden.weight": (900, 1000), "hidden.bias": (1000,), "out.weight": (99, 1000)}
FIRST_NODE = 1000
PAUSE = 2.0
"""Seconds without work, after which a processor and its caches take longer."""
SERVERS = {
    "average": ns.servers.average,
    "amplify": ns.servers.amplify,
    "remember(mean)": lambda: ns.servers.remember(ns.aggregators.mean()),
    "remember(centered_clip)": lambda: ns.servers.remember(ns.aggregators.centered_clip()),
    "remember(geometric_median)": lambda: ns.servers.remember(ns.aggregators.geometric_median()),
}


def model(rng: np.random.Generator) -> ArrayRecord:
    return ArrayRecord({name: Array(rng.normal(size=shape).astype(np.float32)) for name, shape in SHAPES.items()})


class Mailbox(Grid):
    """Nodes that answer at once when they are asked who they are, and within `seconds` when they are to train."""

    def __init__(self, clients: int, seconds: float) -> None:
        self.rng = np.random.default_rng(0)
        metrics = MetricRecord({"num-examples": 100, "loss": 1.0})
        self.contents = [RecordDict({"arrays": model(self.rng), "metrics": metrics}) for _ in range(clients)]
        self.seconds, self.rounds, self.sent = seconds, 0, 0
        self.mail: dict[str, tuple[float, Message]] = {}
        self.last_reply: float | None = None
        self.waited: list[float] = []

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        now, calls = time.perf_counter(), list(messages)
        training = [message for message in calls if message.metadata.message_type == MessageType.TRAIN]
        if training:
            self.rounds += 1
            if self.last_reply is not None:
                self.waited.append(now - self.last_reply)
        turns = self.rng.permutation(len(calls)) + 1
        for turn, message in zip(turns, calls, strict=True):
            message.metadata.__dict__["_message_id"] = f"message-{self.sent}"
            self.sent += 1
            number = message.metadata.dst_node_id - FIRST_NODE
            about = RecordDict({"about": ConfigRecord({"client": f"client-{number}", "num-examples": 100 + number})})
            content = self.contents[(number + self.rounds) % len(self.contents)] if training else about
            due = now + self.seconds * turn / len(calls) if training else now
            self.mail[message.metadata.message_id] = due, Message(content, reply_to=message)
        return [message.metadata.message_id for message in calls]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        now = time.perf_counter()
        here = [self.mail.pop(one)[1] for one in message_ids if one in self.mail and self.mail[one][0] <= now]
        if any(reply.metadata.message_type == MessageType.TRAIN for reply in here):
            self.last_reply = time.perf_counter()
        return here

    def get_node_ids(self) -> list[int]:
        return [FIRST_NODE + number for number in range(len(self.contents))]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError


def seconds_waited(server: ns.Server, clients: int, rounds: int, seconds: float, folder: Path) -> list[float]:
    roster = Roster(folder / "federation.sqlite")
    for number in range(clients):
        roster.enrol(f"client-{number}", 100 + number)
        roster.seen_at(f"client-{number}", FIRST_NODE + number)
    strategy = Strategy(server=server, roster=roster, sampled=clients, timeout=60.0, evaluate_every=0)
    grid = Mailbox(clients, seconds)
    strategy.start(grid, model(np.random.default_rng(1)), rounds + 2)
    return grid.waited[1:]


def seconds_of_the_rule(server: ns.Server, clients: int) -> list[float] | None:
    """What the aggregator of a server that remembers takes; `None` where it adds rows up as they come."""
    aggregator = aggregator_of(server)
    if aggregator is None or factors_of(aggregator) is not None:
        return None
    aggregate = jax.jit(partial(recalled, aggregator))
    table = jax.random.normal(jax.random.key(0), (clients, sum(map(math.prod, SHAPES.values()))))
    taken = []
    for turn in range(8):
        time.sleep(PAUSE)
        begun = time.perf_counter()
        aggregate(table, np.full(clients, 1 / clients, np.float32), jax.random.key(turn)).block_until_ready()
        taken.append(time.perf_counter() - begun)
    return taken[1:]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--clients", type=int, default=100)
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--seconds", type=float, nargs="+", default=[10.0, 0.0], help="in which replies come")
    options.add_argument("--servers", nargs="+", default=list(SERVERS), choices=list(SERVERS))
    asked = options.parse_args()
    logging.getLogger("flwr").setLevel(logging.WARNING)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    print(f"d = 1,000,000, {asked.clients} replies a round; the first round, which compiles, is left out")
    for name in asked.servers:
        rule = seconds_of_the_rule(SERVERS[name](), asked.clients)
        if rule is not None:
            print(f"{name:27} the rule alone: median {1e3 * statistics.median(rule):6.1f} ms", flush=True)
        for seconds in asked.seconds:
            with tempfile.TemporaryDirectory() as folder:
                taken = seconds_waited(SERVERS[name](), asked.clients, asked.rounds, seconds, Path(folder))
            middle, least, most = (1e3 * of(taken) for of in (statistics.median, min, max))
            print(
                f"{name:27} replies in {seconds:4.1f} s: median {middle:6.1f} ms, from {least:.1f} to {most:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
