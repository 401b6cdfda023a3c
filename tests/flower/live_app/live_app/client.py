"""A client in NumPy that fails as the plan in its folder says: {client: {round: fault}}."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from plain_logistic import descend

app = ClientApp()
STEPS = 4


def name(context: Context) -> str:
    return f"client-{context.node_config['partition-id']:02}"


def data(context: Context) -> tuple[np.ndarray, np.ndarray]:
    with np.load(Path(str(context.run_config["folder"])) / f"{name(context)}.npz") as arrays:
        return arrays["x"].astype(np.float64), arrays["y"]


def fault(context: Context, t: int) -> str:
    plan = json.loads((Path(str(context.run_config["folder"])) / "plan.json").read_text())
    return plan.get(name(context), {}).get(str(t), "")


@app.query("roster")
def introduce(message: Message, context: Context) -> Message:
    about = ConfigRecord({"client": name(context), "num-examples": len(data(context)[1])})
    return Message(RecordDict({"about": about}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    config = message.content["config"]
    x, y = data(context)
    theta = {key: array.numpy().astype(np.float64) for key, array in message.content["arrays"].items()}
    model = {key: v.astype(np.float32) for key, v in descend(theta, x, y, config["rate"], STEPS).items()}
    match fault(context, config["server-round"]):
        case "raise":
            raise ValueError("no data today")
        case "crash":
            os._exit(3)
        case "late":
            time.sleep(float(context.run_config["timeout"]) + 1.0)
        case "nan":
            model["bias"][0] = np.nan
        case "infinity":
            model["bias"][0] = np.inf
        case "shape":
            model["weights"] = model["weights"].T
        case "names":
            model["offset"] = model.pop("bias")
        case "norm":
            model["bias"] += 1e12
    record = ArrayRecord({key: Array(np.ascontiguousarray(values)) for key, values in model.items()})
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)
