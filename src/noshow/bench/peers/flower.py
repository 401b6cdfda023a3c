"""Flower: its FedAvg strategy and its simulation on Ray, a core a client; started once, then timed round by round."""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import time
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from noshow.bench.task import Play, RoundsTask, Turn, flat


@cache
def _trainer(path: str) -> tuple[RoundsTask, Any, Any, Any]:
    """The task, a network and the data, once for each of Ray's workers."""
    from noshow.bench.peers.torch_loop import Worker
    from noshow.bench.peers.torch_networks import tensors

    torch.set_num_threads(1)
    with open(path, "rb") as file:
        task = pickle.load(file)
    return task, Worker(task, half=False), *tensors(task)


def client() -> ClientApp:
    """A client that trains on the rows of the visit it is told."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Any) -> Message:
        told: Any = message.content["config"]
        arrays: Any = message.content["arrays"]
        task, worker, x, y = _trainer(str(told["task"]))
        visit = task.rounds[int(told["round"])][int(told["visit"])]
        theta = [torch.from_numpy(array.copy()) for array in arrays.to_numpy_ndarrays()]
        moved = worker.displacement(theta, x[visit.rows], y[visit.rows], exact=True)
        model = [(p + m).numpy() for p, m in zip(theta, moved, strict=True)]
        metrics = MetricRecord({"num-examples": visit.share})
        return Message(RecordDict({"arrays": ArrayRecord(model), "metrics": metrics}), reply_to=message)

    return app


class Replayed(FedAvg):
    """FedAvg on the task's own cohorts; where shares do not sum to one, the average is as far as their sum goes."""

    def __init__(self, task: RoundsTask, path: str) -> None:
        super().__init__(fraction_evaluate=0.0)
        self._task, self._path, self._theta = task, path, task.start

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Grid) -> list[Message]:
        self._theta = arrays.to_numpy_ndarrays()
        visits = self._task.rounds[server_round - 1]
        nodes = sorted(grid.get_node_ids())[: len(visits)]
        return [
            Message(
                RecordDict(
                    {
                        "arrays": arrays,
                        "config": ConfigRecord({"task": self._path, "round": server_round - 1, "visit": number}),
                    }
                ),
                message_type=MessageType.TRAIN,
                dst_node_id=node,
            )
            for number, node in enumerate(nodes)
        ]

    def aggregate_train(self, server_round: int, replies: Any) -> tuple[Any, Any]:
        arrays, metrics = super().aggregate_train(server_round, list(replies))
        assert arrays is not None  # everybody answers
        visits = self._task.rounds[server_round - 1]
        gain = sum(visit.share for visit in visits)
        averaged = zip(self._theta, arrays.to_numpy_ndarrays(), strict=True)
        return ArrayRecord([np.asarray(p + gain * (mean - p), np.float32) for p, mean in averaged]), metrics


def loop(task: RoundsTask, cores: int) -> Play:
    """The simulation waits in a thread between turns."""
    os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0")
    asked: SimpleQueue[int] = SimpleQueue()
    answered: SimpleQueue[Turn | Exception] = SimpleQueue()
    with tempfile.NamedTemporaryFile("wb", suffix=".pickle", delete=False) as file:
        pickle.dump(task, file)
    nodes = len(task.rounds[0])
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Any) -> None:
        while len(list(grid.get_node_ids())) < nodes:
            time.sleep(0.1)
        while True:
            rounds = asked.get()
            strategy = Replayed(task, file.name)
            begun = time.perf_counter()
            result = strategy.start(grid, ArrayRecord(task.start), num_rounds=rounds)
            seconds = (time.perf_counter() - begun) / rounds
            answered.put(Turn(seconds, flat(result.arrays.to_numpy_ndarrays())))

    def simulate() -> None:
        # "local": a Ray of its own, whatever else runs on the machine.
        ray: Any = {"num_cpus": cores, "address": "local", "include_dashboard": False}
        resources: Any = {"num_cpus": 1, "num_gpus": 0.0}
        try:
            run_simulation(server, client(), nodes, backend_config={"init_args": ray, "client_resources": resources})
        except Exception as error:
            answered.put(error)

    threading.Thread(target=simulate, daemon=True).start()

    def play(rounds: int, exact: bool) -> Turn:
        asked.put(rounds)
        answer = answered.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    return play
