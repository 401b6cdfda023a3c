"""What must hold before a run can start: settings in range, and parts that go together."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from noshow.contracts import Adversary, Batch, Model
from noshow.errors import NoshowError, require, whole
from noshow.federation import Federation


def check(
    federation: Federation,
    model: Model,
    adversary: Adversary,
    sampled: int,
    rounds: int,
    epsilon: float | None,
    seeds: Sequence[int],
    evaluate_every: int,
    evaluate_on: int | None = None,
) -> None:
    """Raise a `NoshowError` unless these can make a run."""
    clients = federation.clients
    numbers = {"sampled": sampled, "rounds": rounds, "evaluate_every": evaluate_every}
    numbers |= {} if evaluate_on is None else {"evaluate_on": evaluate_on}
    for name, value in [*numbers.items(), *(("seeds", seed) for seed in seeds)]:
        whole(value, f"{name} is {value!r}")
    require(
        1 <= sampled <= clients,
        f"sampled is {sampled}, but there are {clients} clients: give a number from 1 to {clients}",
    )
    require(0 <= rounds < 2**31, f"rounds is {rounds}: give a number from 0 to 2^31 - 1")
    require(evaluate_every >= 1, f"evaluate_every is {evaluate_every}: give 1 round or more")
    require(evaluate_on is None or evaluate_on >= 1, f"evaluate_on is {evaluate_on}: give 1 example or more")
    require(len(seeds) > 0, "seeds is empty: give at least one")
    require(len(set(seeds)) == len(seeds), f"seeds {list(seeds)} repeat: give each seed once")
    require(all(0 <= seed < 2**32 for seed in seeds), f"seeds {list(seeds)}: give whole numbers from 0 to 2^32 - 1")
    _check_model(model, federation)
    adversary.check(federation)
    if adversary.lawful:
        require(
            epsilon is not None or adversary.name == "nobody",
            f"the adversary {adversary.name!r} acts under the law: give epsilon, from 0 up to, but not including, 1",
        )
    else:
        require(
            epsilon is None,
            f"the adversary {adversary.name!r} acts with the law off: leave epsilon out, or set it to 'off'",
        )


def _check_model(model: Model, federation: Federation) -> None:
    """Raise unless the model can read the federation's examples."""
    model.check(federation)
    _check_reading(model, federation, federation.data, "data")
    _check_reading(model, federation, federation.test, "test data")


def _check_reading(model: Model, federation: Federation, stored: Batch, which: str) -> None:
    rows = jax.tree.map(lambda leaf: leaf[:1], stored)
    try:
        params = jax.eval_shape(model.init, jax.random.key(0))
        batch = jax.eval_shape(lambda *stored: model.prepare(federation.read(*stored)), federation.shared, rows)
        measured = jax.eval_shape(model.measure, params, batch)
        found = [jnp.shape(column) for column in measured]
    except (AttributeError, TypeError, ValueError) as error:
        said = str(error).strip().partition("\n")[0]
        raise NoshowError(f"the model {model.name!r} cannot read the {which} of {federation.name!r}: {said}") from None
    require(
        found == [(1,), (1,)],
        f"the model {model.name!r} returned shapes {[list(shape) for shape in found]} for one example: "
        "`measure` returns one loss and one 1.0 or 0.0 an example",
    )
    for what, leaves in (("init", jax.tree.leaves(params)), ("measure", measured)):
        require(len(leaves) > 0, f"the model {model.name!r} has no parameters: `init` returns them")
        other = " and ".join(sorted({str(leaf.dtype) for leaf in leaves} - {"float32"}))
        require(not other, f"`{what}` of the model {model.name!r} returned {other}: its numbers must be float32")
