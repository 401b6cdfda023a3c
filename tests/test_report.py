"""What a report says, against the files it is made of."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from reported import HOSTILE, contents_of, diverging, made, make_hostile, spec_of, with_law_off
from scipy import stats

import noshow as ns
from noshow.report import attendance, page, write_report
from noshow.report.labels import labels_of
from noshow.report.series import MOST_POINTS, Curve, drawn
from noshow.spec import realise
from noshow.store import RunFolder

METRICS = ("train_loss", "test_loss", "test_accuracy")


@pytest.fixture(scope="module")
def lawful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("runs") / "lawful")


@pytest.fixture(scope="module")
def lawless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_law_off(tmp_path_factory.mktemp("runs") / "lawless")


@pytest.fixture(scope="module")
def said(lawful: Path, lawless: Path) -> dict[str, Any]:
    return contents_of(page([lawful, lawless]))


@pytest.fixture
def copy(lawful: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(lawful, tmp_path / "copy"))


def rows_of(run: Path, label: str, file: str = "metrics") -> list[dict[str, Any]]:
    return pq.read_table(run / label / f"{file}.parquet").to_pylist()


def test_curves_are_those_of_the_files(lawful: Path, said: dict[str, Any]) -> None:
    for algorithm in said["runs"][0]["algorithms"]:
        tables = {name: (rows_of(lawful, algorithm["name"]), name) for name in METRICS}
        tables["gradient_norm"] = (rows_of(lawful, algorithm["name"], "diagnostics"), "gradient_norm")
        for metric, (rows, column) in tables.items():
            curve = algorithm["curves"][metric]
            assert curve["rounds"] == sorted({row["round"] for row in rows})
            for k, t in enumerate(curve["rounds"]):
                values = [row[column] for row in rows if row["round"] == t]
                assert len(values) == 3
                assert curve["mean"][k] == pytest.approx(sum(values) / 3, rel=1e-7)
                assert np.float32(curve["low"][k]) == np.float32(min(values))
                assert np.float32(curve["high"][k]) == np.float32(max(values))


def test_histories_in_no_folder_say_what_their_folder_would(lawful: Path, said: dict[str, Any], tmp_path: Path) -> None:
    folder = RunFolder.open(lawful)
    federation = realise(folder.spec).federation
    first, *others = (folder.load(label) for label in folder.finished)
    first.report(tmp_path / "mine.html", *others, federation=federation)
    (mine,), kept = contents_of((tmp_path / "mine.html").read_text("utf-8"))["runs"], said["runs"][0]
    for key in ("algorithms", "differences", "roll_calls", "clients", "seeds", "sampled", "law"):
        assert mine[key] == kept[key], key
    assert (mine["folder"], mine["spec"], mine["adversary"], mine["missing"]) == (None, None, None, [])
    with pytest.raises(ns.NoshowError, match="two histories are called"):
        first.report(tmp_path / "twice.html", first, federation=federation)
    with pytest.raises(ns.NoshowError, match="the federation has 3: give that of the runs"):
        first.report(tmp_path / "other.html", federation=ns.datasets.synthetic(clients=3))
    assert [file.name for file in tmp_path.iterdir()] == ["mine.html"]


def test_final_numbers_have_students_intervals(lawful: Path, said: dict[str, Any]) -> None:
    for algorithm in said["runs"][0]["algorithms"]:
        rows = rows_of(lawful, algorithm["name"])
        end = max(row["round"] for row in rows)
        assert algorithm["rounds"] == end == (20 if algorithm["name"] == "slow" else 40)
        for metric in METRICS:
            values = [row[metric] for row in rows if row["round"] == end]
            low, high = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
            found = algorithm["final"][metric]
            assert found["mean"] == pytest.approx(np.mean(values), rel=1e-7)
            assert (found["low"], found["high"]) == pytest.approx((low, high), rel=1e-6)


def test_differences_are_paired_by_seed(lawful: Path, said: dict[str, Any]) -> None:
    def last(label: str, metric: str) -> list[float]:
        rows = rows_of(lawful, label)
        end = max(row["round"] for row in rows)
        return [row[metric] for seed in (3, 5, 9) for row in rows if (row["seed"], row["round"]) == (seed, end)]

    table = said["runs"][0]["differences"]
    assert {(base, other) for base in table for other in table[base]} == {
        (a, b) for a in ("fedavg", "mifa", "slow") for b in ("fedavg", "mifa", "slow") if a != b
    }
    for base, others in table.items():
        for other, found in others.items():
            for metric in METRICS:
                test = stats.ttest_rel(last(other, metric), last(base, metric))
                interval = test.confidence_interval(0.95)
                less = np.mean(last(other, metric)) - np.mean(last(base, metric))
                assert found[metric]["mean"] == pytest.approx(less, rel=1e-6, abs=1e-9)
                assert found[metric]["low"] == pytest.approx(interval.low, rel=1e-5, abs=1e-8)
                assert found[metric]["high"] == pytest.approx(interval.high, rel=1e-5, abs=1e-8)


def test_one_seed_has_no_interval(said: dict[str, Any]) -> None:
    run = said["runs"][1]
    for algorithm in run["algorithms"]:
        assert all(found["mean"] is not None and found["low"] is None for found in algorithm["final"].values())
    assert run["differences"]["fedavg"]["mifa"]["train_loss"]["low"] is None


def cells_of(call: dict[str, Any], seed: dict[str, Any]) -> np.ndarray:
    """The picture of one seed, [clients, columns], by NumPy's own reading of bits."""
    content = np.frombuffer(gzip.decompress(base64.b64decode(seed["cells"])), np.uint8)
    bits = np.unpackbits(content, bitorder="little").reshape(len(seed["clients"]), -1, 2)
    return (bits[..., 0] + 2 * bits[..., 1])[:, : -(-call["rounds"] // call["together"])]


def test_the_roll_call_is_that_of_the_files(lawful: Path, lawless: Path, said: dict[str, Any]) -> None:
    for path, run in zip((lawful, lawless), said["runs"], strict=True):
        told = {label: call for call in run["roll_calls"] for label in call["algorithms"]}
        assert set(told) == {"fedavg", "mifa", "slow"}
        for label, call in told.items():
            rows = rows_of(path, label, "roll_call")
            for seed in call["seeds"]:
                expected = np.zeros((12, call["rounds"]), int)
                mine = [row for row in rows if row["seed"] == seed["seed"]]
                for row in mine:
                    expected[row["responders"], row["round"]] = 1
                    expected[row["silenced"], row["round"]] = 2
                assert seed["clients"] == list(range(12))
                np.testing.assert_array_equal(cells_of(call, seed), expected)
                assert seed["answered"] == (expected == 1).sum(1).tolist()
                assert seed["silenced"] == (expected == 2).sum(1).tolist()
                assert seed["epsilon_t"] == pytest.approx([row["epsilon_t"] for row in mine], rel=1e-7)
                assert call["law"] is None or max(seed["epsilon_t"]) <= call["law"]


def test_algorithms_that_saw_the_same_roll_call_share_it(said: dict[str, Any]) -> None:
    seeing, blind = (
        [call["algorithms"] for call in run["roll_calls"]] for run in said["runs"]
    )  # one adversary sees replies, the other does not
    assert seeing == [["fedavg"], ["mifa"], ["slow"]]
    assert blind == [["fedavg", "mifa"], ["slow"]]
    assert [call["law"] for run in said["runs"] for call in run["roll_calls"]] == [0.5, 0.5, 0.5, None, None]


def test_labels_are_counted_and_weighed_by_who_was_heard(lawful: Path, said: dict[str, Any]) -> None:
    federation = realise(spec_of()).federation
    clients, call = said["runs"][0]["clients"], said["runs"][0]["roll_calls"][0]
    held = [federation.of_client(i)[1] for i in range(12)]
    assert clients["held"] == [len(y) for y in held]
    for i, y in enumerate(held):
        assert clients["labels"]["counts"][i] == [int(np.sum(y == label)) for label in range(10)]
    seed = call["seeds"][0]
    rows = [row for row in rows_of(lawful, "fedavg", "roll_call") if row["seed"] == seed["seed"]]
    for key, column in (("answered", "responders"), ("silenced", "silenced")):
        heard = np.concatenate([held[i] for row in rows for i in row[column]])  # n_i is all that a client holds
        expected = [np.mean(heard == label) for label in range(10)]
        assert seed["labels"][key] == pytest.approx(expected, abs=1e-6)
    everybody = [np.mean(np.concatenate(held) == label) for label in range(10)]
    assert seed["labels"]["everybody"] == pytest.approx(everybody, abs=1e-6)


def test_many_rounds_share_columns_and_of_many_clients_the_most_silenced_are_shown(
    lawful: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = contents_of(page([lawful]))["runs"][0]["roll_calls"][0]
    monkeypatch.setattr(attendance, "MOST_COLUMNS", 15)
    monkeypatch.setattr(attendance, "MOST_CLIENTS", 5)
    run = contents_of(page([lawful]))["runs"][0]
    few = run["roll_calls"][0]
    assert few["together"] == 3
    assert run["clients"]["count"] == 12
    for before, after in zip(whole["seeds"], few["seeds"], strict=True):
        assert len(after["clients"]) == 5
        hidden = [before["silenced"][i] for i in range(12) if i not in after["clients"]]
        assert min(after["silenced"]) >= max(hidden)
        cells = cells_of(whole, before)
        for row, client in enumerate(after["clients"]):
            expected = [cells[client, start : start + 3].max() for start in range(0, 40, 3)]
            assert cells_of(few, after)[row].tolist() == expected
        assert after["epsilon_t"] == [max(before["epsilon_t"][start : start + 3]) for start in range(0, 40, 3)]


def test_long_curves_are_thinned_to_some_of_their_points() -> None:
    values = np.random.default_rng(0).normal(size=(2, 7001))
    curve = drawn(Curve(np.arange(7001), values))
    assert len(curve["rounds"]) <= MOST_POINTS + 1
    assert (curve["rounds"][0], curve["rounds"][-1]) == (0, 7000)
    assert curve["mean"] == pytest.approx(values.mean(0)[curve["rounds"]].tolist(), rel=1e-7)


def test_labels_that_are_read_from_a_shared_array_and_of_which_there_are_many() -> None:
    """As Shakespeare's: rows are places in a text, 30 letters of which some are rare."""
    rng = np.random.default_rng(1)
    text = rng.choice(30, 5000, p=np.arange(1, 31) / 465).astype(np.int32)
    rows = rng.integers(0, 5000, 400).astype(np.int32)
    federation = ns.Federation(
        rows, np.array([150, 250]), rows[:5], shared=text, read=lambda shared, at: (at[:, None], shared[at])
    )
    found = labels_of(federation)
    assert found is not None
    assert len(found.names) == 10
    assert found.names[-1] == "others"
    for client, mine in enumerate((rows[:150], rows[150:])):
        for name, count in zip(found.names[:-1], found.counts[client, :-1], strict=True):
            assert count == np.sum(text[mine] == int(name))
    assert found.counts.sum(1).tolist() == [150, 250]
    kept = [int(np.sum(text[rows] == int(name))) for name in found.names[:-1]]
    lost = [int(np.sum(text[rows] == letter)) for letter in range(30) if str(letter) not in found.names]
    assert min(kept) >= max(lost)


def test_data_without_labels_have_none() -> None:
    numbers = np.zeros((6, 2), np.float32)
    assert labels_of(ns.Federation(numbers, np.array([2, 4]), numbers)) is None
    targets = (numbers, np.zeros(6, np.float32))
    assert labels_of(ns.Federation(targets, np.array([2, 4]), targets)) is None


def test_an_unfinished_run_shows_what_is_there_and_says_so(copy: Path) -> None:
    shutil.rmtree(copy / "mifa")
    shutil.rmtree(copy / "slow")
    now = {"algorithm": "mifa", "round": 17, "rounds": 40}
    (copy / "progress.json").write_text(json.dumps({"now": now}), "utf-8")
    run = contents_of(page([copy]))["runs"][0]
    assert [algorithm["name"] for algorithm in run["algorithms"]] == ["fedavg"]
    assert run["missing"] == [
        {"name": "mifa", "round": 17, "rounds": 40},
        {"name": "slow", "round": 0, "rounds": 20},
    ]
    assert run["differences"] == {}


def test_a_seed_that_diverged_ends_the_curves_and_has_no_final_number(copy: Path) -> None:
    diverging(copy, "mifa", seed=5, after=20)
    run = contents_of(page([copy]))["runs"][0]
    fedavg, mifa, _ = run["algorithms"]
    assert mifa["diverged"] == [{"seed": 5, "round": 20}]
    assert fedavg["diverged"] == []
    for metric in METRICS:  # an accuracy of a model that is no number is no accuracy
        assert mifa["curves"][metric]["rounds"] == [0, 10]
        assert mifa["final"][metric] == {"mean": None, "low": None, "high": None}
        assert run["differences"]["fedavg"]["mifa"][metric]["mean"] is None
    assert fedavg["curves"]["train_loss"]["rounds"] == [0, 10, 20, 30, 40]


def test_data_that_are_elsewhere_are_done_without(copy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOSHOW_DATA", str(tmp_path / "empty"))
    text = (copy / "spec.toml").read_text("utf-8")
    text = re.sub(r'\[data\].*?\n\n\[model\]\nname = "logistic"\n.*?\n\n', CIFAR, text, flags=re.DOTALL)
    (copy / "spec.toml").write_text(text, "utf-8")
    run = contents_of(page([copy]))["runs"][0]
    assert "cifar10" in run["no_data"].lower()
    assert run["clients"] == {"count": 12}
    assert run["roll_calls"][0]["seeds"][0]["labels"] is None
    assert len(run["algorithms"]) == 3


CIFAR = '[data]\nname = "cifar10"\nclients = 12\n\n[model]\nname = "lenet5"\n\n'


def test_the_bounds_picture_is_shown_if_it_is_one(copy: Path) -> None:
    assert contents_of(page([copy]))["runs"][0]["bounds"] is None
    (copy / "bounds.png").write_bytes(b"<svg onload=alert(1)>")
    assert contents_of(page([copy]))["runs"][0]["bounds"] is None
    picture = b"\x89PNG\r\n\x1a\n rest"
    (copy / "bounds.png").write_bytes(picture)
    kind, _, content = contents_of(page([copy]))["runs"][0]["bounds"].partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(content) == picture


def test_what_comes_from_files_stays_text(copy: Path) -> None:
    make_hostile(copy)
    html = page([copy])
    assert "<img" not in html.replace(re.search(r"<style>.*</style>", html, re.DOTALL)[0], "")  # type: ignore[index]
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script>", html)) == 4
    said = contents_of(html)["runs"][0]
    assert said["description"] == HOSTILE
    assert dict(said["about"])["machine"] == HOSTILE


@pytest.mark.slow
def test_a_report_of_the_papers_size_stays_small(tmp_path: Path) -> None:
    """Nine algorithms with a roll call each, 2000 rounds of 10 of 100 clients, three seeds, every round diagnosed."""
    algorithms = [{"name": "gm", "label": f"gm-{number}", "rate": 0.1} for number in range(9)]
    data = {"name": "synthetic", "clients": 100}
    run = made(tmp_path / "run", rounds=2000, evaluate_every=15, sampled=10, data=data, algorithms=algorithms)
    write_report([run], tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 5_000_000


def test_the_policy_knows_every_program_by_its_hash_and_forbids_the_network(lawful: Path) -> None:
    html = page([lawful])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'"
    assert not {"connect-src", "unsafe-eval"} & set(rules)
    packed = re.search(r'id="plotly">([^<]*)</script>', html)
    assert packed is not None
    plain = re.findall(r'<script(?: type="module")?>(.*?)</script>', html, re.DOTALL)
    programs = [*(text.encode() for text in plain), gzip.decompress(base64.b64decode(packed[1]))]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'" for text in programs}
    assert set(rules["script-src"].split()) == hashes
    assert len(hashes) == 3


def noshow(folder: Path, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", f"{before}from noshow.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"COLUMNS": "120"})


@pytest.mark.long
def test_the_command_reports_a_run_of_the_command(tmp_path: Path) -> None:
    algorithms = [{"name": "fedavg", "rate": 0.01, "steps": 2}]
    spec = spec_of(rounds=4, evaluate_every=2, diagnose=False, algorithms=algorithms)
    (tmp_path / "small.toml").write_text(spec.to_toml(), "utf-8")
    ran = noshow(tmp_path, "run", "small.toml", "--out", "run")
    assert ran.returncode == 0, ran.stderr
    done = noshow(tmp_path, "report", "run", "-o", "new/it.html")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "report: new/it.html\n")
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["it.html"]
    (run,) = contents_of((tmp_path / "new" / "it.html").read_text("utf-8"))["runs"]
    assert (run["title"], run["spec"]) == ("small (written)", (tmp_path / "run" / "spec.toml").read_text("utf-8"))
    (fedavg,) = run["algorithms"]
    losses = [row["train_loss"] for row in rows_of(tmp_path / "run", "fedavg") if row["round"] == 4]
    assert fedavg["final"]["train_loss"]["mean"] == pytest.approx(np.mean(losses), rel=1e-7)
    assert fedavg["curves"]["train_loss"]["rounds"] == [0, 2, 4]


@pytest.mark.parametrize("case", ["no run", "twice", "a folder", "below a file", "damaged"])
def test_nothing_is_left_by_a_report_that_cannot_be_made(case: str, copy: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("mine", "utf-8")
    if case == "damaged":
        (copy / "mifa" / "metrics.parquet").write_bytes(b"PAR1")
    runs = {"no run": [tmp_path], "twice": [copy, copy / ".." / "copy"]}.get(case, [copy])
    out = {"a folder": "taken", "below a file": "file/report.html"}.get(case, "report.html")
    sentence = {
        "no run": "is no run folder: it has no spec.toml",
        "twice": "is given twice: give every run once",
        "a folder": "taken cannot be written",
        "below a file": "report.html cannot be written",
        "damaged": "are damaged",
    }[case]
    there = sorted(tmp_path.rglob("*"))
    with pytest.raises(ns.NoshowError, match=sentence):
        write_report(runs, tmp_path / out)
    assert sorted(tmp_path.rglob("*")) == there


@pytest.mark.parametrize(
    ("before", "sentence"),
    [
        ("", "elsewhere is no run folder: it has no spec.toml"),
        (
            "import sys; sys.modules['plotly'] = None; sys.modules['plotly.offline'] = None; ",
            "a report needs plotly: pip install 'noshow[report]'",
        ),
    ],
)
def test_bad_input_ends_in_one_sentence(before: str, sentence: str, tmp_path: Path) -> None:
    done = noshow(tmp_path, "report", "elsewhere", before=before)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"noshow: {sentence}\n")
    assert not list(tmp_path.iterdir())


def test_noshow_alone_loads_neither_plotly_nor_the_report() -> None:
    code = (
        "import sys, noshow, noshow.cli; print([name for name in sys.modules if 'plotly' in name or '.report' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_runs_of_one_name_are_told_apart(lawful: Path, copy: Path) -> None:
    titles = [run["title"] for run in contents_of(page([lawful, copy]))["runs"]]
    assert titles == [f"small (written) in {lawful}", f"small (written) in {copy}"]
