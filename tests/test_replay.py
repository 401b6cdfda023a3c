"""A trace played in the simulator: who it silences, told by hand, and that a recorded run comes back bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import noshow as ns
from noshow import spec_file, trace
from noshow.spec import realise
from noshow.trace import Entry, Trace

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEY = jax.random.key(0)


def entry(t: int, client: str, answered: bool) -> Entry:
    return Entry(t, client, "answered" if answered else "silent", "" if answered else "timeout", 10, NOW)


def silenced_in(adversary: ns.Adversary, federation: ns.Federation, rounds: int) -> list[list[int]]:
    """Whom the adversary silences in each round if everybody is called."""
    adversary.check(federation)
    state = adversary.init(KEY, federation, ns.models.logistic())
    everybody = jnp.arange(federation.clients)

    def silenced(t: int) -> list[int]:
        scene = ns.Scene(jnp.asarray(t), everybody, federation.sizes, federation.weights, jnp.zeros(2))
        return np.flatnonzero(adversary.score(state, KEY, scene) > -np.inf).tolist()

    return [silenced(t) for t in range(rounds)]


@pytest.fixture(scope="module")
def three() -> ns.Federation:
    return ns.datasets.synthetic(clients=3, sizes=10)


# Rounds 5 to 8; nobody is called in 7. The clients, in the order of their names: edge-2, edge-10, edge-30.
LIVE = Trace.of(
    [
        entry(5, "edge-2", False),
        entry(5, "edge-30", True),
        entry(6, "edge-10", False),
        entry(8, "edge-2", True),
        entry(8, "edge-30", False),
    ]
)


def test_who_is_silent_by_hand(three: ns.Federation) -> None:
    """As called, else as last called, else there; from the trace's first round on, and over again after its last."""
    once = [[0], [0, 1], [0, 1], [1, 2]]
    assert silenced_in(ns.adversaries.replay(LIVE), three, rounds=9) == [*once, *once, [0]]


def test_clients_are_given_by_names_that_may_repeat(three: ns.Federation) -> None:
    adversary = ns.adversaries.replay(LIVE, clients=["edge-30", "edge-2", "edge-2"])
    assert silenced_in(adversary, three, rounds=4) == [[1, 2], [1, 2], [1, 2], [0]]


def test_a_larger_trace_gives_its_first_names() -> None:
    two = ns.datasets.synthetic(clients=2, sizes=10)
    assert silenced_in(ns.adversaries.replay(LIVE), two, rounds=4) == [[0], [0, 1], [0, 1], [1]]


def test_a_night_without_anybody_leaves_the_model_as_it_is(three: ns.Federation) -> None:
    night = Trace.of([entry(t, str(client), t == 0) for t in range(3) for client in range(3)])
    history = ns.simulate(
        three,
        ns.models.logistic(),
        ns.algorithms.fedavg(0.1, steps=1),
        ns.adversaries.replay(night),
        sampled=2,
        rounds=3,
        evaluate_every=1,
    )
    loss = history.scores.train_loss[0]
    assert loss[0] > loss[1] == loss[2] == loss[3]


def test_a_run_in_which_not_everybody_was_called_is_replayed(three: ns.Federation) -> None:
    def run(adversary: ns.Adversary) -> ns.History:
        algorithm = ns.algorithms.fedavg(0.1, steps=1)
        return ns.simulate(three, ns.models.logistic(), algorithm, adversary, sampled=1, rounds=2, seeds=(1,))

    first = run(ns.adversaries.random_response(0.5))
    call = first.roll_call
    assert len(set(call.sampled.ravel().tolist())) < 3
    again = run(ns.adversaries.replay(trace.of_history(first, three, seed=1))).roll_call
    assert np.array_equal(call.sampled, again.sampled)
    assert np.array_equal(call.answered, again.answered)


def test_only_sampled_clients_are_silenced() -> None:
    federation = ns.datasets.synthetic(clients=20, sizes=10)
    odd = Trace.of([entry(0, str(client), client % 2 == 0) for client in range(20)])
    history = ns.simulate(
        federation,
        ns.models.logistic(),
        ns.algorithms.fedavg(0.01, steps=1),
        ns.adversaries.replay(odd),
        sampled=5,
        rounds=30,
    )
    call = history.roll_call
    assert np.array_equal(call.answered, call.sampled % 2 == 0)
    assert call.epsilon is None
    np.testing.assert_allclose(call.epsilon_t, (call.sampled % 2).mean(-1))


def test_a_trace_or_its_file(three: ns.Federation, tmp_path: Path) -> None:
    file = tmp_path / "live.parquet"
    trace.write(file, LIVE)
    for source in (LIVE, file, str(file)):
        assert silenced_in(ns.adversaries.replay(source), three, rounds=4) == [[0], [0, 1], [0, 1], [1, 2]]


def test_what_does_not_fit_is_told(three: ns.Federation) -> None:
    with pytest.raises(ns.NoshowError, match=r"clients has 'edge-3', which the trace does not know: did you mean"):
        ns.adversaries.replay(LIVE, clients=["edge-3"])
    with pytest.raises(ns.NoshowError, match=r"clients has 2 names for 3 clients: give one a client"):
        silenced_in(ns.adversaries.replay(LIVE, clients=["edge-2", "edge-30"]), three, 1)
    with pytest.raises(ns.NoshowError, match=r"the trace knows 3 clients, and the federation has 4: give a trace of"):
        silenced_in(ns.adversaries.replay(LIVE), ns.datasets.synthetic(clients=4, sizes=10), 1)
    with pytest.raises(ns.NoshowError, match="the adversary 'replay' acts with the law off: leave epsilon out"):
        ns.simulate(
            three,
            ns.models.logistic(),
            ns.algorithms.fedavg(0.01),
            ns.adversaries.replay(LIVE),
            sampled=2,
            rounds=1,
            epsilon=0.5,
        )


SPEC = """
name = "replayed"
rounds = 4
sampled = 3
[data]
name = "synthetic"
clients = 3
sizes = 10
[model]
name = "logistic"
[adversary]
name = "replay"
trace = "{trace}"
[[algorithms]]
name = "fedavg"
rate = 0.01
steps = 1
"""


def test_a_spec_names_a_trace(tmp_path: Path) -> None:
    trace.write(tmp_path / "live.parquet", LIVE)
    (tmp_path / "spec.toml").write_text(SPEC.format(trace=tmp_path / "live.parquet"), "utf-8")
    spec = spec_file.load(str(tmp_path / "spec.toml"))
    assert spec.adversary == {"name": "replay", "trace": str(tmp_path / "live.parquet"), "after_training": False}
    experiment = realise(spec)
    assert silenced_in(experiment.adversary, experiment.federation, 4) == [[0], [0, 1], [0, 1], [1, 2]]
    named = spec_file.load(str(tmp_path / "spec.toml"), ['adversary.clients=["edge-30", "edge-2", "edge-2"]'])
    assert silenced_in(realise(named).adversary, experiment.federation, 4)[3] == [0]


def test_a_spec_with_a_wrong_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC.format(trace="nowhere.parquet"), "utf-8")
    spec = spec_file.load(str(tmp_path / "spec.toml"))
    with pytest.raises(ns.NoshowError, match=r"there is no trace nowhere\.parquet"):
        realise(spec)
    with pytest.raises(ns.NoshowError, match=r"adversary\.trace is 3: give text in quotes"):
        spec_file.load(str(tmp_path / "spec.toml"), ["adversary.trace=3"])
    trace.write(tmp_path / "live.parquet", LIVE)
    wrong = [f'adversary.trace="{tmp_path / "live.parquet"}"', 'adversary.clients=["edge-2", "edge-30"]']
    with pytest.raises(ns.NoshowError, match="clients has 2 names for 3 clients"):
        realise(spec_file.load(str(tmp_path / "spec.toml"), wrong))


RECORDED_AND_REPLAYED = """
import sys
import jax, numpy as np, noshow as ns
from noshow import trace

assert len(jax.devices()) == int(sys.argv[2])
sizes = [3000, 2500, 50, 70, 80, 3, 40, 60]  # on two devices the first client's batch is split when the second is gone
rng = np.random.default_rng(0)
clients = [(rng.normal(size=(n, 4)).astype(np.float32), rng.integers(0, 3, n).astype(np.int32)) for n in sizes]
federation = ns.Federation.from_clients(clients, test=clients[1])
runs = [
    (ns.algorithms.fedavg(0.1, steps=3), ns.adversaries.largest_reply(), 0.8),
    (ns.algorithms.bucketing_cclip(0.1), ns.adversaries.random_response(0.5), None),
]
for algorithm, adversary, epsilon in runs:
    def run(adversary, epsilon):
        return ns.simulate(federation, ns.models.logistic(features=4, classes=3), algorithm, adversary,
                           sampled=5, rounds=20, epsilon=epsilon, seeds=(7,), evaluate_every=6)
    first = run(adversary, epsilon)
    trace.write(sys.argv[1], trace.of_history(first, federation, seed=7))
    second = run(ns.adversaries.replay(sys.argv[1], after_training=adversary.sees_replies), None)
    assert not first.roll_call.answered.all()
    assert np.array_equal(first.roll_call.sampled, second.roll_call.sampled)
    assert np.array_equal(first.roll_call.answered, second.roll_call.answered)
    for one, other in zip(jax.tree.leaves(first.models), jax.tree.leaves(second.models), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    print(algorithm.name, adversary.name)
"""


@pytest.mark.long
@pytest.mark.parametrize("devices", [2, 1])
def test_a_recorded_run_is_replayed_bit_for_bit(devices: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RECORDED_AND_REPLAYED, str(tmp_path / "run.parquet"), str(devices)],
        env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
