"""The contracts that every part of noshow keeps: pure functions of arrays, composed.

| contract     | question it answers                 | where the built-in ones live |
|--------------|-------------------------------------|------------------------------|
| `Model`      | how well do parameters fit a batch? | `noshow.models`              |
| `Client`     | what does a client reply?           | `noshow.clients`             |
| `Aggregator` | many points in, one point out       | `noshow.aggregators`         |
| `Server`     | what becomes of the replies?        | `noshow.servers`             |
| `Adversary`  | whom to silence?                    | `noshow.adversaries`         |

Shapes: d parameters, M registered clients, K sampled clients, n examples. Parameters travel as flat
vectors [d]; only a model's `measure` sees its own pytree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
Numbers = Any
"""An array of the same meaning on either side: NumPy on the host, JAX in the compiled program."""
Key = jax.Array
"""A typed JAX random key (`jax.random.key`)."""
Vector = jax.Array
"""A flat parameter vector [d]."""
Points = jax.Array
"""Vectors to aggregate, one a row: [m, d]."""
Weights = jax.Array
"""Non-negative weights of points or clients [m]; aggregators normalise them themselves."""
Params = Any
"""A model's parameters, as a pytree."""
Leaves = dict[str, np.ndarray]
"""Parameters as named arrays: leaves by their place in the pytree, such as `conv1/bias`, or tensors of a file."""
Batch = Any
"""A pytree of arrays whose first axis counts examples, e.g. `(x, y)`."""
Memory = Any
"""A pytree that a client or a server keeps between rounds; `None` when it keeps nothing."""
Rate = Callable[[int], float]
"""A learning rate as a function of the round t = 0, 1, 2, …"""
Sends = Literal["displacement", "gradient"]
"""What a reply is: a displacement theta_i - theta, or a gradient-like direction to be subtracted."""


class Layout(NamedTuple):
    """How a model's parameters are named and shaped in files: `outward(leaves)` -> tensors, `inward` back.

    Example:
        >>> import noshow as ns
        >>> transposed = ns.Layout(lambda leaves: {"weight": leaves["kernel"].T},
        ...                        lambda tensors: {"kernel": tensors["weight"].T})
    """

    outward: Callable[[Leaves], Leaves]
    inward: Callable[[Leaves], Leaves]


class Model(NamedTuple):
    """How parameters are made and how well they fit a batch.

    `measure(params, batch)` returns two arrays of one entry an example: its loss, and 1.0 where the
    prediction is right (0.0 where it is wrong). One entry an example, not a mean, so that the engine can
    weight ragged batches exactly.

    `prepare(batch)` does once for each batch drawn what needs no parameters; `measure` gets what it returns, and a
    client's local steps on one batch share it. `check(federation)` raises if the model cannot serve this federation's
    data, before anything runs. `layout` is what `noshow.weights` keeps to in files; leaves as they are if left out.
    `brief` models do so little with an example that reading it is most of the work: `noshow.lengths` spares it, and
    their `measure` takes batches as they are, too, where preparing one would not pay.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> def measure(theta, batch):
        ...     return 0.5 * jnp.square(batch - theta).sum(-1), jnp.zeros(len(batch))
        >>> mean_estimation = ns.Model(lambda key: jnp.zeros(3), measure)
    """

    init: Callable[[Key], Params]
    measure: Callable[[Params, Batch], tuple[Array, Array]]
    name: str = "model"
    check: Callable[[Any], None] = lambda federation: None
    prepare: Callable[[Batch], Batch] = lambda batch: batch
    layout: Layout | None = None
    brief: bool = False


class LocalData(Protocol):
    """A client's own objective l_{i,t} in this round; batches are drawn behind it (see `noshow.local`).

    Ask it for gradients: `jax.grad` cannot go through `loss` where clients use their full batches.

    Example:
        >>> import noshow as ns
        >>> def one_step(local: ns.LocalData, theta, memory, rate):
        ...     return ns.Work(-rate * local.gradient(theta))
    """

    def loss(self, theta: Vector, step: int | Array = 0) -> Array:
        """Mean loss on the batch of local step `step`."""

    def gradient(self, theta: Vector, step: int | Array = 0) -> Vector:
        """Gradient of that loss at `theta`."""


class Work(NamedTuple):
    """What a client has at the end of its round.

    `reply` goes to the server. `memory` stays with the client, and is kept only if the reply arrives.
    `gradients`, the sum of the round's local gradients, is for adversaries that look at them.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> work = ns.Work(reply=jnp.zeros(3))
    """

    reply: Vector
    memory: Memory = None
    gradients: Vector | None = None


def no_memory(d: int, clients: int) -> Memory:
    """The `init` of clients and servers that keep nothing."""
    return None


class Client(NamedTuple):
    """What a client computes.

    `reply(local, theta, memory, rate)` -> `Work`. `init(d, clients)` makes the memory of all clients,
    first axis M, or `None`. `sends` says what the reply is: a `"displacement"` theta_i - theta, or a
    `"gradient"`-like direction to be subtracted. `steps` is the theorems' s, if they speak of this client: its reply
    would be -s eta_t grad l(theta_t) if l were linear. `gradients` is how many gradients a reply takes, at least.

    Example:
        >>> import noshow as ns
        >>> one_step = ns.Client(lambda local, theta, memory, rate: ns.Work(-rate * local.gradient(theta)))
    """

    reply: Callable[[LocalData, Vector, Memory, Array], Work]
    init: Callable[[int, int], Memory] = no_memory
    sends: Sends = "displacement"
    steps: int | None = None
    gradients: int = 1


class Aggregator(Protocol):
    """Points [m, d] and weights [m] in, one point [d] out. No state, no client ids; `key` for rules that shuffle.

    Example:
        >>> import noshow as ns
        >>> server = ns.servers.remember(lambda points, weights, key: weights @ points / weights.sum())
    """

    def __call__(self, points: Points, weights: Weights, key: Key) -> Vector: ...


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["vectors", "ids", "answered", "weights", "all_weights", "key"],
    meta_fields=["sends"],
)
@dataclass(frozen=True)
class Replies:
    """What reaches the server in one round. Rows of `vectors` that were not answered mean nothing.

    `weights` are the sampled clients' w_i = n_i / N [K]; `all_weights` those of every registered client [M].

    Example:
        >>> import jax, jax.numpy as jnp, noshow as ns
        >>> replies = ns.Replies(jnp.ones((2, 3)), jnp.array([5, 0]), jnp.array([True, False]),
        ...                      jnp.array([0.1, 0.2]), jnp.full(6, 1 / 6), jax.random.key(0))
        >>> replies.clients, replies.sampled, replies.displacements(0.1)[1].tolist()
        (6, 2, [0.0, 0.0, 0.0])
    """

    vectors: Points
    ids: Array
    answered: Array
    weights: Weights
    all_weights: Weights
    key: Key
    sends: Sends = field(default="displacement")

    @property
    def clients(self) -> int:
        """M, the number of registered clients."""
        return int(self.all_weights.shape[0])

    @property
    def sampled(self) -> int:
        """K, the number of sampled clients."""
        return int(self.ids.shape[0])

    def displacements(self, rate: Array) -> Points:
        """Replies as steps to add to theta, zero where nothing arrived."""
        steps = self.vectors if self.sends == "displacement" else -rate * self.vectors
        return jnp.where(self.answered[:, None], steps, 0.0)

    def gradients(self, rate: Array) -> Points:
        """Replies as directions to subtract after scaling with the rate, zero where nothing arrived."""
        directions = self.vectors if self.sends == "gradient" else -self.vectors / rate
        return jnp.where(self.answered[:, None], directions, 0.0)


class Server(NamedTuple):
    """What the server does: `step(state, theta, replies, rate)` -> `(state, theta)`; `init(d, clients)` -> state.

    `linear` says that a step without memory adds replies to theta, each times a number that depends on nobody's reply:
    a live federation then needs no table of all replies.

    Example:
        >>> import noshow as ns
        >>> def add_up(state, theta, replies, rate):
        ...     return state, theta + replies.displacements(rate).sum(0)
        >>> server = ns.Server(add_up, linear=True)
    """

    step: Callable[[Memory, Vector, Replies, Array], tuple[Memory, Vector]]
    init: Callable[[int, int], Memory] = no_memory
    linear: bool = False


class Scene(NamedTuple):
    """What an adversary sees before it chooses: everything up to now (the paper's adversary is omniscient).

    `replies` and `gradients` [K, d] are there only for adversaries with `sees_replies`; `sends` says what a reply is,
    as in `Client`. `gradient` is grad F(theta) over everybody's data, only for adversaries with `sees_gradient`.
    `limit` is the most examples that the law lets go silent in this round; `None` with the law off.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> scene = ns.Scene(t=jnp.array(0), ids=jnp.array([4, 2]), sizes=jnp.array([90, 10]),
        ...                  weights=jnp.array([0.09, 0.01]), theta=jnp.zeros(3))
    """

    t: Array
    ids: Array
    sizes: Array
    weights: Weights
    theta: Vector
    replies: Points | None = None
    gradients: Points | None = None
    gradient: Vector | None = None
    sends: Sends = "displacement"
    limit: int | Array | None = None


class Adversary(NamedTuple):
    """Whom to silence. An adversary only *ranks*; `noshow.budget` decides.

    `score(state, key, scene)` -> [K]: the highest score is silenced first, `-inf` is left alone, ties are
    broken at random. `check(federation)` raises if this federation cannot serve the adversary, before anything
    runs; `init(key, federation, model)` prepares a state once a run. With `lawful=False` the law is off and
    everybody with a score above `-inf` is silenced. `sees_replies` and `sees_gradient` say what of the `Scene` it
    needs: both cost work, and neither is done for an adversary that does not ask.

    Example:
        >>> import noshow as ns
        >>> smallest_first = ns.Adversary(lambda state, key, scene: -scene.sizes.astype(float), name="smallest_first")
    """

    score: Callable[[Memory, Key, Scene], Array]
    init: Callable[[Key, Any, Model], Memory] = lambda key, federation, model: None
    check: Callable[[Any], None] = lambda federation: None
    sees_replies: bool = False
    lawful: bool = True
    name: str = "adversary"
    sees_gradient: bool = False


@dataclass(frozen=True)
class Algorithm:
    """A client, a server and the rate they share.

    Example:
        >>> import noshow as ns
        >>> mifa = ns.Algorithm(ns.clients.sgd(steps=25), ns.servers.remember(ns.aggregators.mean()),
        ...                     ns.rates.inverse_sqrt(0.1), name="mifa")
    """

    client: Client
    server: Server
    rate: Rate
    name: str = "algorithm"

    def renamed(self, name: str) -> Algorithm:
        """The same algorithm under another name, e.g. to compare two settings of it."""
        return replace(self, name=name)
