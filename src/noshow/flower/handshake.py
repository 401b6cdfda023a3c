"""How clients enter the roster: every node that is new is asked once who it is and how many examples it holds.

A client that was taken off the roster does not come back by introducing itself: somebody enrols it again. Its node, and
others that are nobody's, are asked once more whenever somebody without a node has been enrolled.

The question is a message of type `query.roster`. The answer holds one `ConfigRecord` with `client`, a name of the
client's own that outlives its node, and `num-examples`.
"""

from __future__ import annotations

import time
from logging import INFO, WARNING

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from noshow.errors import NoshowError, require
from noshow.flower.legible import legible
from noshow.flower.post import FIRST_PAUSE, LONGEST_PAUSE, pull, push, records
from noshow.flower.roster import Member, Roster
from noshow.flower.silence import of_error

QUESTION = "query.roster"


class Reception:
    """Asks new nodes who they are, and takes their answers as they come."""

    def __init__(self, roster: Roster, patience: float) -> None:
        self._roster, self.patience = roster, patience
        self._asked: dict[str, tuple[int, float]] = {}
        self._done: set[int] = set()
        self._numbers: set[int] = set()
        self._said: dict[int, str] = {}
        self._online: set[int] = set()

    def welcome(self, grid: Grid) -> set[int]:
        """Take the answers that are here, and ask the nodes that are new. Waits for nobody; who is online."""
        self._online = set(grid.get_node_ids())
        for question, reply in pull(grid, self._asked).items():
            node, _ = self._asked.pop(question)
            if not (reply.has_error() and of_error(reply.error).reason in ("timeout", "unavailable")):
                self._done.add(node)
                self._enter(node, reply)
        members = self._roster.members()
        self._find_again(members)
        self._ask_again(members)
        now = time.monotonic()
        self._asked = {question: (node, until) for question, (node, until) in self._asked.items() if until > now}
        pending = {node for node, _ in self._asked.values()}
        new = sorted(self._online - self._done - pending)
        questions = [Message(RecordDict({}), node, QUESTION, ttl=self.patience) for node in new]
        taken = push(grid, questions)
        for asked in (message.metadata for message in questions if message.metadata.message_id in taken):
            self._asked[asked.message_id] = asked.dst_node_id, now + self.patience
        return self._online

    def gather(self, grid: Grid, fewest: int) -> None:
        """Wait until everybody online was asked and has answered, and the roster has enough clients to sample."""
        end = time.monotonic() + self.patience
        self.welcome(grid)
        while (self._asked or len(self._roster.members()) < fewest) and time.monotonic() < end:
            time.sleep(10 * FIRST_PAUSE)
            self.welcome(grid)
        found = len(self._roster.members())
        if found < fewest:
            raise NoshowError(
                f"the roster of {self._roster.path} has {found} clients and {fewest} are to be sampled: "
                "start more nodes, enrol clients from a file, or sample fewer"
            )

    def wait_for_somebody(self, grid: Grid) -> None:
        """Welcome who is new, until a registered client is online: rounds would be over at once else, for nothing."""
        told = False
        while self.welcome(grid).isdisjoint(self._nodes()):
            if not told:
                log(WARNING, "nobody on the roster is at a node that is online: the next round waits for somebody")
            told = True
            time.sleep(LONGEST_PAUSE)

    def _nodes(self) -> set[int | None]:
        members = self._roster.members()
        require(len(members) > 0, f"nobody is on the roster of {self._roster.path}: enrol clients")
        return {member.node for member in members}

    def _ask_again(self, members: list[Member]) -> None:
        numbers, nodes = {member.number for member in members}, {member.node for member in members}
        if numbers != self._numbers and None in nodes:
            self._done &= nodes
        self._numbers = numbers

    def _find_again(self, members: list[Member]) -> None:
        """Clients whose node is gone are where they said they were, too, if that node is online.

        Somebody else under their name may have had their place, or another federation that uses the same file.
        """
        at = {self._said[node]: node for node in sorted(self._online & self._said.keys())}
        for member in members:
            if member.node not in self._online and member.client in at:
                self._roster.seen_at(member.client, at[member.client])
                log(INFO, "client %s is found again, at node %s", legible(member.client), at[member.client])

    def _enter(self, node: int, reply: Message) -> None:
        if reply.has_error():
            log(WARNING, "node %s did not say who it is: its app needs a function for %s", node, QUESTION)
            return
        introduced = _introduction(reply.content)
        if introduced is None:
            said = legible(str([dict(record) for record in records(reply.content, ConfigRecord)]))
            needed = "a ConfigRecord with client, a name, and num-examples, a whole number from 1 to 2^31 - 1"
            log(WARNING, "node %s introduced itself with %s: its app must answer with %s", node, said, needed)
            return
        client, n = introduced
        self._said[node] = client
        name = legible(client)
        known = {member.client: member for member in self._roster.members()}
        if client not in known and self._roster.was_taken_off(client):
            log(WARNING, "client %s, at node %s, was taken off the roster: enrol it to let it in again", name, node)
            return
        if client not in known:
            self._roster.enrol(client, n)
            log(INFO, "client %s joins with %s examples, at node %s", name, n, node)
        elif known[client].n != n:
            log(WARNING, "client %s says it has %s examples; the roster's %s count", name, n, known[client].n)
        before = known[client].node if client in known else None
        if before != node and before in self._online:
            told = "client %s is at node %s now, and was at node %s, still online: give every client a name of its own"
            log(WARNING, told, name, node, before)
        self._roster.seen_at(client, node)


def _introduction(content: RecordDict) -> tuple[str, int] | None:
    for record in records(content, ConfigRecord):
        client, n = record.get("client"), record.get("num-examples")
        if isinstance(client, str) and client and type(n) is int and 1 <= n < 2**31:
            return client, n
    return None
