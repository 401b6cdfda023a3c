"""noshow's strategy on the roster, and with the settings, that the test has prepared in a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

import noshow as ns
from noshow.flower import Roster, Strategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    folder = Path(str(settings["folder"]))
    roster = Roster(folder / "federation.sqlite")
    roster.enrol_file(folder / "clients.csv")
    strategy = Strategy(
        server=getattr(ns.algorithms, str(settings["algorithm"]))(0.1, steps=4).server,
        roster=roster,
        sampled=int(settings["sampled"]),
        timeout=float(settings["timeout"]),
        rate=0.1,
        evaluate_every=0,
        largest_norm=1e6,
        trace=folder / "trace.parquet",
    )
    first = {"bias": np.zeros(3, np.float32), "weights": np.zeros((3, 4), np.float32)}
    model = ArrayRecord({name: Array(values) for name, values in first.items()})
    result = strategy.start(grid, model, int(settings["rounds"]))
    np.savez(folder / "final.npz", **{name: array.numpy() for name, array in result.arrays.items()})
