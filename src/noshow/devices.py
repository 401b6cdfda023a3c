"""Which devices a simulation runs on, and how both (or all) CPU cores are kept busy.

A CPU core is one JAX device; clients are shared out over the devices. The same code serves several accelerators, and
the devices of several processes (`noshow.distributed`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from noshow.machine import cores_allowed

AXIS = "clients"
MOST_CPU_DEVICES = 16
CPU_TILE, ACCELERATOR_TILE = 128, 1024


def claim_cores() -> None:
    """Make every CPU core a JAX device, unless JAX has started or the user has chosen a number already."""
    chosen = jax.config.jax_num_cpu_devices != -1 or "device_count" in os.environ.get("XLA_FLAGS", "")  # type: ignore[attr-defined]
    if chosen:
        return
    try:
        jax.config.update("jax_num_cpu_devices", min(cores_allowed(), MOST_CPU_DEVICES))
    except RuntimeError:
        return  # JAX has started with the devices it has: those will do


def keep_compiled() -> None:
    """Keep compiled programs in the user's cache for the next run, unless the user has chosen a place already."""
    from noshow.datasets.folder import cache_dir

    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(cache_dir() / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def mesh_for(jobs: int) -> Mesh:
    """The devices to share this many clients over: all, but no more than there are clients.

    Of several processes each gives as many, one at least: whoever has no device in the mesh could not follow the run.

    Example:
        >>> mesh_for(1).size
        1
    """
    by_process: dict[int, list[jax.Device]] = {}
    for device in jax.devices():
        by_process.setdefault(device.process_index, []).append(device)
    in_turn = [device for turn in zip_longest(*by_process.values()) for device in turn if device is not None]
    chosen = set(in_turn[: max(jobs, len(by_process))])
    return Mesh(np.array([device for device in jax.devices() if device in chosen]), (AXIS,))


def on_cpu() -> bool:
    """Whether simulations run on the CPU."""
    return bool(jax.default_backend() == "cpu")


def rows_per_tile() -> int:
    """Rows that full-batch clients and evaluation read at once: what a CPU's first-level cache holds, more on a GPU."""
    return CPU_TILE if on_cpu() else ACCELERATOR_TILE


def for_each_model(function: Callable[[Any], Any], thetas: Any) -> Any:
    """The function of every model [S, d]. A CPU core is busy with one; an accelerator has room for all at once."""
    return jax.lax.map(function, thetas) if on_cpu() else jax.vmap(function)(thetas)


def everywhere(tree: Any, mesh: Mesh) -> Any:
    """The arrays on every device. CPU devices of one process share one copy of aligned NumPy arrays.

    Several processes each bring the same arrays. Nothing is sent, and nothing compared: `device_put` over all of them
    would send everything once around.
    """
    here = jax.device_put(tree, NamedSharding(mesh.local_mesh, PartitionSpec()))
    if not mesh.is_multi_process:
        return here
    sharding = NamedSharding(mesh, PartitionSpec())

    def seen_by_all(array: jax.Array) -> jax.Array:
        copies = [shard.data for shard in array.addressable_shards]
        return jax.make_array_from_single_device_arrays(array.shape, sharding, copies)

    return jax.tree.map(seen_by_all, here)


def on_each(function: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    """`function` run on every device of the mesh with the same arguments; results are the same everywhere too."""
    same = PartitionSpec()
    return jax.shard_map(function, mesh=mesh, in_specs=same, out_specs=same, check_vma=False)
