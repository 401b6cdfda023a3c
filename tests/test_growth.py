"""What a round costs and needs does not follow the number of clients, nor what an evaluation of some examples does."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import noshow as ns
from noshow.evaluate import exam

FEATURES, CLASSES = 5, 3


def many(clients: int, sizes: np.ndarray | None = None) -> ns.Federation:
    held = np.full(clients, 2) if sizes is None else sizes
    chance = np.random.default_rng(0)
    x = chance.standard_normal((held.sum(), FEATURES), np.float32)
    y = chance.integers(0, CLASSES, held.sum()).astype(np.int32)
    return ns.Federation((x, y), held, (x[:10], y[:10]))


def begun(
    clients: int, algorithm: ns.Algorithm, adversary: ns.Adversary | None = None, **more: object
) -> ns.Simulation:
    settings = {"sampled": 4, "rounds": 6, "evaluate_every": 6, "evaluate_on": 50} | more
    model = ns.models.logistic(FEATURES, CLASSES)
    return ns.Simulation(many(clients), model, algorithm, adversary, **settings)  # type: ignore[arg-type]


def compiled(run: ns.Simulation):  # type: ignore[no-untyped-def]
    return run._program._ensemble._play


# Both clients and both servers of the memoryless rules, each once.
MEMORYLESS = [ns.algorithms.fedavg_variant(0.1, steps=2, beta=10), ns.algorithms.fedprox(0.1, mu=1.0, steps=2)]
MANY, MORE = 2_003, 100_003


@pytest.mark.parametrize(
    "algorithm",
    [MEMORYLESS[0], pytest.param(MEMORYLESS[1], marks=pytest.mark.long)],
    ids=lambda algorithm: algorithm.name,
)
def test_a_round_needs_the_same_for_any_number_of_clients(algorithm: ns.Algorithm) -> None:
    """The compiler's own count of memory and operations, and no array as long as the list of clients."""
    few, lots = (
        compiled(begun(clients, algorithm, ns.adversaries.largest_reply(), epsilon=0.5)) for clients in (MANY, MORE)
    )
    for needed in ("temp_size_in_bytes", "output_size_in_bytes"):
        assert getattr(lots.memory_analysis(), needed) == getattr(few.memory_analysis(), needed)
    assert lots.cost_analysis()["flops"] == pytest.approx(few.cost_analysis()["flops"], rel=1e-3)
    assert made(lots.as_text(), MORE) == []
    assert made(lots.as_text(), 2 * MORE) == []


def made(program: str, length: int) -> list[str]:
    """The instructions of a compiled program that make an array with so many rows; handing one on makes nothing."""
    rows = re.compile(rf"= \w+\[(?:\d+,)*{length}[,\]]")
    handed_on = re.compile(r" (parameter|get-tuple-element|tuple|while|bitcast|conditional|call)\(")
    return [line for line in program.splitlines() if rows.search(line) and not handed_on.search(line)]


def test_rules_that_remember_update_their_table_in_place() -> None:
    """Working memory beside the table itself is less than another half of it; and the look above does see the table."""
    run = begun(MORE, ns.algorithms.mifa(0.1, steps=1), seeds=[0, 1, 2])
    table = 3 * MORE * CLASSES * (FEATURES + 1) * 4
    needs = compiled(run).memory_analysis()
    assert needs.alias_size_in_bytes >= table
    assert run._program.working_bytes < table / 2
    assert made(compiled(run).as_text(), MORE) != []


SUBPROCESS = """
import json, resource, sys
import numpy as np, noshow as ns
from noshow.federation import aligned_empty
clients = int(sys.argv[1])
x, y = aligned_empty((clients, 50), np.float32), aligned_empty((clients,), np.int32)
x[...], y[...] = 1.0, np.arange(clients) % 3
federation = ns.Federation((x, y), np.ones(clients, np.int32), (x[:10], y[:10]))
ns.simulate(federation, ns.models.logistic(50, 3), ns.algorithms.fedavg_variant(0.1, steps=1),
            ns.adversaries.largest_reply(), sampled=4, epsilon=0.5, rounds=200, evaluate_every=50, evaluate_on=100)
print(json.dumps({"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "data": x.nbytes + y.nbytes}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is counted otherwise elsewhere")
@pytest.mark.long
def test_resident_memory_beyond_the_data_does_not_follow_the_clients() -> None:
    """A million clients of 50 numbers each: beside the data, a few numbers a client (its size, weight, place)."""

    def beyond(clients: int) -> int:
        done = subprocess.run(
            [sys.executable, "-c", SUBPROCESS, str(clients)], capture_output=True, text=True, check=True
        )
        seen = json.loads(done.stdout.splitlines()[-1])
        return int(seen["peak"] - seen["data"])

    few, lots = beyond(1_000), beyond(1_000_000)
    assert lots - few < 100 * 1_000_000  # half of what another copy of the data would take


@pytest.mark.parametrize("most", [7, 40, 199])
def test_an_exam_of_fewer_examples_than_clients_follows_their_weights(most: int) -> None:
    """So many examples at most, alike in weight; every client within one example of its share; all rows are its own."""
    sizes = np.random.default_rng(1).integers(1, 60, 200)
    federation = many(200, sizes)
    seen = exam(federation, most)
    assert len(seen.shares) == most
    np.testing.assert_allclose(seen.shares, 1 / most)
    x = np.asarray(federation.data[0])
    client = [
        int(np.searchsorted(np.cumsum(sizes), np.flatnonzero((x == row).all(1))[0], side="right"))
        for row in seen.train[0]
    ]
    counts = np.bincount(client, minlength=200)
    assert np.abs(counts - most * federation.weights).max() < 1 + 1e-6


def test_an_exam_of_more_examples_than_clients_is_what_it_was() -> None:
    """The rows a loop over clients gives: client i's k-th of n at offset + k * held // n."""
    sizes = np.random.default_rng(2).integers(1, 9, 30)
    federation = many(30, sizes)
    seen = exam(federation, 100)
    rows, shares = [], []
    for start, held, weight in zip(federation.offsets, federation.held, federation.weights, strict=True):
        n = min(held, 3)
        rows += [start + k * held // n for k in range(n)]
        shares += [weight / n] * n
    np.testing.assert_array_equal(seen.train[0], federation.data[0][rows])
    np.testing.assert_allclose(seen.shares, shares, rtol=1e-6)


def test_a_small_exam_of_many_clients_is_close_to_the_whole() -> None:
    run = ns.Simulation(
        many(5_000, np.random.default_rng(3).integers(1, 5, 5_000)),
        ns.models.logistic(FEATURES, CLASSES),
        MEMORYLESS[0],
        sampled=4,
        rounds=6,
    )
    while not run.done:
        run.advance()
    whole = run.latest.train_loss
    run._exam = run._program.placed(exam(run._federation, 1_000))
    assert run.evaluate().train_loss == pytest.approx(whole, rel=0.05)
