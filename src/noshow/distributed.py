"""One simulation over several processes, on one machine or on many: `join` them before anything else.

Every process runs the same Python, holds the data, and gets the same results. Clients are shared out over the devices
of all; adding up what they did is all that processes say to each other. The first process alone writes files.
"""

from __future__ import annotations

import atexit
import io
import os
import socket
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh

from noshow import devices, lines
from noshow.errors import NoshowError, require

__all__ = ["agreed", "anyone", "first", "join"]

SECONDS_TO_JOIN = 60
SECONDS_OF_SILENCE = 45
"""After so long without a sign of life a process counts as gone; signs come about twice as often."""

SECONDS_AT_THE_END = 24 * 3600
"""So long those that are done wait for the last, which may still draw figures."""

LOOPBACK = "127.0.0.1"
GONE = "another process of this run is gone: see what it said last, and start all of them again"


def join(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> None:
    """Make this process one of several that simulate together. Call it first: it cannot follow a computation.

    On a cluster that JAX knows (SLURM, Open MPI, Kubernetes, Cloud TPU) no arguments are needed. Elsewhere every
    process is given the same coordinator, the same number of processes, and its own number.

    A process that does not join within a minute ends those that wait for it, and one that dies ends the others: in
    seconds, or within a minute where its machine falls silent. Each says so in one sentence and exits with
    code 2. (On a cluster that JAX has found by itself it is JAX that ends them, in its own words.)

    Args:
        coordinator: `"host:port"`, an address of the first process's machine; nothing listens on any other.
        processes: how many there are.
        process: the number of this one, from 0.

    Example:
        >>> import noshow as ns
        >>> ns.distributed.join(coordinator="127.0.0.1:9876", processes=2, process=2)
        Traceback (most recent call last):
        noshow.errors.NoshowError: process is 2 of 2: give each its own number, from 0 to 1
    """
    if coordinator is None and processes is None and process is None:
        _initialize()
    elif coordinator is None or processes is None or process is None:
        raise NoshowError("give coordinator, processes and process together, or none of them on a cluster")
    else:
        require(
            0 <= process < processes,
            f"process is {process} of {processes}: give each its own number, from 0 to {processes - 1}",
        )
        _join_at(coordinator, processes, process)
    agreed(0)  # all start their devices now: their first words to each other must not be half a minute apart


def first() -> bool:
    """Whether this process is the one that writes files and shows progress: the only one, or number 0.

    Example:
        >>> first()
        True
    """
    return _alone() or bool(jax.process_index() == 0)


def agreed(number: int) -> int:
    """The first process's number, in all of them: for what clocks and files decide, which differ between processes.

    Example:
        >>> agreed(7)
        7
    """
    return number if _alone() else int(_total(np.int32(number if first() else 0)))


def anyone(flag: bool) -> bool:
    """Whether the flag is set in any process.

    Example:
        >>> anyone(False), anyone(True)
        (False, True)
    """
    return flag if _alone() else bool(_total(np.int32(flag)) > 0)


@cache
def meet(mesh: Mesh) -> None:
    """Let all devices of the mesh get in touch. CPU devices must do so within 30 seconds of each other: not while one
    process still reads its data, or compiles."""
    if not _alone():
        agreed(0)
        _total(np.int32(0), mesh)


@contextmanager
def together() -> Iterator[None]:
    """Within it processes wait for each other; one that waits for somebody who is gone ends with one sentence."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # JAX raises either, by whether it runs in the foreground
        if "Gloo" in str(error):
            lines.end_with(GONE)
        raise


@contextmanager
def mirrored(folder: Path) -> Iterator[Path]:
    """The folder itself in the first process; in the others a copy of it as it is now, which is dropped at the end.

    So all find the same files, whatever file systems they share, and only the first writes there.

    Example:
        >>> from pathlib import Path
        >>> with mirrored(Path("here")) as place:
        ...     print(place)
        here
    """
    packed = b"" if _alone() else _from_first(_packed(folder) if first() else b"")
    if first():
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="noshow-") as copy:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(copy, filter="data")
        yield Path(copy)


def leave_at_once(code: int) -> None:
    """End this process now, if there are several, so that the others learn of it; they may be waiting for it."""
    if not _alone():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def hush() -> None:
    """Let C's stdout lead nowhere, where every process would greet every other; Python's goes where it went."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    sys.stdout = open(kept, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)  # noqa: SIM115


def _alone() -> bool:
    return not jax.distributed.is_initialized()


def _join_at(coordinator: str, processes: int, process: int) -> None:
    host, _, digits = coordinator.rpartition(":")
    require(
        bool(host) and digits.isdecimal() and 0 < int(digits) < 2**16,
        f"coordinator is {coordinator!r}: give HOST:PORT, such as 127.0.0.1:9876",
    )
    missing = (
        f"not all {processes} processes joined at {coordinator} within {SECONDS_TO_JOIN} seconds: start all of them"
    )
    too_late = threading.Timer(SECONDS_TO_JOIN, partial(lines.end_with, missing))
    too_late.daemon = True
    too_late.start()
    end = _first_end if process == 0 else _other_end
    try:
        service, own = end(host.strip("[]"), int(digits))
        where = {"coordinator_address": service, "coordinator_bind_address": service}
        _initialize(**where, num_processes=processes, process_id=process)
    finally:
        too_late.cancel()
    _joined.set()
    atexit.register(_leave)
    _collect_at(own)


def _first_end(host: str, port: int) -> tuple[str, str]:
    """Where JAX's service is to be, behind the relay of all others' lines, and this process's own address."""
    try:
        listener = lines.listening(host, port)
    except OSError as error:
        raise NoshowError(
            f"process 0 cannot listen at {host}:{port} ({error.strerror or error}): give a free port of this machine"
        ) from None
    with lines.listening(LOOPBACK) as free:
        service = free.getsockname()

    def onward(near: socket.socket) -> socket.socket | None:
        # Others may call before JAX's service is there.
        return lines.dialled(LOOPBACK, service[1], SECONDS_TO_JOIN, greeting=b"") if lines.greeted(near) else None

    lines.relay(listener, onward, _lost, SECONDS_OF_SILENCE)
    return f"{LOOPBACK}:{service[1]}", host


def _other_end(host: str, port: int) -> tuple[str, str]:
    """Where this process finds JAX's service, through its line to the first, and the address the line leaves from."""
    far = lines.dialled(host, port, SECONDS_TO_JOIN - 1)
    if far is None:
        raise NoshowError(f"nobody answers at {host}:{port}: start process 0 there")
    listener = lines.listening(LOOPBACK)
    lines.relay(listener, lambda near: far, _lost, SECONDS_OF_SILENCE)
    return f"{LOOPBACK}:{listener.getsockname()[1]}", far.getsockname()[0]


_joined, _left = threading.Event(), threading.Event()


def _lost(grace: float) -> bool:
    """A line is closed or, where there is no grace, silent: as all are until the last process has joined."""
    if grace == 0.0 and not _joined.is_set():
        return False
    time.sleep(grace)
    if not _left.is_set():
        lines.end_with(GONE)
    return True


def _initialize(**where: Any) -> None:
    jax.config.update("jax_enable_preemption_service", False)  # it would keep SIGTERM to itself
    try:
        jax.distributed.initialize(
            **where,
            initialization_timeout=2 * SECONDS_TO_JOIN,
            heartbeat_timeout_seconds=SECONDS_OF_SILENCE + 5,  # JAX sends twice in this time; noshow speaks first
            shutdown_timeout_seconds=SECONDS_AT_THE_END,
        )
    except ValueError as error:
        raise NoshowError(f"JAX finds no cluster here ({error}): give coordinator, processes and process") from None
    except RuntimeError as error:
        raise NoshowError(f"this process cannot join any more ({error}): join before anything else") from None


def _collect_at(own: str) -> None:
    """Let CPU devices talk to those of other processes from this address, not from what this machine's name means."""
    from jax._src import xla_bridge
    from jax._src.distributed import global_state
    from jax._src.lib import _jax  # type: ignore[attr-defined]
    from jax.extend.backend import register_backend_factory

    def cpu() -> Any:
        return xla_bridge.make_cpu_client(_jax.make_gloo_tcp_collectives(global_state.client, hostname=own))

    register_backend_factory("cpu", cpu, fail_quietly=False)


def _leave() -> None:
    """Wait for the others at the end of the program; one that ends in an error goes at once, and they learn of it."""
    if getattr(sys, "last_value", None) is not None:
        leave_at_once(1)
    jax.distributed.shutdown()
    _left.set()


@cache
def _adding(mesh: Mesh) -> Callable[[Any], Any]:
    return jax.jit(devices.on_each(lambda mine: lax.psum(mine, devices.AXIS), mesh))


def _total(mine: np.ndarray | np.integer[Any], mesh: Mesh | None = None) -> np.ndarray:
    """The sum of what all devices of the mesh bring; one a process if left out."""
    mesh = mesh or devices.mesh_for(1)
    with together():
        return np.asarray(_adding(mesh)(devices.everywhere(mine, mesh)))


def _from_first(content: bytes) -> bytes:
    """The first process's bytes, in all of them."""
    length = agreed(len(content))
    mine = np.zeros(length, np.uint8)
    if first():
        mine[:] = np.frombuffer(content, np.uint8)
    return _total(mine).tobytes()


def _packed(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            archive.add(path, path.relative_to(folder), recursive=False)
    return buffer.getvalue()
