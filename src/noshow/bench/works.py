"""The works: what is played, by whom, and how much of it makes a turn."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from noshow import datasets, models
from noshow.bench.contest import Contestant, Work
from noshow.bench.ours import Experiment, begin_points, begin_rounds, begin_run, written_out
from noshow.bench.own_process import in_own_process
from noshow.bench.small_cnn import small_cnn
from noshow.bench.task import PointsTask, RoundsTask
from noshow.devices import on_cpu
from noshow.errors import NoshowError
from noshow.federation import Batches, Federation
from noshow.machine import cores_allowed

LONG_RUN = 100_000
"""Rounds of a run in which compiling counts for nothing: nobody's compiling is timed."""

TORCH = "torch==2.13.0"


def synthetic_round(rounds: int = 40) -> list[Work]:
    """(a) Synthetic(1,1), the FedAvg variant: 10 clients, 25 full-batch steps each."""
    federation, model = datasets.synthetic(1, 1), models.logistic()
    experiment = Experiment(federation, model, "logistic", 10, 25, 0.01, rounds, amplified=True, run_rounds=LONG_RUN)
    title = "Synthetic(1,1), FedAvg variant: 10 clients x 25 full-batch steps"
    work = rounds_work("a", title, experiment, check_rounds=rounds)
    by_hand = in_own_process("noshow.bench.peers.numpy_loop:loop", written_out(experiment))
    return [work._replace(peers=[Contestant("NumPy, by hand", by_hand), *work.peers])]


def cifar10_round() -> list[Work]:
    """(b) The paper's CIFAR-10 round: 10 clients, 25 steps of LeNet-5 on one batch of 100 each."""
    federation, images = cifar10("dirichlet", clients=100, batches="round", batch_size=100)
    experiment = Experiment(federation, models.lenet5(), "lenet5", 10, 25, 0.05, rounds=2 if on_cpu() else 50)
    # 25 steps through ReLUs and maxima magnify rounding: PyTorch in double precision is as far from itself in single.
    return [rounds_work("b", f"CIFAR-10 ({images}), LeNet-5: 10 clients x 25 steps x 100", experiment, tolerance=1e-2)]


def shakespeare_step() -> list[Work]:
    """(c) A step of the Shakespeare LSTM: clients x batch x 80 characters, a fraction of it on a CPU."""
    clients, batch, characters, vocabulary = (4, 50, 80, 80) if on_cpu() else (20, 500, 80, 80)
    rng = np.random.default_rng(0)

    def texts(count: int) -> tuple[np.ndarray, np.ndarray]:
        codes = rng.integers(0, vocabulary, (count, characters + 1), np.int32)
        return codes[:, :-1], codes[:, -1]

    held = np.full(clients, batch)
    federation = Federation(texts(clients * batch), held, texts(1), "round", batch)
    experiment = Experiment(federation, models.char_lstm(vocabulary), "char_lstm", clients, 1, 1.0, rounds=3)
    title = f"Shakespeare's LSTM, one step: {clients} clients x {batch} x {characters} characters"
    work = rounds_work("c", title, experiment, check_rounds=3)
    if on_cpu():
        return [work]
    narrow = Contestant("noshow, bfloat16", partial(begin_rounds, experiment._replace(precision="bfloat16")))
    return [work, work._replace(title=f"{title}, noshow in bfloat16", own=narrow)]


def pfl_round() -> list[Work]:
    """(d) pfl-research's published CIFAR-10 set-up: 50 of 1000 clients, 50 images each in batches of 10, rate 0.1."""
    federation, images = cifar10("iid", clients=1000, batches="step", batch_size=10)
    rounds = 1 if on_cpu() else 20
    experiment = Experiment(federation, small_cnn(), "small_cnn", 50, 5, 0.1, rounds)
    title = f"pfl-research's CIFAR-10 ({images}), small CNN: 50 clients x 5 steps x 10"
    rounds_alone = rounds_work("d", title, experiment, tolerance=1e-2, whole=1500)
    if on_cpu():
        return [rounds_alone]
    run = experiment._replace(rounds=1500, evaluate_every=10)
    all_of_it = rounds_work("d", f"{title}, all of it: an evaluation every 10 rounds", run, tolerance=1e-2, whole=1500)
    own = Contestant("noshow, compiling included", partial(begin_run, run))
    _, all_clients_at_once = all_of_it.peers  # client after client it would take a quarter of an hour
    return [rounds_alone, all_of_it._replace(own=own, peers=[all_clients_at_once], repeats=1)]


def robust_rules(shapes: tuple[tuple[int, int], ...] = ((64, 65536), (100, 62006))) -> list[Work]:
    """(e) Geometric median (8 iterations) and centred clipping (10) of 64 and 100 points."""
    works = []
    for m, d in shapes:
        points = np.random.default_rng(0).normal(size=(m, d)).astype(np.float32)
        points *= 10 / np.linalg.norm(points, axis=1, keepdims=True)  # of one length: see `peers.byzantine.byzpy`
        median = PointsTask("geometric_median", points, iterations=8)
        works.append(points_work(f"Geometric median, 8 iterations: {m} x {d:,}", median))
        clip = PointsTask("centered_clip", points, iterations=10, radius=5.0)
        works.append(points_work(f"Centred clipping, 10 iterations: {m} x {d:,}", clip))
    return works


WORKS: dict[str, Callable[[], list[Work]]] = {
    "a": synthetic_round,
    "b": cifar10_round,
    "c": shakespeare_step,
    "d": pfl_round,
    "e": robust_rules,
}


def rounds_work(
    letter: str,
    title: str,
    experiment: Experiment,
    check_rounds: int = 1,
    tolerance: float = 1e-3,
    whole: int | None = None,
) -> Work:
    """noshow's experiment and its peers on the same rounds, written out."""
    task = written_out(experiment)
    own = Contestant("noshow", partial(begin_rounds, experiment))
    peers = on_cores(task) if on_cpu() else on_a_gpu(task)
    return Work(
        letter, title, "round", task.start_vector, own, peers, experiment.rounds, check_rounds, tolerance, whole
    )


def on_cores(task: RoundsTask) -> list[Contestant]:
    """Everybody, on all cores; PyTorch's plain loop in each of its thread settings."""
    cores = cores_allowed()
    settings = sorted({1, cores})
    loops = [
        Contestant(
            f"PyTorch, client after client, {threads} thread{'s' * (threads > 1)}",
            in_own_process("noshow.bench.peers.torch_loop:loop", task, threads),
            ("torch",),
            TORCH,
        )
        for threads in settings
    ]
    # One CPU device with all cores is how FedJAX finds JAX; noshow would have claimed one a core.
    one_device = {"XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    return [
        *loops,
        Contestant(
            "PyTorch, a thread a client",
            in_own_process("noshow.bench.peers.torch_loop:thread_a_client", task, cores),
            ("torch",),
            TORCH,
        ),
        Contestant(
            "pfl-research",
            in_own_process("noshow.bench.peers.pfl_research:loop", task, cores),
            ("pfl", "torch"),
            f"pfl==0.6.0 {TORCH}",
        ),
        Contestant(
            "Flower, Ray simulation",
            in_own_process("noshow.bench.peers.flower:loop", task, cores),
            ("flwr", "ray", "torch"),
            f"'flwr[simulation]==1.41.0' ray==2.55.1 {TORCH}",
        ),
        Contestant(
            "FedJAX",
            in_own_process("noshow.bench.peers.fedjax_rounds:loop", task, environment=one_device),
            ("fedjax",),
            "fedjax==0.0.17",
        ),
    ]


def on_a_gpu(task: RoundsTask) -> list[Contestant]:
    """PyTorch on CUDA: client after client in tf32, the LSTM also in bf16, and all clients at once where vmap can."""
    ways: list[tuple[str, str, tuple[Any, ...]]] = [("client after client, tf32", "torch_loop:loop", (1,))]
    if task.network == "char_lstm":
        ways.append(("client after client, bf16 autocast", "torch_loop:loop", (1, True)))
    else:
        ways.append(("vmap over clients, tf32", "torch_vmap:loop", ()))
    return [
        Contestant(
            f"PyTorch, {name}", in_own_process(f"noshow.bench.peers.{function}", task, *settings), ("torch",), TORCH
        )
        for name, function, settings in ways
    ]


def points_work(title: str, task: PointsTask) -> Work:
    """noshow's rule and its peers on the same points."""
    threads = os.cpu_count() or 1
    peers = [
        Contestant(
            name,
            in_own_process(f"noshow.bench.peers.byzantine:{function}", task, threads),
            (function, "torch"),
            f"--no-deps {install} {TORCH}",
        )
        for name, function, install in (("ByzFL", "byzfl", "byzfl==0.0.11"), ("ByzPy", "byzpy", "byzpy==0.1.4"))
    ]
    own = Contestant("noshow", partial(begin_points, task))
    return Work("e", title, "call", task.start_vector, own, peers, rounds=5)


def cifar10(partition: Literal["dirichlet", "iid"], clients: int, batches: Batches, batch_size: int) -> Any:
    """CIFAR-10 as a federation, and a word on its images: random ones where the data set is not at hand."""
    try:
        return datasets.cifar10(partition, clients=clients, batches=batches, batch_size=batch_size), "real images"
    except NoshowError:
        held = np.full(clients, 50000 // clients)
        made = Federation(_noise(50000), held, _noise(100), batches, batch_size, read=_normalised)
        return made, "random images"


def _noise(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, 32, 32, 3), np.uint8), rng.integers(0, 10, count, np.int32)


def _normalised(shared: None, rows: tuple[Any, Any]) -> tuple[jax.Array, Any]:
    images, labels = rows
    return (images.astype(jnp.float32) - 127.5) / 64.0, labels
