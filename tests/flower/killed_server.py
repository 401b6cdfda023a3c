"""A server to kill: plays rounds with NumPy clients, some of them silent by a fixed plan, and says each round's end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from conftest import small_federation
from fake_grid import Node, failed
from flwr.app import ArrayRecord, Message
from numpy_clients import FIRST_NODE, enrolled, first_model, flat, live

import noshow as ns
from noshow.flower import Strategy

CLIENTS, ROUNDS = 7, 30
SERVERS = {
    "amplify": ns.servers.amplify(),
    "mifa": ns.servers.remember(ns.aggregators.mean()),
    "bucketing": ns.servers.remember(ns.aggregators.bucketed(2, ns.aggregators.geometric_median())),
}


def flaky(number: int, client: Node) -> Node:
    """Raises in rounds that its number tells, and takes its time in all."""

    def answer(message: Message) -> Message | None:
        if message.metadata.message_type == "train":
            time.sleep(0.004)
            if (message.content["config"]["server-round"] * (number + 1)) % 5 == 0:
                return failed(message, 2, "ValueError")
        return client(message)

    return answer


def main(folder: Path, server: str) -> None:
    federation = small_federation(CLIENTS)
    grid = live(federation)
    grid.nodes = {node: flaky(node - FIRST_NODE, client) for node, client in grid.nodes.items()}
    strategy = Strategy(
        server=SERVERS[server],
        roster=enrolled(folder / "federation.sqlite", federation),
        sampled=4,
        timeout=0.5,
        rate=ns.rates.inverse_sqrt(0.1),
        evaluate_every=5,
        trace=folder / "trace.parquet",
    )

    def say(t: int, arrays: ArrayRecord) -> None:
        print(f"after {t}", flush=True)

    final = strategy.start(grid, first_model(), ROUNDS, evaluate_fn=say).arrays
    (folder / "final.bin").write_bytes(flat(final).tobytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
