"""The clients' work: who needs to train does, on whichever device is free.

A *job* is one sampled client of one seed. Jobs that nobody needs (silenced before they train) are never run.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from noshow.contracts import Array, Work
from noshow.devices import AXIS

Job = Callable[[Array], Work]
"""The number of a job -> what its client has at the end."""

WORTH_SHARING = 1024
"""Examples by which a client must exceed a device's fair share before all devices work on it together: adding up
their gradients costs as much as a few hundred examples in every step (measured on two CPU cores)."""


def run_jobs(job: Job, shared: Job | None, cost: Array, needed: Array, width: int, devices: int) -> Work:
    """The results of all needed jobs, stacked [J, ...]; zeros for the others.

    Where sizes follow a power law, one client can outweigh all others; all devices run such a job together, through
    `shared` (if there is one), which splits its data. The other jobs are shared out by cost, and each device runs
    its own, `width` at a time, vectorised.
    """
    me = lax.axis_index(AXIS)
    shapes = jax.eval_shape(job, jnp.zeros((), jnp.int32))
    blank = jax.tree.map(lambda s: jnp.zeros((cost.shape[0], *s.shape), s.dtype), shapes)
    if devices == 1:
        return run_queue(job, needed, width, blank)
    if shared is None:
        mine = needed & (share_out(cost, needed, devices) == me)
        return lax.psum(run_queue(job, mine, width, blank), AXIS)
    together = needed & (outweighing(cost, needed, devices))
    alone = needed & ~together
    mine = alone & (share_out(cost, alone, devices) == me)
    done = lax.psum(run_queue(job, mine, width, blank), AXIS)
    return run_queue(shared, together, 1, done)


def run_queue(job: Job, chosen: Array, width: int, done: Work) -> Work:
    """Run the chosen jobs, `width` at a time, and write their results into `done`."""
    jobs, count = chosen.shape[0], chosen.sum()
    # The chosen first, the rest marked `jobs`: a number that reads as the last job and is never written.
    queue = jnp.where(jnp.arange(jobs) < count, jnp.argsort(~chosen), jobs)
    queue = jnp.concatenate([queue, jnp.full(-jobs % width, jobs)])

    def next_block(carry: tuple[Array, Work]) -> tuple[Array, Work]:
        start, done = carry
        if width == 1:
            now = queue[start]
            result = job(now)
        else:
            now = lax.dynamic_slice_in_dim(queue, start, width)
            # Behind a barrier: a GPU would else work out a result's last operations while it writes the rows, with
            # a few of its threads.
            result = lax.optimization_barrier(jax.vmap(job)(now))
        return start + width, jax.tree.map(lambda all_, new: all_.at[now].set(new, mode="drop"), done, result)

    return lax.while_loop(lambda carry: carry[0] < count, next_block, (jnp.zeros((), jnp.int32), done))[1]


def outweighing(cost: Array, needed: Array, devices: int) -> Array:
    """Which jobs are so much larger than a device's fair share that no sharing out could balance them."""
    fair = jnp.where(needed, cost, 0).sum() / devices
    return cost > fair + WORTH_SHARING


def share_out(cost: Array, needed: Array, devices: int) -> Array:
    """Which device runs each job [J]: the costliest first, each to the device with the least to do so far."""
    due = jnp.where(needed, cost, 0)
    order = jnp.argsort(-due)

    def give(load: Array, job: Array) -> tuple[Array, Array]:
        device = jnp.argmin(load)
        return load.at[device].add(due[job]), device

    _, chosen = lax.scan(give, jnp.zeros(devices), order)
    return jnp.zeros(cost.shape, jnp.int32).at[order].set(chosen.astype(jnp.int32))
