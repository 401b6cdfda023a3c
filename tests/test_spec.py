"""Specs: read, changed, validated, resolved."""

from __future__ import annotations

from pathlib import Path

import pytest

import noshow as ns
from noshow.spec import realise, validate
from noshow.spec_file import load, preset_names

SMALL = """
name = "small"
rounds = 3
sampled = 4
epsilon = 0.5

[data]
name = "synthetic"
clients = 8
sizes = 20

[model]
name = "logistic"

[adversary]
name = "largest_reply"

[[algorithms]]
name = "fedavg"
rate = { name = "inverse_sqrt", initial = 0.1 }
steps = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, "utf-8")
    return path


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_valid_and_survive_a_round_trip(name: str, tmp_path: Path) -> None:
    spec = load(name)
    assert len(spec.algorithms) >= 2
    again = tmp_path / "again.toml"
    again.write_text(spec.to_toml(), "utf-8")
    assert load(str(again)) == spec
    assert load(str(again)).digest == spec.digest


def test_what_the_paper_says_is_what_synthetic_runs() -> None:
    spec = load("synthetic-0.9")
    by_name = {table["name"]: table for table in spec.algorithms}
    assert (spec.rounds, spec.sampled, spec.epsilon, spec.evaluate_every) == (2000, 10, 0.9, 15)
    assert all(by_name[name]["rate"] == 0.01 for name in by_name)
    assert all(by_name[name]["steps"] == 25 for name in ("fedavg", "fedavg_variant", "mifa"))
    assert all((by_name[name]["steps"], by_name[name]["mu"]) == (10, 1.0) for name in ("fedprox", "fedprox_variant"))
    assert spec.adversary["pairs"] == [[5, 150]]
    assert spec.adversary["candidates"] == [25, 10]
    assert load("synthetic-0.7").epsilon == 0.7
    assert (load("synthetic-long").epsilon, load("synthetic-long").rounds) == (0.7, 4000)


def test_the_published_setting() -> None:
    spec = load("synthetic-0.9", setting="published")
    assert spec.setting == "published"
    assert spec.adversary["candidates"] == "all"
    assert {table["damping"] for table in spec.algorithms if "damping" in table} == {1.0}
    assert spec.digest != load("synthetic-0.9").digest


def test_assignments() -> None:
    spec = load(
        "synthetic-0.9",
        ["rounds=60", "beta=5", "seeds=[0,1]", "data.beta=0.5", "algorithms.mifa.rate=0.5", "adversary.order=score"],
    )
    assert (spec.rounds, spec.seeds, spec.data["beta"], spec.adversary["order"]) == (60, [0, 1], 0.5, "score")
    betas = {table["name"]: table.get("beta") for table in spec.algorithms}
    assert betas["fedavg_variant"] == betas["fedprox_variant"] == 5
    assert betas["fedavg"] is None
    assert next(table["rate"] for table in spec.algorithms if table["name"] == "mifa") == 0.5


def test_another_part_by_name_leaves_the_settings_of_the_one_before_behind() -> None:
    spec = load("cifar10-0.8", ["adversary.name=anybody", "algorithms=['fedprox']"], setting="published")
    assert spec.adversary == {"name": "anybody"}
    first_the_setting = ["model.hidden=8", "model.name=char_lstm"]
    model = load("cifar10-0.8", first_the_setting).model
    assert (model["name"], model["hidden"], "start" in model) == ("char_lstm", 8, False)
    assert load("cifar10-0.8", ["adversary.name=shadow"]).adversary == load("cifar10-0.8").adversary


def test_a_file_can_be_like_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'like = "synthetic-0.9"\nname = "mine"\n[data]\nclients = 40\n[adversary]\nname = "nobody"\n', "utf-8"
    )
    spec = load(str(path))
    assert (spec.name, spec.data["clients"], spec.data["alpha"], spec.adversary) == (
        "mine",
        40,
        1.0,
        {"name": "nobody"},
    )


def test_realise_builds_the_parts(file: Path) -> None:
    experiment = realise(load(str(file), ["data.batches=step", "data.batch_size=5"]))
    assert experiment.federation.clients == 8
    assert (experiment.federation.batches, experiment.federation.batch_size) == ("step", 5)
    assert experiment.algorithms[0].rate(3) == 0.05
    assert experiment.adversary.name == "largest_reply"


def test_two_settings_of_one_algorithm_need_labels(file: Path) -> None:
    twice = SMALL + '[[algorithms]]\nname = "fedavg"\nrate = 0.1\n'
    file.write_text(twice, "utf-8")
    with pytest.raises(ns.NoshowError, match="two algorithms are called 'fedavg'"):
        load(str(file))
    file.write_text(twice + 'label = "fedavg-constant"\n', "utf-8")
    spec = load(str(file))
    assert spec.labels == ["fedavg", "fedavg-constant"]
    assert [algorithm.name for algorithm in realise(spec).algorithms] == spec.labels


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("epsilon=1.0", "epsilon is 1.0: give a number from 0 up to, but not including, 1"),
        ("epsilon=high", "epsilon is 'high': give a number"),
        ("rounds=-1", "rounds is -1: give a number of at least 0"),
        ("rounds=2.5", "rounds is 2.5: give a whole number"),
        ("ruonds=3", "ruonds is a setting neither of the experiment nor of its algorithms: did you mean 'rounds'?"),
        ("rate=-0.1", "algorithms.fedavg.rate is -0.1: give a number above zero"),
        ("steps=0", "algorithms.fedavg.steps is 0: give a whole number, 1 or more"),
        ("steps=two", "algorithms.fedavg.steps is 'two': give a whole number"),
        ("algorithms.fedavg.stepz=2", "algorithms.fedavg.stepz is not a setting of fedavg: did you mean 'steps'?"),
        ("algorithms.fedavgg.steps=2", "there is no algorithm 'fedavgg' here: did you mean 'fedavg'?"),
        ("sampled=9", "sampled is 9, but there are 8 clients"),
        ("data.name=sinthetic", "data.name is 'sinthetic', which is not known: did you mean 'synthetic'?"),
        ("data.sizes=big", "data.sizes is 'big'"),
        ("data.batches=step", "data.batch_size is None: batches = 'step' needs 1 or more"),
        ("data.batches=some", "data.batches is 'some'"),
        ("daat.clients=3", "daat is not a part of an experiment: did you mean 'data'?"),
        ("adversary.name=shadow", "the shadow adversary rehearses with cclip: add it to the algorithms"),
        ("adversary.name=round_robin", "adversary.groups is missing: round_robin needs it"),
        ("data.batch_size=true", "data.batch_size is True: give a whole number"),
        ("data.seed=-1", "data.seed is -1: give zero or more"),
        ("algorithms=3", "algorithms is 3: give a list, in [ ]"),
        ("data=x", "data is 'x': give a table"),
        ("data.clients.x=3", "data.clients.x: there is no such table"),
        ("name=a/b", "name is 'a/b': use up to 100 letters"),
        ("setting=published", "--set setting=published: choose it with --setting"),
        ("data.name=3", "data.name is 3: give one of"),
        ("data.clients=1000000000000", "data.clients is 1000000000000"),
        ("rounds=" + "9" * 5000, "the value is too long or too deep"),
        ("rounds=" + "[" * 5000, "the value is too long or too deep"),
        ("rate=inf", "algorithms.fedavg.rate is inf"),
        ("model.classes=3", "there are 3 classes, but"),
        ("data.batch_size=10", "data.batch_size is 10, but a full batch is all that a client holds"),
        ("adversary.pairs=2", "adversary.pairs is not a setting of largest_reply: there are none"),
        ("seeds=[]", "seeds is empty: give at least one"),
        ("seeds=[0,-1]", "seeds.1 is -1"),
        ("rounds", "--set rounds: write it as key=value"),
        ('rate={name="invers"}', "algorithms.fedavg.rate.name is 'invers'"),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_field(file: Path, change: str, sentence: str) -> None:
    with pytest.raises(ns.NoshowError) as caught:
        realise(load(str(file), [change]))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name = ", "is not valid TOML"),
        ('name = "x"', "rounds is missing"),
        (SMALL.replace('name = "logistic"', ""), "model has no name"),
        (SMALL + "\n[extra]\n", "extra is not a setting of an experiment"),
        (SMALL.replace("[[algorithms]]", "[[algoritms]]"), "did you mean 'algorithms'?"),
        ('like = "nothing"', "like is 'nothing', which is no preset"),
        (SMALL.replace("rounds = 3", "rounds = 3\nsettings = 3"), "settings holds something else than tables"),
        (SMALL.replace('name = "fedavg"', 'name = ["fedavg"]'), "algorithms[0].name is ['fedavg']: give one of"),
        (SMALL + 'label = "figure.png"', "algorithms[0].label is 'figure.png', a file of every run"),
        (SMALL + f'label = "{"x" * 101}"', "use up to 100 letters"),
    ],
)
def test_bad_files(file: Path, text: str, sentence: str) -> None:
    file.write_text(text, "utf-8")
    with pytest.raises(ns.NoshowError) as caught:
        load(str(file))
    assert sentence in str(caught.value)


@pytest.mark.parametrize("tables", ["3", "[3]"])
@pytest.mark.parametrize("change", ["steps=2", "algorithms.fedavg.steps=2"])
def test_algorithms_that_are_no_tables_cannot_be_changed(file: Path, tables: str, change: str) -> None:
    file.write_text(f"algorithms = {tables}", "utf-8")
    with pytest.raises(ns.NoshowError, match="algorithms is no list of tables"):
        load(str(file), [change])


def test_a_file_may_name_its_setting(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('like = "synthetic-0.9"\nsetting = "published"\n', "utf-8")
    assert load(str(path)) == load("synthetic-0.9", setting="published")
    assert load(str(path), setting="written") == load("synthetic-0.9")
    path.write_text(load("synthetic-0.9", setting="published").to_toml(), "utf-8")
    assert load(str(path)).setting == "published"
    with pytest.raises(ns.NoshowError, match=r"setting is 'written', which .* does not have"):
        load(str(path), setting="written")


def test_the_law_can_be_switched_off_for_adversaries_without_it() -> None:
    changes = ["adversary.name=random_response", "adversary.probability=0.5", "epsilon=off"]
    spec = load("synthetic-0.9", changes)
    assert spec.epsilon is None
    assert not realise(spec).adversary.lawful


def test_a_rate_changes_the_rehearsals_of_a_preset_and_of_its_resolved_file_alike(tmp_path: Path) -> None:
    path = tmp_path / "resolved.toml"
    path.write_text(load("synthetic-0.9").to_toml(), "utf-8")
    assert load(str(path), ["rate=0.5"]) == load("synthetic-0.9", ["rate=0.5"])


def test_missing_things() -> None:
    with pytest.raises(ns.NoshowError, match=r"there is no preset 'synthetic-09': did you mean 'synthetic-0\.9'"):
        load("synthetic-09")
    with pytest.raises(ns.NoshowError, match="there is no file"):
        load("nowhere/spec.toml")
    with pytest.raises(ns.NoshowError, match="setting is 'publishd'"):
        load("synthetic-0.9", setting="publishd")
    with pytest.raises(ns.NoshowError, match="algorithms is missing"):
        validate({"name": "x", "rounds": 1, "sampled": 1, "data": {}, "model": {}})


def test_a_length_that_is_set_is_that_of_every_algorithm() -> None:
    spec = load("shakespeare-0.7", ["rounds=5", "evaluate_every=2"])
    assert {spec.length(label) for label in spec.labels} == {(5, 2)}
    quick = load("shakespeare-0.7", scale="quick")
    assert {quick.length(label) for label in quick.labels} == {(20, 1), (100, 15)}


def test_what_a_preset_says_of_parts_that_a_file_replaces_is_void(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'like = "synthetic-0.9"\nname = "mine"\nadversary = { name = "largest_reply" }\n'
        '[[algorithms]]\nname = "fedavg"\nrate = 0.01\nsteps = 10\n',
        "utf-8",
    )
    assert load(str(path), setting="published").adversary == {"name": "largest_reply"}
    usual, quick = load(str(path)), load(str(path), scale="quick")
    assert quick.rounds < usual.rounds
    path.write_text(path.read_text("utf-8") + "[scales.quick]\ndamping = 1.0\n", "utf-8")  # its own must apply
    with pytest.raises(ns.NoshowError, match="damping is a setting neither"):
        load(str(path), scale="quick")


def test_a_part_that_is_no_table_is_told_in_every_scale(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text('like = "cifar10-0.8"\nname = "odd"\ndata = "none"\n', "utf-8")
    for scale in ("paper", "quick"):
        with pytest.raises(ns.NoshowError, match="data"):
            load(str(path), scale=scale)
