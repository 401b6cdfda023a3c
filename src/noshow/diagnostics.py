"""What the theory looks at in a run: the gradient of F, the distance to its minimum, and what went wrong in each round.

With reply_i and l_i the reply and the batch loss of a sampled client in round t, the paper's proofs split the update of
its variants into -beta s eta_t sum over all sampled of w_i grad l_i(theta_t), and two errors:

    selection bias           sum over the silenced of w_i grad l_i(theta_t)
    objective inconsistency  sum over responders of w_i (reply_i + s eta_t grad l_i(theta_t))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from noshow.contracts import Array, Client, LocalData, Memory, Model, Numbers, Params, Points, Vector, Weights, Work
from noshow.errors import require
from noshow.randomness import Purpose, run_key

if TYPE_CHECKING:
    import pyarrow

    from noshow.theory.constants import Method, Problem


class Diagnose(NamedTuple):
    """A request for diagnostics: `simulate(..., diagnose=Diagnose())`; with theta* where it is known.

    It costs one gradient over everybody's data and one more of each sampled client in every round.

    Example:
        >>> import noshow as ns
        >>> federation, model = ns.datasets.synthetic(clients=8, sizes=40), ns.models.logistic()
        >>> history = ns.simulate(federation, model, ns.algorithms.fedavg_variant(0.01, steps=5),
        ...                       ns.adversaries.largest_reply(), sampled=4, epsilon=0.5, rounds=6,
        ...                       diagnose=ns.Diagnose())
        >>> history.diagnostics.gradient_norm.shape, len(history.diagnostics.random_iterates)
        ((1, 6), 1)
    """

    optimum: Params | None = None


class Diagnosis(NamedTuple):
    """One round of every seed [S], or all rounds [S, T]; `None` for what does not apply."""

    gradient_norm: Numbers
    square_distance: Numbers | None
    selection_bias: Numbers
    objective_inconsistency: Numbers | None


@dataclass(frozen=True)
class Diagnostics:
    """What every round of every seed showed [S, T], before its update.

    `gradient_norm` is ||grad F(theta_t)||; `square_distance` ||theta_t - theta*||^2, where theta* was given;
    `selection_bias` and `objective_inconsistency` are the lengths of the round's two errors, the latter for clients
    whose reply the theorems speak of (`Client.steps`). `random_iterates` are theta_R, one a seed, with R = t with
    probability eta_t / sum eta: the model that Theorem nonconvex is about.

    Example:
        >>> import numpy as np
        >>> seen = Diagnostics(rates=np.array([1.0, 3.0]), gradient_norm=np.array([[2.0, 4.0]]), square_distance=None,
        ...                    selection_bias=np.zeros((1, 2)), objective_inconsistency=None,
        ...                    random_rounds=np.array([1]), random_iterates=[])
        >>> seen.mean_square_gradient.tolist()
        [[4.0, 13.0]]
    """

    rates: np.ndarray
    gradient_norm: np.ndarray
    square_distance: np.ndarray | None
    selection_bias: np.ndarray
    objective_inconsistency: np.ndarray | None
    random_rounds: np.ndarray
    random_iterates: list[Params]

    @classmethod
    def of(
        cls, rates: np.ndarray, seen: Diagnosis, random_rounds: np.ndarray, random_iterates: list[Params]
    ) -> Diagnostics:
        """Put together from what all rounds showed [S, T]."""
        return cls(
            rates,
            seen.gradient_norm,
            seen.square_distance,
            seen.selection_bias,
            seen.objective_inconsistency,
            random_rounds,
            random_iterates,
        )

    @property
    def mean_square_gradient(self) -> np.ndarray:
        """sum_{t <= T} eta_t ||grad F(theta_t)||^2 / sum eta_t [S, T]: E ||grad F(theta_R)||^2, given the run."""
        return np.cumsum(self.rates * self.gradient_norm**2, axis=1) / np.cumsum(self.rates)

    def used(self, problem: Problem, method: Method) -> Used:
        """Each round's errors as shares of their bounds (Lemma adversarial-attack, equation objective-inconsistency).

        The lemmas bound expectations: single rounds may exceed 1.

        Example:
            >>> import numpy as np
            >>> from noshow.theory import Problem
            >>> seen = Diagnostics(np.array([0.1]), np.array([[1.0]]), None, np.array([[0.1]]), None, np.array([0]), [])
            >>> seen.used(Problem(epsilon=0.25, L=1.0, G=1.0, K=1, M=5), "fedavg").selection_bias.tolist()
            [[0.5]]
        """
        from noshow.theory.lemmas import objective_inconsistency, selection_bias

        def share(error: np.ndarray, bound: np.ndarray) -> np.ndarray:
            return np.divide(error, bound, out=np.zeros_like(self.gradient_norm, float), where=bound > 0)

        inconsistency = None
        # Where a bound is 0, as without absence or with a single local step, there is no error either.
        if self.objective_inconsistency is not None:
            bound = np.asarray(objective_inconsistency(problem, method, self.rates, self.gradient_norm))
            inconsistency = share(self.objective_inconsistency, bound)
        return Used(share(self.selection_bias, np.asarray(selection_bias(problem, self.gradient_norm))), inconsistency)

    def table(self, algorithm: str, seeds: np.ndarray) -> pyarrow.Table:
        """One row a seed and a round."""
        import pyarrow as pa

        rounds = len(self.rates)
        columns: Any = {
            "algorithm": pa.array([algorithm] * self.gradient_norm.size, pa.string()),
            "seed": np.repeat(seeds.astype(np.int64), rounds),
            "round": np.tile(np.arange(rounds, dtype=np.int32), len(seeds)),
            "rate": np.tile(self.rates, len(seeds)),
        }
        for name in Diagnosis._fields:
            values = getattr(self, name)
            if values is not None:
                columns[name] = np.asarray(values, np.float32).reshape(-1)
        return pa.table(columns)


class Used(NamedTuple):
    """Errors as shares of what the lemmas allow [S, T]."""

    selection_bias: np.ndarray
    objective_inconsistency: np.ndarray | None


def flat_optimum(request: Diagnose | None, model: Model) -> np.ndarray | None:
    """theta* as a flat vector, if the request has one; raises unless it is a model's own parameters.

    Example:
        >>> import noshow as ns
        >>> flat_optimum(Diagnose(optimum=[1.0, 2.0]), ns.models.quadratic([0.0, 0.0])).tolist()
        [1.0, 2.0]
    """
    require(request is None or isinstance(request, Diagnose), f"diagnose is {request!r}: give noshow.Diagnose()")
    if request is None or request.optimum is None:
        return None
    flat = np.asarray(ravel_pytree(jax.tree.map(jnp.asarray, request.optimum))[0], np.float32)
    d = sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(model.init, jax.random.key(0))))
    require(
        flat.size == d and bool(np.isfinite(flat).all()),
        f"the optimum holds {flat.size} numbers, and {model.name!r} has {d} parameters: give as many, all finite",
    )
    return flat


def gradient_at_start(local: LocalData, theta: Vector, memory: Memory, rate: Array) -> Work:
    """A client that replies grad l_i(theta_t), on the batch of its first step."""
    return Work(local.gradient(theta), memory)


ONE_GRADIENT = Client(gradient_at_start, sends="gradient")


def errors_of(
    client: Client, gradients: Points, replies: Points, answered: Array, weights: Weights, rate: Array
) -> tuple[Array, Array | None]:
    """The lengths of a round's selection bias and objective inconsistency, for one seed.

    Example:
        >>> import jax.numpy as jnp, noshow as ns
        >>> bias, drift = errors_of(ns.clients.sgd(steps=2), gradients=jnp.array([[3.0], [1.0]]),
        ...                         replies=jnp.array([[0.0], [-0.15]]), answered=jnp.array([False, True]),
        ...                         weights=jnp.array([0.5, 0.5]), rate=jnp.array(0.1))
        >>> round(float(bias), 3), round(float(drift), 3)
        (1.5, 0.025)
    """
    bias = jnp.linalg.norm(jnp.where(answered, 0.0, weights) @ gradients)
    if client.steps is None:
        return bias, None
    drifts = jnp.where(answered[:, None], replies + client.steps * rate * gradients, 0.0)
    return bias, jnp.linalg.norm(weights @ drifts)


def random_round(seed: int, rates: np.ndarray) -> int:
    """R of the random iterate theta_R: round t with probability eta_t / sum eta.

    Example:
        >>> import numpy as np
        >>> random_round(0, np.array([0.0, 1.0, 0.0]))
        1
    """
    # In float64 on the host: at 10^5 rounds float32 could no longer add the rates up.
    point = float(jax.random.uniform(run_key(seed, Purpose.ITERATE), dtype=np.float32))
    total = np.cumsum(rates, dtype=np.float64)
    return int(np.searchsorted(total, point * total[-1], side="right"))
