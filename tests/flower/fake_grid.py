"""A Flower grid without Flower's processes: nodes are functions, and messages come back when the clock says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SUPERLINK_NODE_ID, 1

Node = Callable[[Message], Message | None]
"""A message in, its reply out; `None` for no reply at all."""


class FakeGrid(Grid):
    """`delay` seconds pass before a node's trained model can be pulled. Nodes that are not `online` get no message."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes = nodes
        self.online = set(nodes)
        self.delay: dict[int, float] = {}
        self.sent: list[Message] = []
        self._mail: dict[str, tuple[float, Message]] = {}

    def get_node_ids(self) -> list[int]:
        return sorted(self.online)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        taken = []
        for message in messages:
            identity = f"message-{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = identity
            self.sent.append(message)
            node = message.metadata.dst_node_id
            if node not in self.nodes:
                continue
            taken.append(identity)
            reply = self.nodes[node](message) if node in self.online else None
            if reply is not None:
                delay = self.delay.get(node, 0.0) if message.metadata.message_type == "train" else 0.0
                self._mail[identity] = time.monotonic() + delay, reply
        return taken

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        now = time.monotonic()
        here = [one for one in message_ids if one in self._mail and self._mail[one][0] <= now]
        return [self._mail.pop(one)[1] for one in here]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError


def introduced(message: Message, client: str, n: int) -> Message:
    """What a client says when it is asked who it is."""
    about = ConfigRecord({"client": client, "num-examples": n})
    return Message(RecordDict({"roster": about}), reply_to=message)


def failed(message: Message, code: int, reason: str = "") -> Message:
    """An error in the place of a reply."""
    return Message(Error(code, reason), reply_to=message)
