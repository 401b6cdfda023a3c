"""pfl-research: its FederatedAveraging on its simulated backend, on the task's own cohorts."""

from __future__ import annotations

import itertools
import time
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch.nn.functional import cross_entropy

from noshow.bench.peers.torch_networks import network, read, settle, synchronise, tensors, trained, write
from noshow.bench.task import Play, RoundsTask, Turn


class WithLoss(torch.nn.Module):
    """The network with the two functions that pfl asks for."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def loss(self, x: Any, y: Any) -> Any:
        return cross_entropy(self.net(x), y)

    def metrics(self, x: Any, y: Any) -> dict[str, Any]:
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


def loop(task: RoundsTask, threads: int) -> Play:
    """pfl's rounds. It averages by examples; the server's rate makes up for shares that do not sum to one."""
    torch.set_num_threads(threads)
    x, y = tensors(task)
    wrapped = WithLoss(network(task))
    cohort = len(task.rounds[0])
    gains = [sum(visit.share for visit in visits) for visits in task.rounds]

    def of_visit(number: int) -> Any:
        visit = task.rounds[number // cohort][number % cohort]
        return PyTorchTensorDataset([x[visit.rows], y[visit.rows]], user_id=str(number))

    def play(rounds: int, exact: bool) -> Turn:
        settle(exact)
        write(wrapped.net, task.start)
        server = torch.optim.SGD(trained(wrapped), lr=1.0)
        later = torch.optim.lr_scheduler.LambdaLR(server, lambda t: gains[min(t, len(gains) - 1)])
        model = PyTorchModel(wrapped, torch.optim.SGD, server, later)
        users = FederatedDataset(of_visit, itertools.count().__next__)
        backend = SimulatedBackend(users, users, postprocessors=[WeightByDatapoints()])
        algorithm = NNAlgorithmParams(
            central_num_iterations=rounds + 1,
            evaluation_frequency=rounds + 2,
            train_cohort_size=cohort,
            val_cohort_size=0,
        )
        training = NNTrainHyperParams(
            local_num_epochs=task.epochs, local_learning_rate=task.rate, local_batch_size=task.batch
        )
        averaging = FederatedAveraging()
        averaging._current_central_iteration = 1  # at 0 it would evaluate, and evaluation is not timed
        synchronise()
        begun = time.perf_counter()
        averaging.run(algorithm, backend, model, training, send_metrics_to_platform=False)
        synchronise()
        return Turn((time.perf_counter() - begun) / rounds, read(trained(wrapped)))

    return play
