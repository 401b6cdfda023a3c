"""The flags of commands that compute: on what, with how many cores, in what precision, within what memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Annotated

import jax
import typer

from noshow import distributed
from noshow.devices import MOST_CPU_DEVICES
from noshow.errors import NoshowError, require

Device = Annotated[
    str | None, typer.Option(metavar="cpu|gpu|tpu", help="What to compute on; the fastest there is if left out.")
]
Cores = Annotated[int | None, typer.Option(metavar="N", help="CPU cores to use; all if left out.")]
Products = Annotated[
    str | None,
    typer.Option(
        metavar="float32|tf32|bfloat16",
        help="What products are computed in; what the device does by itself if left out: float32 on a CPU (always), "
        "tf32 on a GPU.",
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(metavar="8GB", help="Start nothing that needs more memory; what is free here if left out."),
]

Coordinator = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT|auto",
        help="Run over several processes: where number 0 is to be found; `auto` on a cluster that JAX knows.",
    ),
]
Processes = Annotated[int | None, typer.Option(metavar="N", help="How many processes, with --coordinator.")]
Process = Annotated[int | None, typer.Option(metavar="K", help="The number of this one of them, from 0.")]

DEVICES = ("cpu", "gpu", "tpu")


def start_on(device: str | None, cores: int | None, join: Callable[[], None] = lambda: None) -> None:
    """Start JAX on the device and the cores that were asked for, and `join` others; it must not have started before."""
    if cores is not None:
        _keep_to(cores)
    if device is not None:
        require(device in DEVICES, f"device is {device!r}: give 'cpu', 'gpu' or 'tpu'")
        # Of accelerators JAX takes what there is by itself; asked for a "gpu", some releases look for every make.
        jax.config.update("jax_platforms", "cpu" if device == "cpu" else "")
    join()
    if device is not None and _device_of_jax() != device:
        raise NoshowError(f"JAX finds no {device} here: leave --device out, or see what `noshow doctor` says about it")


def _device_of_jax() -> str | None:
    try:
        return jax.default_backend()
    except RuntimeError:
        return None


def join_others(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Join the other processes, if there are any."""
    if coordinator is None:
        require(processes is None and process is None, "--processes and --process need --coordinator HOST:PORT as well")
        return
    automatic = coordinator == "auto"
    require(
        not automatic or (processes is None and process is None),
        "--coordinator auto finds --processes and --process by itself: leave them out",
    )
    distributed.hush()
    distributed.join(None if automatic else coordinator, processes, process)


def _keep_to(cores: int) -> None:
    """This process on so many of the cores it may use, each a JAX device."""
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    require(1 <= cores <= len(usable), f"cores is {cores}: give a number from 1 to {len(usable)}, those usable here")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, list(usable)[:cores])
    try:
        jax.config.update("jax_num_cpu_devices", min(cores, MOST_CPU_DEVICES))
    except RuntimeError:
        raise NoshowError("cores cannot be chosen any more: JAX has started already") from None


UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def bytes_of(size: str) -> int:
    """A size as people write it, in bytes.

    Example:
        >>> bytes_of("8GB"), bytes_of("1.5 GiB")
        (8000000000, 1610612736)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*", size, re.IGNORECASE)
    if found is None:
        raise NoshowError(f"memory is {size!r}: give a size such as 8GB or 500MB")
    return int(float(found[1]) * UNITS[found[2].upper()])
