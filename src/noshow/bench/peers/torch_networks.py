"""The networks with PyTorch's own modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from noshow.bench.task import RoundsTask

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class CharLSTM(nn.Module):
    """An embedding, two LSTM layers, a dense layer on the last state. One bias a layer counts, the other stays 0."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=2, batch_first=True)
        self.dense = nn.Linear(hidden, vocabulary)
        for name, p in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(p)
                p.requires_grad_(False)

    def forward(self, codes: Any) -> Any:
        return self.dense(self.lstm(self.embedding(codes))[0][:, -1])


def network(task: RoundsTask) -> Any:
    """The task's network at its start, on the device."""
    net = _made(task).to(DEVICE)
    write(net, task.start)
    return net


def _made(task: RoundsTask) -> Any:
    if task.network == "logistic":
        classes, features = task.start[0].shape
        return nn.Linear(features, classes)
    if task.network == "char_lstm":
        (vocabulary, embedding), (hidden,) = task.start[0].shape, task.start[3].shape
        return CharLSTM(vocabulary, embedding, hidden // 4)
    if task.network == "lenet5":  # pool before ReLU: the same numbers, and faster
        return nn.Sequential(
            *(nn.Conv2d(3, 6, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(6, 16, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(12544, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def trained(net: Any) -> list[Any]:
    """The parameters that move, in the task's order."""
    return [p for p in net.parameters() if p.requires_grad]


def write(net: Any, arrays: list[np.ndarray]) -> None:
    """Give the network these parameters."""
    with torch.no_grad():
        for p, array in zip(trained(net), arrays, strict=True):
            p.copy_(torch.from_numpy(array))


def read(parameters: list[Any]) -> np.ndarray:
    """The parameters as one vector."""
    return np.asarray(torch.cat([p.detach().reshape(-1) for p in parameters]).cpu())


def tensors(task: RoundsTask) -> tuple[Any, Any]:
    """The task's data, on the device."""
    return torch.from_numpy(task.inputs).to(DEVICE), torch.from_numpy(task.labels).to(DEVICE)


def evaluator(task: RoundsTask) -> Callable[[int, Any, list[Any]], None]:
    """Works out loss and accuracy of (rounds played, a network, its parameters), whenever the task asks for it."""
    if task.test is None or task.evaluate_every is None:
        return lambda t, net, theta: None
    every = task.evaluate_every
    x, y = (torch.from_numpy(array).to(DEVICE) for array in task.test)

    @torch.no_grad()
    def evaluate(t: int, net: Any, theta: list[Any]) -> None:
        if t % every:
            return
        torch._foreach_copy_(trained(net), theta)
        loss, right = torch.zeros((), device=DEVICE), torch.zeros((), device=DEVICE)
        for inputs, labels in zip(x.split(1000), y.split(1000), strict=True):
            logits = net(inputs)
            loss += nn.functional.cross_entropy(logits, labels, reduction="sum")
            right += (logits.argmax(1) == labels).sum()
        loss.item(), right.item()

    return evaluate


def settle(exact: bool) -> None:
    """Full precision for the check; tf32 for the clock, as JAX has it by default on such devices."""
    torch.backends.cudnn.allow_tf32 = not exact
    torch.set_float32_matmul_precision("highest" if exact else "high")


def synchronise() -> None:
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
