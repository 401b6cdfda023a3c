"""Models written with Flax or Equinox, as noshow's own.

Both libraries are imported only where they are used: noshow needs neither.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax

from noshow.contracts import Array, Batch, Key, Model, Params
from noshow.errors import NoshowError, require
from noshow.federation import Federation
from noshow.models.scores import check_labels, cross_entropy

Score = Callable[[Any, Array], tuple[Array, Array]]
"""(outputs [n, …], y [n, …]) -> each example's loss, and 1.0 where the prediction is right."""


def from_flax(module: Any, example: Any, *, score: Score = cross_entropy, name: str | None = None) -> Model:
    """A `flax.linen` module as a model on batches `(x, y)`: `score(module(x), y)`, softmax cross-entropy by default.

    The module's parameters are all there is: modules that keep state between calls (batch normalisation) or draw
    random numbers in them (dropout) are refused, since a client's loss must be a function of parameters and data.

    Args:
        module: reads a batch x [n, …] and returns logits [n, classes], or whatever `score` takes.
        example: an input batch of the right shape and type, such as `jnp.zeros((1, 60))`.
        score: (outputs, y) -> each example's loss, and 1.0 where the prediction is right.
        name: for tables and figures; the module's class name if left out.

    Example:
        >>> import flax.linen as nn, jax.numpy as jnp, noshow as ns
        >>> model = ns.models.from_flax(nn.Dense(10), jnp.zeros((1, 60)))
        >>> model.name
        'Dense'
    """
    flax = _library("flax", "flax.linen")
    require(
        isinstance(module, flax.linen.Module),
        f"from_flax takes a flax.linen module, not {_described(module)}: "
        "give one such as nn.Dense(10), or use from_nnx",
    )
    called = name or type(module).__name__

    def init(key: Key) -> Params:
        return module.init(key, example)["params"]

    def outputs(params: Params, x: Any) -> Any:
        try:
            return module.apply({"params": params}, x)
        except flax.errors.InvalidRngError:
            raise NoshowError(_draws(called)) from None
        except flax.errors.FlaxError as error:  # its own kind, where other libraries raise what JAX does
            raise TypeError(str(error)) from None

    collections = jax.eval_shape(module.init, jax.random.key(0), example)
    require("params" in collections, _no_parameters(called))
    require(set(collections) == {"params"}, _keeps_state(called))
    jax.eval_shape(outputs, collections["params"], example)
    return Model(init, _measure(outputs, score), called, _label_check(init, outputs, score))


def from_nnx(make: Callable[[Any], Any], *, score: Score = cross_entropy, name: str | None = None) -> Model:
    """A `flax.nnx` module as a model on batches `(x, y)`: `score(module(x), y)`, softmax cross-entropy by default.

    The parameters are the module's `nnx.Param`s. What `from_flax` refuses is refused here too.

    Args:
        make: rngs -> module, such as a module's own class; the module reads a batch x [n, …].
        score: (outputs, y) -> each example's loss, and 1.0 where the prediction is right.
        name: for tables and figures; the module's class name if left out.

    Example:
        >>> from flax import nnx
        >>> import noshow as ns
        >>> model = ns.models.from_nnx(lambda rngs: nnx.Linear(60, 10, rngs=rngs))
        >>> model.name
        'Linear'
    """
    nnx = _library("flax", "flax.nnx").nnx
    module = make(nnx.Rngs(0))
    require(
        isinstance(module, nnx.Module),
        f"from_nnx takes a function from nnx.Rngs to a flax.nnx module, and it returned {_described(module)}: "
        "give one such as lambda rngs: nnx.Linear(60, 10, rngs=rngs)",
    )
    called = name or type(module).__name__
    graph, params, draws, rest = nnx.split(module, nnx.Param, nnx.RngState, ...)
    require(len(jax.tree.leaves(params)) > 0, _no_parameters(called))
    require(len(jax.tree.leaves(draws)) == 0, _draws(called))
    require(len(jax.tree.leaves(rest)) == 0, _keeps_state(called))

    def init(key: Key) -> Params:
        return nnx.state(make(nnx.Rngs(key)), nnx.Param)

    def outputs(params: Params, x: Any) -> Any:
        return nnx.merge(graph, params, draws, rest)(x)

    return Model(init, _measure(outputs, score), called, _label_check(init, outputs, score))


def from_equinox(make: Callable[[Key], Any], *, score: Score = cross_entropy, name: str | None = None) -> Model:
    """An Equinox module as a model on batches `(x, y)`: `score(vmap(module)(x), y)`, softmax cross-entropy by default.

    The parameters are the module's floating-point arrays; the rest of it stays as `make` built it. Modules that keep
    state between calls (batch normalisation) or draw random numbers in them (dropout) are refused, since a client's
    loss must be a function of parameters and data.

    Args:
        make: key -> module; the module reads one example, as is Equinox's way, and returns its logits [classes].
        score: (outputs, y) -> each example's loss, and 1.0 where the prediction is right.
        name: for tables and figures; the module's class name if left out.

    Example:
        >>> import equinox as eqx, noshow as ns
        >>> model = ns.models.from_equinox(lambda key: eqx.nn.Linear(60, 10, key=key))
        >>> model.name
        'Linear'
    """
    eqx = _library("equinox", "equinox")
    module = make(jax.random.key(0))
    require(
        isinstance(module, eqx.Module),
        f"from_equinox takes a function from a key to an Equinox module, and it returned {_described(module)}: "
        "give one such as lambda key: eqx.nn.Linear(60, 10, key=key)",
    )
    called = name or type(module).__name__
    params, rest = eqx.partition(module, eqx.is_inexact_array)
    require(len(jax.tree.leaves(params)) > 0, _no_parameters(called))
    for node in jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, eqx.nn.StateIndex | eqx.nn.Dropout)):
        require(not isinstance(node, eqx.nn.StateIndex), _keeps_state(called))
        require(not isinstance(node, eqx.nn.Dropout) or node.inference or node.p == 0, _draws(called))

    def init(key: Key) -> Params:
        return eqx.filter(make(key), eqx.is_inexact_array)

    def outputs(params: Params, x: Any) -> Any:
        return jax.vmap(eqx.combine(params, rest))(x)

    return Model(init, _measure(outputs, score), called, _label_check(init, outputs, score))


def _measure(outputs: Callable[[Params, Any], Any], score: Score) -> Callable[[Params, Batch], tuple[Array, Array]]:
    def measure(params: Params, batch: Batch) -> tuple[Array, Array]:
        x, y = batch
        found = outputs(params, x)
        require(
            score is not cross_entropy or hasattr(found, "shape"),
            f"the module returns {_described(found)}, not logits: give a `score` that takes it",
        )
        return score(found, y)

    return measure


def _label_check(
    init: Callable[[Key], Params], outputs: Callable[[Params, Any], Any], score: Score
) -> Callable[[Federation], None]:
    """Labels must be classes where the outputs are logits; a score of one's own may take others."""

    def check(federation: Federation) -> None:
        rows = jax.tree.map(lambda leaf: leaf[:1], federation.data)
        try:
            x, _ = jax.eval_shape(federation.read, federation.shared, rows)
            classes = jax.eval_shape(outputs, jax.eval_shape(init, jax.random.key(0)), x).shape[-1]
        except (AttributeError, TypeError, ValueError):
            return  # data or outputs of another kind: told where a run reads its first example
        check_labels(federation, classes)

    return check if score is cross_entropy else lambda federation: None


def _library(extra: str, module: str) -> ModuleType:
    """The top-level package of a library, once `module` of it is imported."""
    try:
        __import__(module)
    except ImportError:
        raise NoshowError(f"{extra} is not installed: pip install 'noshow[{extra}]'") from None
    return __import__(extra)


def _described(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"a {type(thing).__name__}"


def _no_parameters(called: str) -> str:
    return f"the module {called} has no parameters: there is nothing to train"


def _keeps_state(called: str) -> str:
    return f"the module {called} keeps state (as batch normalisation does): use layers without, such as GroupNorm"


def _draws(called: str) -> str:
    return f"the module {called} draws random numbers (dropout): leave that layer out, or switch it off"
