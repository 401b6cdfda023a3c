"""The networks in plain JAX, as a FedJAX user would write them: the library's convolution, a scan for the LSTM."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from noshow.bench.task import Network


def loss(network: Network, params: list[Any], x: Any, y: Any) -> Any:
    """The mean loss of a batch; parameters and images in PyTorch's layout."""
    logits = {"logistic": _logistic, "char_lstm": _char_lstm, "lenet5": _lenet5, "small_cnn": _small_cnn}[network]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), y[:, None], axis=1).mean()


def _dense(x: Any, weights: Any, bias: Any) -> Any:
    return x @ weights.T + bias


def _convolved(x: Any, weights: Any, bias: Any) -> Any:
    made = lax.conv_general_dilated(x, weights, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return made + bias[:, None, None]


def _pooled(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def _logistic(params: list[Any], x: Any) -> Any:
    return _dense(x, *params)


def _lenet5(params: list[Any], x: Any) -> Any:
    for layer in (0, 2):
        x = jax.nn.relu(_pooled(_convolved(x, *params[layer : layer + 2])))
    x = x.reshape(len(x), -1)
    for layer in (4, 6):
        x = jax.nn.relu(_dense(x, *params[layer : layer + 2]))
    return _dense(x, *params[8:])


def _small_cnn(params: list[Any], x: Any) -> Any:
    x = jax.nn.relu(_convolved(x, *params[0:2]))
    x = jax.nn.relu(_pooled(_convolved(x, *params[2:4])))
    x = jax.nn.relu(_dense(x.reshape(len(x), -1), *params[4:6]))
    return _dense(x, *params[6:])


def _char_lstm(params: list[Any], codes: Any) -> Any:
    states = params[0][codes.T]
    for layer in (1, 4):
        states = _layer(states, *params[layer : layer + 3])
    return _dense(states[-1], *params[7:])


def _layer(inputs: Any, into: Any, recurrent: Any, bias: Any) -> Any:
    def step(state: tuple[Any, Any], now: Any) -> tuple[tuple[Any, Any], Any]:
        hidden, cell = state
        i, f, g, o = jnp.split(now + hidden @ recurrent.T, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    nothing = jnp.zeros((inputs.shape[1], recurrent.shape[1]))
    return lax.scan(step, (nothing, nothing), inputs @ into.T + bias)[1]
