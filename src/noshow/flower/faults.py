"""Faults on purpose: rehearse an attack, or a bad day, on a federation of one's own.

`rehearse` goes around a strategy and drops replies as if they had never come; it sees all of a round's replies, so
that every adversary of the simulator can act there, under the law. `absent` and `unreliable` go into a `ClientApp` as
mods: the one keeps clients silent whom an adversary chooses by who they are or by chance, the other lets clients crash,
dawdle or send nonsense. All of them repeat themselves for the same seed.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from logging import INFO
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MessageType
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log

from noshow import budget
from noshow.contracts import Adversary, Model, Scene
from noshow.errors import NoshowError, require, whole
from noshow.flower.layout import Layout, UnreadableError, decoded
from noshow.flower.post import records
from noshow.flower.roster import Member, Roster
from noshow.flower.silence import Sends
from noshow.flower.strategy import ROUND
from noshow.flower.strategy import Strategy as OwnStrategy
from noshow.randomness import Purpose, round_key, run_key

PARTITION = "partition-id"
"""Where a node's configuration has the client's number."""
RAISED = 2
"""Flower's code for an app that raised an error."""

AnyStrategy = TypeVar("AnyStrategy", bound=Strategy)


class Registered(NamedTuple):
    """What an adversary may know of a live federation: how many clients there are, and how many examples each has."""

    sizes: np.ndarray
    name: str = "live federation"
    resampled: None = None

    @property
    def clients(self) -> int:
        """M, the number of registered clients."""
        return len(self.sizes)

    @property
    def weights(self) -> np.ndarray:
        """w_i = n_i / N [M]."""
        return (self.sizes / self.sizes.sum()).astype(np.float32)


def rehearse(
    strategy: AnyStrategy,
    adversary: Adversary,
    *,
    epsilon: float | None = None,
    roster: Roster | None = None,
    sends: Sends | None = None,
    seed: int = 0,
) -> AnyStrategy:
    """The same strategy, with an adversary between it and the replies: what it silences never comes.

    The adversary chooses among the replies to each round's training. With the law on, those who are missing anyway
    count first, and at least one of the replies that came always passes. Who is silenced stands in the log.

    Args:
        strategy: any strategy of Flower's Message API; it is left as it is, and a copy is returned.
        adversary: whom to silence, by the simulator's rules. It is shown replies, but no data: `shadow`, which
            rehearses on a copy of them, and `least_progress`, which needs everybody's gradient, cannot act here.
        epsilon: the law's share, for adversaries under the law.
        roster: who is registered, with n_i, as `noshow.flower.Strategy` has it. If left out, the clients are the nodes
            that were ever online, in the order of their ids, and count alike: the law then speaks of their number.
            A run of `noshow.flower.Strategy` writes nodes into it; replies from other nodes always pass.
        sends: what a reply's arrays are, the client's trained `"model"` or a `"gradient"`. If left out, what
            `noshow.flower.Strategy` was told, and the model for other strategies.
        seed: the adversary draws as in the simulator with this seed.

    Example:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> import noshow as ns
        >>> strategy = rehearse(FedAvg(), ns.adversaries.largest_reply(), epsilon=0.6)
    """
    _check(adversary, epsilon)
    _check_seed(seed)
    told: Sends = strategy.sends if isinstance(strategy, OwnStrategy) else "model"
    require(sends in (None, "model", "gradient"), f"sends is {sends!r}: give 'model' or 'gradient'")
    theatre = Theatre(adversary, epsilon, roster, sends or told, seed)
    kind: Any = type(strategy)

    class Rehearsed(kind):  # type: ignore[misc]  # whatever class the strategy is of: it keeps its own `start`
        def configure_train(
            self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
        ) -> Iterable[Message]:
            messages = list(super().configure_train(server_round, arrays, config, grid))
            theatre.open(arrays, messages, grid, self.unreached if isinstance(self, OwnStrategy) else [])
            return messages

        def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
            return super().aggregate_train(server_round, theatre.passing(server_round, list(replies)))

    rehearsed = copy.copy(strategy)
    rehearsed.__class__ = Rehearsed
    return rehearsed


class Theatre:
    """Where the adversary sits: it sees what was sent to whom, then what came back, and decides what passes."""

    def __init__(
        self, adversary: Adversary, epsilon: float | None, roster: Roster | None, sends: Sends, seed: int
    ) -> None:
        self._adversary, self._epsilon, self._roster, self._sends, self._seed = adversary, epsilon, roster, sends, seed
        self._nodes: list[int] = []
        self._prepared: tuple[int, Any] | None = None
        self._sent, self._messages = ArrayRecord(), list[Message]()
        self._unreached: list[Member] = []
        self._places: dict[int, int] = {}
        self._registered = Registered(np.ones(1, np.int64))

    def open(self, arrays: ArrayRecord, messages: list[Message], grid: Grid, unreached: list[Member]) -> None:
        """A round begins: this model goes out in these messages, and to nobody else who was sampled."""
        if self._roster is None:
            written = {message.metadata.dst_node_id for message in messages}
            new = {*grid.get_node_ids(), *written} - set(self._nodes)
            self._nodes += sorted(new)
            nodes: Sequence[int | None] = self._nodes
            sizes = np.ones(len(nodes), np.int64)
        else:
            members = self._roster.members()
            require(len(members) > 0, f"nobody is on the roster of {self._roster.path}: enrol clients")
            nodes, sizes = [member.node for member in members], np.array([member.n for member in members], np.int64)
        self._places = {node: place for place, node in enumerate(nodes) if node is not None}
        self._registered = Registered(sizes)
        self._sent = arrays
        self._unreached = [] if self._roster is None else unreached
        self._messages = [message for message in messages if message.metadata.dst_node_id in self._places]
        require(
            len(self._messages) > 0 or not messages,
            "no node that is called is one of the roster's, so that nobody could be silenced: leave the roster out, or "
            "let noshow's Strategy meet these nodes first",
        )
        if self._prepared is None or self._prepared[0] != len(sizes):
            self._prepared = len(sizes), _prepared(self._adversary, self._registered, self._seed)

    def passing(self, server_round: int, replies: list[Message]) -> list[Message]:
        """The replies that the adversary lets pass."""
        layout = Layout.of(self._sent)
        sent = layout.flat(self._sent)
        came = {
            reply.metadata.reply_to_message_id: _displacement(reply, layout, sent, self._sends) for reply in replies
        }
        vectors = [came.get(message.metadata.message_id) for message in self._messages]
        arrived = np.array([vector is not None for vector in vectors], bool)
        if not arrived.any():
            return replies
        silenced = np.flatnonzero(arrived)[self._silenced(server_round - 1, sent, vectors, arrived)]
        gone = {self._messages[place].metadata.message_id for place in silenced}
        nodes = [self._messages[place].metadata.dst_node_id for place in silenced]
        if nodes:
            log(INFO, "rehearsal, round %s: %s silences nodes %s", server_round, self._adversary.name, nodes)
        return [reply for reply in replies if reply.metadata.reply_to_message_id not in gone]

    def _silenced(
        self, t: int, sent: np.ndarray, vectors: Sequence[np.ndarray | None], arrived: np.ndarray
    ) -> np.ndarray:
        """Who of those who arrived is silenced."""
        ids = np.array([self._places[message.metadata.dst_node_id] for message in self._messages])
        sizes = self._registered.sizes[ids]
        room = None
        if self._adversary.lawful:
            most = budget.limit(self._epsilon or 0.0, len(ids) + len(self._unreached), self._registered.sizes)
            missing = int(sizes[~arrived].sum()) + sum(member.n for member in self._unreached)
            room = max(most - missing, 0)
        # One that looks at replies is shown those that came; one that does not draws for all, as in the simulator.
        seen = arrived if self._adversary.sees_replies else np.ones(len(ids), bool)
        replies = gradients = None
        if self._adversary.sees_replies:
            replies = jnp.asarray(np.stack([vector for vector in vectors if vector is not None]))
            gradients = replies if self._sends == "gradient" else -replies
        assert self._prepared is not None
        scene = Scene(
            t=jnp.asarray(t),
            ids=jnp.asarray(ids[seen]),
            sizes=jnp.asarray(sizes[seen]),
            weights=jnp.asarray(self._registered.weights[ids[seen]]),
            theta=jnp.asarray(sent),
            replies=replies,
            gradients=gradients,
            sends="gradient" if self._sends == "gradient" else "displacement",
            limit=room,
        )
        scores = self._adversary.score(self._prepared[1], round_key(self._seed, t, Purpose.ADVERSARY), scene)
        ties = round_key(self._seed, t, Purpose.TIES)
        return np.asarray(budget.silence(ties, scores[arrived[seen]], jnp.asarray(sizes[arrived]), room))


def absent(adversary: Adversary, clients: int, *, seed: int = 0) -> Mod:
    """A mod for a `ClientApp`: an adversary that goes by who a client is, or by chance, keeps it silent.

    The client's number is its `partition-id`. It trains on nothing and replies with an error. Adversaries that act
    under the law or look at replies must see the others' too: `rehearse` is for them.

    Args:
        adversary: `random_response`, `round_robin`, `replay`, or one of your own with the law off.
        clients: M, the number of clients in the federation.
        seed: groups are those of the simulator with this seed; chance is drawn for each client by itself.

    Example:
        >>> from flwr.clientapp import ClientApp
        >>> import noshow as ns
        >>> app = ClientApp(mods=[absent(ns.adversaries.random_response(0.7), clients=10)])
    """
    require(
        not (adversary.lawful or adversary.sees_replies or adversary.sees_gradient),
        f"the adversary {adversary.name!r} must see a whole round to choose: give it to `rehearse`, at the server",
    )
    clients = whole(clients, f"clients is {clients!r}")
    require(clients >= 1, f"clients is {clients}: give the number of clients, 1 or more")
    _check_seed(seed)
    registered = Registered(np.ones(clients, np.int64))
    state = _prepared(adversary, registered, seed)

    def stay_away(message: Message, number: int, t: int) -> Message | None:
        require(number < clients, f"{PARTITION} is {number}, and clients is {clients}: give the number of all clients")
        one = jnp.ones(1, jnp.int32)
        scene = Scene(jnp.asarray(t), number * one, one, one / clients, jnp.zeros(1))
        key = jax.random.fold_in(round_key(seed, t, Purpose.ADVERSARY), number)
        silent = bool(adversary.score(state, key, scene)[0] > -jnp.inf)
        return Message(Error(RAISED, f"kept silent by {adversary.name}"), reply_to=message) if silent else None

    def mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        if not _is_training(message):
            return call_next(message, context)
        return stay_away(message, _number(context), _round(message) - 1) or call_next(message, context)

    return mod


def unreliable(
    *, crash: float = 0.0, delay: float = 0.0, corrupt: float = 0.0, seconds: float = 60.0, seed: int = 0
) -> Mod:
    """A mod for a `ClientApp`: with these probabilities, a call to train ends in a fault, one at most.

    Args:
        crash: the app raises an error instead of training.
        delay: the reply comes, `seconds` late.
        corrupt: the reply's arrays of floating point are filled with NaN.
        seconds: how late; more than the server's time-out makes the client silent.
        seed: which calls are met follows from it, the round and the client's `partition-id`.

    Example:
        >>> from flwr.clientapp import ClientApp
        >>> app = ClientApp(mods=[unreliable(crash=0.1, delay=0.1, corrupt=0.05, seconds=90)])
    """
    for name, chance in (("crash", crash), ("delay", delay), ("corrupt", corrupt)):
        require(0 <= chance <= 1, f"{name} is {chance}: give a probability, from 0 to 1")
    together = crash + delay + corrupt
    require(together <= 1, f"crash, delay and corrupt add up to {together}: a call has one fault at most, so give less")
    require(0 <= seconds < 1e6, f"seconds is {seconds}: give 0 or more")
    _check_seed(seed)

    def mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        if not _is_training(message):
            return call_next(message, context)
        draw = np.random.default_rng([seed, _round(message), _number(context)]).random()
        if draw < crash:
            raise RuntimeError("this crash was rehearsed")
        reply = call_next(message, context)
        if draw < crash + delay:
            time.sleep(seconds)
        elif draw < together and reply.has_content():
            for name, record in reply.content.array_records.items():
                reply.content[name] = ArrayRecord({key: _spoilt(array) for key, array in record.items()})
        return reply

    return mod


def _check(adversary: Adversary, epsilon: float | None) -> None:
    require(
        not adversary.sees_gradient,
        f"the adversary {adversary.name!r} needs the gradient over everybody's data, which no server has: give another",
    )
    if adversary.lawful:
        require(
            epsilon is not None,
            f"the adversary {adversary.name!r} acts under the law: give epsilon, from 0 up to, but not including, 1",
        )
        budget.limit(epsilon or 0.0, 1, np.ones(1, np.int64))
    else:
        require(epsilon is None, f"the adversary {adversary.name!r} acts with the law off: leave epsilon out")


def _check_seed(seed: int) -> None:
    number = whole(seed, f"seed is {seed!r}")
    require(0 <= number < 2**32, f"seed is {number}: give a whole number from 0 to 2^32 - 1")


def _prepared(adversary: Adversary, registered: Registered, seed: int) -> Any:
    adversary.check(registered)

    def unknown(*_: Any) -> Any:
        raise NoshowError(f"the adversary {adversary.name!r} asks for the model, which it cannot have in a rehearsal")

    return adversary.init(run_key(seed, Purpose.PREPARE), registered, Model(unknown, unknown))


def _displacement(reply: Message, layout: Layout, sent: np.ndarray, sends: Sends) -> np.ndarray | None:
    """What a reply says, as the adversary sees it; `None` where nothing usable came."""
    found = records(reply.content, ArrayRecord) if reply.has_content() else []
    if len(found) != 1:
        return None
    try:
        vector = layout.flat(found[0])
    except UnreadableError:
        return None
    said = vector if sends == "gradient" else vector - sent
    return said if np.isfinite(said).all() else None


def _is_training(message: Message) -> bool:
    return message.metadata.message_type.partition(".")[0] == MessageType.TRAIN


def _round(message: Message) -> int:
    for record in records(message.content, ConfigRecord):
        if isinstance(record.get(ROUND), int):
            return int(record[ROUND])  # type: ignore[arg-type]
    raise NoshowError(f"the message does not say which round it is: send {ROUND!r} in its config")


def _number(context: Context) -> int:
    number = context.node_config.get(PARTITION)
    if not isinstance(number, int) or number < 0:
        raise NoshowError(f"the node's {PARTITION} is {number!r}: give each its number, as in --node-config")
    return number


def _spoilt(array: Array) -> Array:
    values = decoded(array)
    return Array(np.full_like(values, np.nan)) if jnp.issubdtype(values.dtype, np.floating) else array
