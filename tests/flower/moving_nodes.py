"""Clients that move a model by so much in each round, at nodes of a grid without processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from fake_grid import FakeGrid, introduced
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

FIRST_NODE = 2**63 + 100
Displacement = Callable[[int, int], np.ndarray]
"""A client's number and the round -> how far it moves the model."""


class Nodes(FakeGrid):
    """Clients at nodes of their own: each moves the model by its own displacement, and the `dead` do not answer."""

    def __init__(self, clients: int, moves: Displacement, sizes: Iterable[int] | None = None) -> None:
        super().__init__({FIRST_NODE + client: partial(self._heard, client) for client in range(clients)})
        self.moves, self.sizes = moves, list(sizes or [1] * clients)
        self.dead: set[int] = set()

    def reply(self, client: int, message: Message) -> Message:
        """What a client says when it is asked who it is, to train, or to evaluate."""
        if message.metadata.message_type == "query.roster":
            return introduced(message, f"site-{client}", self.sizes[client])
        metrics = MetricRecord({"num-examples": self.sizes[client], "client": client})
        if message.metadata.message_type != "train":
            return Message(RecordDict({"metrics": metrics}), reply_to=message)
        moved = message.content["arrays"]["w"].numpy() + self.moves(
            client, int(message.content["config"]["server-round"])
        )
        content = RecordDict({"arrays": model(*moved), "metrics": metrics})
        return Message(content, reply_to=message)

    def _heard(self, client: int, message: Message) -> Message | None:
        return None if client in self.dead else self.reply(client, message)


def model(*values: float) -> ArrayRecord:
    """A model of one array."""
    return ArrayRecord({"w": Array(np.array(values, np.float32))})
