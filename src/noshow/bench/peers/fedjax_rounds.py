"""FedJAX: its `for_each_client` and client datasets, with the clients of its own federated averaging."""

from __future__ import annotations

import time
from typing import Any

import jax

if not hasattr(jax, "tree_map"):
    setattr(jax, "tree_map", jax.tree.map)  # noqa: B010 - FedJAX 0.0.17 calls it by the name that later versions of JAX have dropped

import fedjax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms.fed_avg import create_train_for_each_client

from noshow.bench.peers.jax_networks import loss
from noshow.bench.task import Play, RoundsTask, Turn, Visit, flat


def loop(task: RoundsTask) -> Play:
    """FedJAX's jit backend, one client at a time; programs are compiled in the check and the warm-up."""

    def gradient(params: list[Any], batch: Any, key: Any) -> Any:
        return jax.grad(lambda params: loss(task.network, params, batch["x"], batch["y"]))(params)

    train = create_train_for_each_client(gradient, fedjax.optimizers.sgd(task.rate))
    start = [jnp.asarray(array) for array in task.start]
    labels = task.labels.astype(np.int32)
    key = jax.random.PRNGKey(0)

    def batches(visit: Visit) -> Any:
        own = fedjax.ClientDataset({"x": task.inputs[visit.rows], "y": labels[visit.rows]})
        size = task.batch or len(own)
        return own.shuffle_repeat_batch(batch_size=size, num_epochs=task.epochs, skip_shuffle=True)

    def play(rounds: int, exact: bool) -> Turn:
        params: Any = start
        begun = time.perf_counter()
        with jax.default_matmul_precision("highest" if exact else "default"):
            for visits in task.rounds[:rounds]:
                clients = [(number, batches(visit), key) for number, visit in enumerate(visits)]
                total = fedjax.tree_util.tree_zeros_like(params)
                for number, moved in train(params, clients):
                    share = visits[number].share
                    total = fedjax.tree_util.tree_add(total, fedjax.tree_util.tree_weight(moved, share))
                params = jax.tree.map(lambda p, back: p - back, params, total)
            jax.block_until_ready(params)
        return Turn((time.perf_counter() - begun) / rounds, flat(params))

    return play
