"""Does bfloat16 bend the loss curve? The Shakespeare LSTM on a GPU in each precision, several seeds of each.

    NOSHOW_DATA=… python benchmarks/precision.py            (writes docs/precision.json)

`shakespeare-0.7` as published, FedAvg's variant at full width (256 units), with fewer steps and smaller batches. Seeds
draw the first model, the sampled clients and the batches; a seed draws the same in every precision. So two gaps can be
compared: between precisions within a seed, and between seeds within float32.
"""

from __future__ import annotations

import argparse
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import jax
import numpy as np

import noshow as ns
from noshow import spec_file
from noshow.commit import commit
from noshow.spec import realise

PRECISIONS = ("float32", "tf32", "bfloat16")


def curves(precision: str, overrides: list[str]) -> tuple[np.ndarray, np.ndarray, float]:
    """Train loss and test accuracy [S, evaluations], and the seconds it took."""
    spec = spec_file.load("shakespeare-0.7", [*overrides, f"precision={precision!r}"], "published")
    parts = realise(spec)
    algorithm = parts.algorithms[spec.labels.index("fedavg_variant")]
    settings = spec.run_settings("fedavg_variant")
    history = ns.simulate(parts.federation, parts.model, algorithm, parts.adversary, **settings)
    return history.scores.train_loss, history.scores.test_accuracy, history.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "precision.json")
    asked = parser.parse_args()
    overrides = [
        f"seeds={list(range(asked.seeds))}",
        f"rounds={asked.rounds}",
        f"steps={asked.steps}",
        f"data.batch_size={asked.batch}",
        f"model.hidden={asked.hidden}",
    ]
    found = {precision: curves(precision, overrides) for precision in PRECISIONS}
    loss, accuracy, _ = found["float32"]
    page: dict[str, object] = {
        "device": jax.devices()[0].device_kind,
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": commit(),
        "sizes": {key: value for key, value in vars(asked).items() if key != "out"},
        "loss between seeds, float32": float(loss[:, 1:].std(0, ddof=1).mean()),
        "accuracy between seeds, float32": float(accuracy[:, 1:].std(0, ddof=1).mean()),
    }
    for precision in PRECISIONS:
        train_loss, test_accuracy, seconds = found[precision]
        page[precision] = {
            "seconds": round(seconds, 1),
            "train loss, mean over seeds": np.round(train_loss.mean(0).astype(float), 4).tolist(),
            "test accuracy, mean over seeds": np.round(test_accuracy.mean(0).astype(float), 4).tolist(),
            "loss off float32, within a seed": float(np.abs(train_loss - loss)[:, 1:].mean()),
            "accuracy off float32, within a seed": float(np.abs(test_accuracy - accuracy)[:, 1:].mean()),
            "loss off float32, largest gap of means": float(np.abs(train_loss.mean(0) - loss.mean(0)).max()),
        }
        print(precision, json.dumps(page[precision]), flush=True)
    asked.out.write_text(json.dumps(page, indent=1) + os.linesep)


if __name__ == "__main__":
    main()
