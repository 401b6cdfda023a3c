"""The lower bound's hard instances: two problems that no algorithm can tell apart, as federations to play on.

All clients hold f(x) = mu x^2 / 2, except that in the second problem those who are silenced hold
g(x) = mu (x - b)^2 / 2 in just the rounds in which they are. Whoever answers holds f, so nobody sees the difference;
but the optimum is 0 in the first problem and epsilon b in the second.

Who is hidden makes the difference between G and sigma (proof sketch of Theorem nonconvex-lb-dropout-G): the same
clients for ever is a spread between clients, others in every round is noise. In one family: a round is *steady* with
probability r = G / sqrt(G^2 + sigma^2), and hides the same epsilon M clients as all steady rounds; otherwise it hides
epsilon M clients drawn afresh. Client i then holds g with probability q_i = r [i is one of the same] + (1 - r) epsilon,
the q_i have the mean epsilon and the variance r^2 epsilon (1 - epsilon), and with
b = sqrt(G^2 + sigma^2) / (mu sqrt(epsilon (1 - epsilon)))

    sum_i w_i ||grad F_i||^2 - ||grad F||^2 = (mu b)^2 mean (q_i - epsilon)^2 = G^2   everywhere, so B = 1,
    sum_i w_i Var(grad l_it)                = (mu b)^2 mean q_i (1 - q_i)     = sigma^2.

sigma = 0 hides the same for ever, G = 0 redraws them every round. All clients are sampled (K = M), so that the law lets
all the hidden be silenced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from noshow import devices
from noshow.contracts import Adversary, Algorithm, Array, Batch, Key, Memory, Model, Numbers, Scene
from noshow.errors import require
from noshow.federation import Federation
from noshow.local import holdings
from noshow.models.quadratic import quadratic
from noshow.program import setting_for
from noshow.rates import curve
from noshow.rounds import Inputs, State, play_round
from noshow.theory.constants import Problem
from noshow.theory.lower import distance_floor, gradient_floor


class HardInstance(NamedTuple):
    """One of the two problems, as arrays; `hard_pair` makes them.

    Example:
        >>> first, second = hard_pair(clients=10, epsilon=0.2, mu=1.0, G=2.0)[:2]
        >>> float(first.optimum), float(second.optimum)
        (0.0, 1.0)
    """

    mu: Numbers
    shift: Numbers
    """b, where those who are hidden have their minimum; 0 in the problem in which all hold f"""
    same: Numbers
    """Who is hidden in steady rounds [M]"""
    steady: Numbers
    """r, the chance that a round is steady"""

    @property
    def clients(self) -> int:
        """M, the number of clients, all of them sampled."""
        return int(self.same.shape[-1])

    @property
    def epsilon(self) -> Numbers:
        """The share of the clients that is hidden in every round."""
        return self.same.mean(-1)

    @property
    def optimum(self) -> Numbers:
        """theta*, the minimum of F: epsilon b."""
        return self.epsilon * self.shift

    def square_distance(self, theta: Numbers) -> Numbers:
        """||theta - theta*||^2, to be compared with `distance_floor`."""
        return np.square(np.asarray(theta, np.float64) - self.optimum)

    def square_gradient(self, theta: Numbers) -> Numbers:
        """||grad F(theta)||^2, to be compared with `gradient_floor`."""
        return self.mu**2 * self.square_distance(theta)

    def hidden(self, key: Key) -> Array:
        """Who is hidden in the round with this key [M]: epsilon M clients, the same ones or others."""
        coin, draw = jax.random.split(key)
        others = jnp.argsort(jax.random.uniform(draw, (self.clients,))) < self.same.sum()
        return jnp.where(jax.random.bernoulli(coin, self.steady), self.same, others)

    def held(self, key: Key) -> Batch:
        """What the clients hold in the round with this key, an example each: those who are hidden g, the others f."""
        return self._parabolas(self.hidden(key))

    def model(self, start: float = 1.0) -> Model:
        """The model of one parameter that starts from `start`."""
        return quadratic([start])

    def federation(self) -> Federation:
        """The clients with their own F_i, and what they hold in each round; the only test example is F."""
        chances = self.steady * self.same + (1 - self.steady) * self.epsilon
        rows = jax.tree.map(np.asarray, self._parabolas(chances))
        everybody = jax.tree.map(lambda row: row.mean(0, keepdims=True), rows)
        moving = None if np.all(np.asarray(self.steady) == 1) else lambda key, data: self.held(key)
        return Federation(rows, np.ones(self.clients, int), everybody, name="hard instance", of_round=moving)

    def adversary(self) -> Adversary:
        """Silences whoever is hidden: 1 for them, -inf for the others; it knows who they are from the round's key."""

        def init(key: Key, federation: Federation, model: Model) -> Memory:
            return jax.tree.map(jnp.asarray, self)

        def score(instance: Memory, key: Key, scene: Scene) -> Array:
            return jnp.where(instance.hidden(key)[scene.ids], 1.0, -jnp.inf)

        return Adversary(score, init, name="hard instance")

    def _parabolas(self, share_of_g: Numbers) -> Batch:
        """Curvatures and slopes of (1 - share) f + share g, up to a constant, one client a row."""
        slopes = self.mu * self.shift * share_of_g
        return jnp.full((self.clients, 1), self.mu), slopes[:, None]


class HardPair(NamedTuple):
    """Two problems that look the same, and below what no algorithm stays on both.

    Example:
        >>> pair = hard_pair(clients=10, epsilon=0.2, mu=1.0, G=2.0)
        >>> round(pair.distance_floor, 6), round(float(pair.apart.optimum) ** 2 / 8, 6)
        (0.125, 0.125)
    """

    alike: HardInstance
    """All clients hold f."""
    apart: HardInstance
    """Those who are hidden hold g."""
    problem: Problem
    """The constants of both: L = mu, B = 1, K = M."""
    distance_floor: float
    gradient_floor: float


def hard_pair(clients: int, epsilon: float, mu: float, G: float = 0.0, sigma: float = 0.0) -> HardPair:  # noqa: N803
    """The two problems of Theorem nonconvex-lb-dropout-G for these constants, and the theorem's floors.

    Both have the constants L = mu, B = 1, G and sigma, the second exactly. An algorithm's answer has the same law in
    both, and (x^2 + (x - epsilon b)^2) / 2 >= (epsilon b)^2 / 4 for every x, so that not only the worse of the two
    errors but their mean is at least epsilon / (4 (1 - epsilon)) (G^2 + sigma^2) / mu^2: twice the floor. The second
    problem against its mirror image, with -b for b, gives eight times the floor, (epsilon b)^2, in the same way; that
    is where an algorithm ends that finds the optimum of f, such as the paper's variants.

    Args:
        clients: M, all of them sampled.
        epsilon: the share that is hidden; epsilon M is a whole number, from 1 to M - 1.
        mu: the curvature of f and g.
        G: the spread between clients.
        sigma: the noise between rounds.

    Example:
        >>> pair = hard_pair(clients=10, epsilon=0.5, mu=2.0, G=3.0, sigma=4.0)
        >>> float(pair.apart.shift), float(pair.apart.steady), pair.gradient_floor
        (5.0, 0.6, 3.125)
    """
    for name, value in (("G", G), ("sigma", sigma)):
        require(math.isfinite(value) and value >= 0, f"{name} is {value}: give zero or more")
    require(G + sigma > 0, "G and sigma are both 0, and then absence costs nothing: give one of them above zero")
    require(math.isfinite(mu) and mu > 0, f"mu is {mu}: give a number above zero")
    require(clients >= 2, f"clients is {clients}: give 2 or more, to hide some and not all")
    count = round(epsilon * clients) if math.isfinite(epsilon) else 0
    require(
        1 <= count < clients and math.isclose(count, epsilon * clients, rel_tol=1e-9),
        f"epsilon is {epsilon}, which is {epsilon * clients:g} of {clients} clients: "
        f"give a share that is a whole number of them, from 1 to {clients - 1}",
    )
    share, spread = count / clients, math.hypot(G, sigma)
    shift = spread / (mu * math.sqrt(share * (1 - share)))
    same = np.arange(clients) < count
    apart = HardInstance(np.float64(mu), np.float64(shift), same, np.float64(G / spread))
    problem = Problem(epsilon=share, L=mu, L_minus=0.0, mu=mu, G=G, sigma=sigma, K=clients, M=clients)
    alike = apart._replace(shift=np.float64(0))
    return HardPair(alike, apart, problem, float(distance_floor(problem)), float(gradient_floor(problem)))


def play(
    instances: Sequence[HardInstance],
    algorithm: Algorithm,
    *,
    rounds: int,
    seeds: Sequence[int] = (0,),
    start: float = 1.0,
) -> np.ndarray:
    """theta_0, …, theta_rounds of an algorithm on hard instances, played by their own adversary [instances, S, T + 1].

    As `simulate` would one by one, but in one compiled program for all the instances, which must have equally many
    clients. One seed gives every instance the same hidden clients.

    Args:
        instances: what to play on.
        algorithm: what clients compute and what the server does with the replies.
        rounds: T, how many rounds to play.
        seeds: one independent run each.
        start: theta_0.

    Example:
        >>> import noshow as ns
        >>> pair = hard_pair(clients=4, epsilon=0.25, mu=1.0, sigma=1.0)
        >>> paths = play([pair.alike, pair.apart], ns.algorithms.fedavg(0.5, steps=1), rounds=2)
        >>> paths[:, 0].tolist()
        [[1.0, 0.5, 0.25], [1.0, 0.5, 0.25]]
    """
    require(len(instances) > 0, "instances is empty: give at least one")
    sizes = sorted({instance.clients for instance in instances})
    require(len(sizes) == 1, f"the instances have {sizes} clients: play those of one number of clients together")
    require(rounds >= 0, f"rounds is {rounds}: give zero or more")
    first, clients = instances[0], sizes[0]
    federation, model = first.federation(), first.model(start)
    setting = setting_for(federation, model, algorithm, first.adversary(), clients, 0.0, 1)._replace(width=clients)
    fixed = jax.tree.map(jnp.asarray, holdings(federation))

    def one_run(instance: HardInstance, rates: Array, seed: Array) -> Array:
        prepared = jax.tree.map(lambda leaf: leaf[None], instance)
        own = setting._replace(
            limit=instance.same.sum(),  # an example each: epsilon K N / M = epsilon M
            drawing=setting.drawing._replace(of_round=lambda key, data: instance.held(key)),
        )
        inputs = Inputs(fixed, seed[None], prepared, rates)

        def next_round(state: State, t: Array) -> tuple[State, Array]:
            state, _ = play_round(own, inputs, state, t)
            return state, state.theta[0, 0]

        state = State(jnp.full((1, 1), start), *(_for_one_seed(part.init(1, clients)) for part in parts))
        _, path = lax.scan(next_round, state, jnp.arange(rounds))
        return jnp.concatenate([jnp.full(1, start), path])

    parts = (algorithm.client, algorithm.server)
    every_run = jax.vmap(jax.vmap(one_run, (None, None, 0)), (0, None, None))
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *instances)
    rates = jnp.asarray(curve(algorithm.rate, max(rounds, 1)))
    mesh = devices.mesh_for(1)
    program = jax.jit(devices.on_each(every_run, mesh))
    return np.asarray(program(*devices.everywhere((stacked, rates, np.asarray(seeds, np.uint32)), mesh)))


def _for_one_seed(memory: Memory) -> Memory:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], memory)
