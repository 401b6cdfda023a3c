"""Several processes give what one gives, agree on everything, and never wait for one that is gone."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from documented import ROOT, blocks
from joined import FEW

import noshow as ns
from noshow import spec_file
from noshow.cli_flags import join_others
from noshow.display import PlainLines
from noshow.run import run as run_spec
from noshow.store import RunFolder

WORKER = Path(__file__).with_name("joined.py")


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def start(*command: object, **changes: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | changes,
    )


def ended(process: subprocess.Popen[str], within: float = 900) -> tuple[int, str, str]:
    """Its exit code, and what it said."""
    try:
        said, complained = process.communicate(timeout=within)
    finally:
        process.kill()
    return process.returncode, said, complained


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("which", ["few", "all"])
def test_two_processes_of_two_devices_give_the_run_of_a_single_device(which: str, tmp_path: Path) -> None:
    """Three algorithms or all, over 50 rounds: metrics, roll call, model, state. Both processes agree to the bit."""
    files = [tmp_path / f"{name}.npz" for name in ("alone", "first", "second")]
    quick = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # compiling is what takes the time here
    at = free_address()
    processes = [
        start(WORKER, files[0], 1, which, **quick),
        *(start(WORKER, files[1 + k], 2, which, at, 2, k, **quick) for k in range(2)),
    ]
    for process in processes:
        code, _, complained = ended(process)
        assert code == 0, complained
    alone, first, second = (dict(np.load(file).items()) for file in files)
    assert (alone.pop("devices"), first.pop("devices"), second.pop("devices")) == (1, 4, 4)
    exact = {"exact_fedprox", "exact_fedprox_variant"}  # slow to compile, and of the same parts but for the solver
    expected_names = set(FEW) if which == "few" else set(ns.algorithms.__all__) - exact
    assert {name.partition("/")[0] for name in alone} == expected_names
    for name, expected in alone.items():
        assert np.array_equal(first[name], second[name]), name
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(first[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)
        else:
            assert np.array_equal(first[name], expected), name


SPEC = """
like = "synthetic-0.9"
name = "small"
rounds = 20
sampled = 4
evaluate_every = 10

[data]
name = "synthetic"
clients = 12
sizes = 60

[adversary]
name = "shadow"
pairs = [[1, 3]]
candidates = [4, 2]

[[algorithms]]
name = "fedavg"
rate = 0.01
steps = 3

[[algorithms]]
name = "cclip"
rate = 0.01
"""


@pytest.mark.slow
@pytest.mark.long
def test_a_run_by_two_processes_is_written_by_the_first_alone(tmp_path: Path) -> None:
    """What it has finished, and what the adversary prepared, only the first process finds: all go on from there."""
    from rich.console import Console

    source = tmp_path / "small.toml"
    source.write_text(SPEC)
    spec = spec_file.load(str(source))
    folder = RunFolder.of(spec, tmp_path / "run")
    run_spec(spec, folder, PlainLines(Console(quiet=True)))
    expected = folder.load("cclip")
    shutil.rmtree(folder.path / "cclip")
    (folder.path / "figure.png").unlink()
    prepared = (folder.path / "adversary.npz").stat().st_mtime_ns

    at, other = free_address(), tmp_path / "other"
    shared = ["-c", "from noshow.cli import main; main()", "run", source, "--coordinator", at, "--processes", 2]
    quick = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    first = start(*shared, "--process", 0, "--out", folder.path, **quick)
    second = start(*shared, "--process", 1, "--out", other, **quick)
    (code, said, complained), quiet = ended(first), ended(second)
    assert code == 0, complained
    assert quiet == (0, "", "")
    assert not other.exists()
    assert "fedavg: finished before, not run again" in said
    assert "Gloo" not in said
    assert (folder.path / "figure.png").exists()
    assert (folder.path / "adversary.npz").stat().st_mtime_ns == prepared
    got = folder.load("cclip")
    assert np.array_equal(got.roll_call.answered, expected.roll_call.answered)
    np.testing.assert_allclose(got.scores, expected.scores, rtol=1e-5)


@pytest.mark.slow
def test_what_the_page_shows_in_python_runs(tmp_path: Path) -> None:
    """docs/scale.md, in two processes of this machine, with something small to simulate."""
    (shown,) = [block.text for block in blocks(ROOT / "docs" / "scale.md") if block.language == "py"]
    small = (
        "ns.datasets.synthetic(clients=4, sizes=6), ns.models.logistic(60, 10), ns.algorithms.fedavg(0.1, steps=1), "
        "sampled=2, rounds=2"
    )
    program = shown.replace("10.0.0.1:9876", free_address()).replace("…", small)
    places = [tmp_path / name for name in ("first", "second")]
    processes = []
    for number, place in enumerate(places):
        place.mkdir()
        (place / "program.py").write_text(program.replace("process=0", f"process={number}"), "utf-8")
        processes.append(start("-c", f"import os; os.chdir({str(place)!r}); exec(open('program.py').read())"))
    for code, _, complained in map(ended, processes):
        assert (code, complained) == (0, "")
    assert [(place / "run.png").exists() for place in places] == [True, False]


WAITING = """
import sys
import noshow as ns
ns.distributed.SECONDS_TO_JOIN, ns.distributed.SECONDS_OF_SILENCE = 50, 15
ns.distributed.join(sys.argv[1], 2, int(sys.argv[2]))
print("joined", flush=True)
while True:
    ns.distributed.agreed(1)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "how"),
    [
        (0, signal.SIGKILL),
        pytest.param(1, signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(0, signal.SIGINT, marks=pytest.mark.long),
        pytest.param(1, signal.SIGSTOP, marks=pytest.mark.long),
    ],
)
def test_one_that_dies_or_falls_silent_ends_the_other_with_one_sentence(victim: int, how: signal.Signals) -> None:
    at = free_address()
    both = [start("-c", WAITING, at, k) for k in range(2)]
    try:
        for process in both:
            assert process.stdout is not None
            while process.stdout.readline() != "joined\n":
                assert process.poll() is None
        both[victim].send_signal(how)
        begun = time.monotonic()
        code, _, complained = ended(both[1 - victim], within=60)
    finally:
        both[victim].kill()
        both[victim].communicate()
    assert (code, complained.rstrip("\n")) == (2, f"noshow: {ns.distributed.GONE}")
    assert time.monotonic() - begun < 30


ALONE = """
import sys
import noshow as ns
ns.distributed.SECONDS_TO_JOIN = 3
try:
    ns.distributed.join(sys.argv[1], 2, int(sys.argv[2]))
except ns.NoshowError as error:
    print("noshow:", error, file=sys.stderr)
    sys.exit(2)
"""


@pytest.mark.parametrize(
    ("process", "sentence"),
    [(0, "noshow: not all 2 processes joined at {} within 3 seconds"), (1, "noshow: nobody answers at {}: start")],
)
def test_nobody_waits_for_ever_for_one_that_never_joins(process: int, sentence: str) -> None:
    at = free_address()
    code, _, complained = ended(start("-c", ALONE, at, process), within=60)
    assert code == 2
    assert complained.startswith(sentence.format(at))
    assert complained.count("\n") == 1


UNEQUAL = """
import sys
import jax
import numpy as np
import noshow as ns
from noshow import devices
from noshow.federation import aligned
number = int(sys.argv[2])
jax.config.update("jax_num_cpu_devices", 1 + 2 * number)
ns.distributed.join(sys.argv[1], 2, number)
meshes = [devices.mesh_for(jobs) for jobs in (1, 2, 3, 9)]
data = aligned(np.arange(1000, dtype=np.float32))
placed = devices.everywhere({"data": data, "key": jax.random.key(3)}, meshes[-1])
copies = {shard.data.unsafe_buffer_pointer() for shard in placed["data"].addressable_shards}
assert np.array_equal(placed["data"], data)
print([mesh.size for mesh in meshes], [len(mesh.local_devices) for mesh in meshes], len(copies),
      ns.distributed.agreed(5 + number), ns.distributed.anyone(number == 1), ns.distributed.first(), file=sys.stderr)
"""


def test_processes_of_unequal_size() -> None:
    """The first has one device, the second three: each has one in every mesh, one copy of the data, one opinion."""
    at = free_address()
    both = [start("-c", UNEQUAL, at, number) for number in range(2)]
    said = [ended(process) for process in both]
    assert [code for code, _, _ in said] == [0, 0], said
    assert said[0][2] == "[2, 2, 3, 4] [1, 1, 1, 1] 1 5 True True\n"
    assert said[1][2] == "[2, 2, 3, 4] [1, 1, 2, 3] 1 5 True False\n"


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ({"coordinator": "127.0.0.1", "processes": 2, "process": 0}, "give HOST:PORT"),
        ({"coordinator": "127.0.0.1:99999", "processes": 2, "process": 0}, "give HOST:PORT"),
        ({"coordinator": "127.0.0.1:9876", "processes": 2, "process": 2}, "from 0 to 1"),
        ({"coordinator": "127.0.0.1:9876"}, "together"),
        ({"processes": 2, "process": 0}, "together"),
    ],
)
def test_bad_input_is_one_sentence(where: dict[str, object], sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        ns.distributed.join(**where)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "sentence"), [((None, 2, 0), "need --coordinator HOST:PORT"), (("auto", 2, 0), "finds --processes")]
)
def test_flags_that_do_not_fit_are_one_sentence(where: tuple[str | None, int, int], sentence: str) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        join_others(*where)


def test_alone_nothing_is_copied_and_nobody_is_asked(tmp_path: Path) -> None:
    with ns.distributed.mirrored(tmp_path) as place:
        assert place == tmp_path
    assert ns.distributed.first()
    assert ns.distributed.agreed(3) == 3
    assert not ns.distributed.anyone(False)
