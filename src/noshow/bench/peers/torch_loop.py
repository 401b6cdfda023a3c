"""PyTorch as people write it, and write it well: client after client, or a thread a client."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from queue import SimpleQueue
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from noshow.bench.peers.torch_networks import DEVICE, evaluator, network, read, settle, synchronise, tensors, trained
from noshow.bench.task import Play, RoundsTask, Turn, Visit


class Worker:
    """A network of its own and what trains it; made once, used for client after client."""

    def __init__(self, task: RoundsTask, half: bool) -> None:
        self._task, self._half = task, half
        self.net = network(task)
        self._own = trained(self.net)
        self._optimiser = torch.optim.SGD(self._own, lr=task.rate)

    def displacement(self, theta: list[Any], x: Any, y: Any, exact: bool) -> list[Any]:
        """Where a client's rows lead from theta."""
        task = self._task
        with torch.no_grad():
            torch._foreach_copy_(self._own, theta)
        batches = [(x, y)] if task.batch is None else list(zip(x.split(task.batch), y.split(task.batch), strict=True))
        for _ in range(task.epochs):
            for inputs, labels in batches:
                self._optimiser.zero_grad()
                with torch.autocast(DEVICE, torch.bfloat16) if self._half and not exact else nullcontext():
                    loss = cross_entropy(self.net(inputs), labels)
                loss.backward()
                self._optimiser.step()
        return list(torch._foreach_sub([p.detach() for p in self._own], theta))


def loop(task: RoundsTask, threads: int, half: bool = False) -> Play:
    """Client after client; `threads` are PyTorch's own. `half` runs the network in bf16 autocast when timed."""
    torch.set_num_threads(threads)
    worker, evaluate = Worker(task, half), evaluator(task)
    x, y = tensors(task)

    def play(rounds: int, exact: bool) -> Turn:
        settle(exact)
        theta = [torch.from_numpy(array).to(DEVICE) for array in task.start]
        synchronise()
        begun = time.perf_counter()
        for t, visits in enumerate(task.rounds[:rounds], start=1):
            total = [torch.zeros_like(p) for p in theta]
            for visit in visits:
                own = worker.displacement(theta, x[visit.rows], y[visit.rows], exact)
                torch._foreach_add_(total, own, alpha=visit.share)
            theta = list(torch._foreach_add(theta, total))
            evaluate(t, worker.net, theta)
        synchronise()
        return Turn((time.perf_counter() - begun) / rounds, read(theta))

    return play


def thread_a_client(task: RoundsTask, threads: int) -> Play:
    """`threads` clients at a time, each on one thread."""
    torch.set_num_threads(1)
    free: SimpleQueue[Worker] = SimpleQueue()
    for _ in range(threads):
        free.put(Worker(task, half=False))
    x, y = tensors(task)
    pool = ThreadPoolExecutor(threads)

    def work(theta: list[Any], visit: Visit) -> list[Any]:
        worker = free.get()
        own = worker.displacement(theta, x[visit.rows], y[visit.rows], exact=True)
        free.put(worker)
        return own

    def play(rounds: int, exact: bool) -> Turn:
        theta = [torch.from_numpy(array) for array in task.start]
        begun = time.perf_counter()
        for visits in task.rounds[:rounds]:
            total = [torch.zeros_like(p) for p in theta]
            for visit, own in zip(visits, pool.map(work, [theta] * len(visits), visits), strict=True):
                torch._foreach_add_(total, own, alpha=visit.share)
            theta = list(torch._foreach_add(theta, total))
        return Turn((time.perf_counter() - begun) / rounds, read(theta))

    return play
