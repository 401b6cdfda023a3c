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


def run_jobs(job: Job, cost: Array, needed: Array, width: int, devices: int) -> Work:
    """The results of all needed jobs, stacked [J, ...]; zeros for the others.

    Each device takes its share by cost and runs it `width` jobs at a time, vectorised; then the shares are added
    up. A job's numbers do not depend on the device it ran on.
    """
    jobs = cost.shape[0]
    mine = (share_out(cost, needed, devices) == lax.axis_index(AXIS)) & needed
    count = mine.sum()
    # My jobs first, the rest marked `jobs`: a number that reads as the last one and is never written.
    queue = jnp.where(jnp.arange(jobs) < count, jnp.argsort(~mine), jobs)
    queue = jnp.concatenate([queue, jnp.full(-jobs % width, jobs)])
    shapes = jax.eval_shape(job, jnp.zeros((), jnp.int32))
    blank = jax.tree.map(lambda s: jnp.zeros((jobs, *s.shape), s.dtype), shapes)

    def next_block(carry: tuple[Array, Work]) -> tuple[Array, Work]:
        start, done = carry
        if width == 1:
            now = queue[start]
            result = job(now)
        else:
            now = lax.dynamic_slice_in_dim(queue, start, width)
            result = jax.vmap(job)(now)
        return start + width, jax.tree.map(lambda all_, new: all_.at[now].set(new, mode="drop"), done, result)

    start = jnp.zeros((), jnp.int32)
    done = lax.while_loop(lambda carry: carry[0] < count, next_block, (start, blank))[1]
    return lax.psum(done, AXIS) if devices > 1 else done


def share_out(cost: Array, needed: Array, devices: int) -> Array:
    """Which device runs each job [J]: the costliest first, each to the device with the least to do so far."""
    if devices == 1:
        return jnp.zeros(cost.shape, jnp.int32)
    due = jnp.where(needed, cost, 0)
    order = jnp.argsort(-due)

    def give(load: Array, job: Array) -> tuple[Array, Array]:
        device = jnp.argmin(load)
        return load.at[device].add(due[job]), device

    _, chosen = lax.scan(give, jnp.zeros(devices), order)
    return jnp.zeros(cost.shape, jnp.int32).at[order].set(chosen.astype(jnp.int32))
