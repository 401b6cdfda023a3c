"""PyTorch with all clients of a round at once: `torch.func.vmap` over their models. For accelerators."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from noshow.bench.peers.torch_networks import DEVICE, evaluator, network, settle, synchronise, tensors
from noshow.bench.task import Play, RoundsTask, Turn


def loop(task: RoundsTask) -> Play:
    """Every visit of a round has as many rows: they stack."""
    net, tested, evaluate = network(task), network(task), evaluator(task)
    names = [name for name, _ in net.named_parameters()]
    x, y = tensors(task)
    rows = [
        torch.from_numpy(np.stack([np.asarray(visit.rows) for visit in visits])).to(DEVICE) for visits in task.rounds
    ]
    shares = [torch.tensor([visit.share for visit in visits], device=DEVICE) for visits in task.rounds]

    def loss(own: list[Any], inputs: Any, labels: Any) -> Any:
        return cross_entropy(functional_call(net, dict(zip(names, own, strict=True)), (inputs,)), labels)

    gradients = vmap(grad(loss))

    def play(rounds: int, exact: bool) -> Turn:
        settle(exact)
        theta = [torch.from_numpy(array).to(DEVICE) for array in task.start]
        synchronise()
        begun = time.perf_counter()
        for t, (chosen, share) in enumerate(zip(rows[:rounds], shares, strict=False), start=1):
            own = [p.expand(len(share), *p.shape).clone() for p in theta]
            inputs, labels = x[chosen], y[chosen]
            size = task.batch or inputs.shape[1]
            for _ in range(task.epochs):
                for batch in zip(inputs.split(size, 1), labels.split(size, 1), strict=True):
                    torch._foreach_add_(own, list(gradients(own, *batch)), alpha=-task.rate)
            moved = [torch.tensordot(share, mine - p, 1) for mine, p in zip(own, theta, strict=True)]
            theta = list(torch._foreach_add(theta, moved))
            evaluate(t, tested, theta)
        synchronise()
        flat = torch.cat([p.reshape(-1) for p in theta]).cpu().numpy()
        return Turn((time.perf_counter() - begun) / rounds, flat)

    return play
