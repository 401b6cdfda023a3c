"""An experiment, validated and resolved. Where it is read from is the matter of `noshow.spec_file`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from noshow.checks import check
from noshow.contracts import Adversary, Algorithm, Model
from noshow.diagnostics import Diagnose
from noshow.errors import NoshowError, nearest, require
from noshow.federation import Batches, Federation
from noshow.parts import ADVERSARIES, ALGORITHMS, DATASETS, MODELS, Settings, build, in_words, resolve, typed
from noshow.precision import Precision
from noshow.rates import curve
from noshow.weights import start_from

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
NAME_RULE = "use up to 100 letters, digits and . _ + - only"
FILES_OF_A_RUN = (
    "spec.toml",
    "about.json",
    "adversary.npz",
    "figure.png",
    "bounds.png",
    "unfinished",
    "progress.json",
    "lock",
    "report.html",
    "tensorboard",
    "wandb",
)
"""Names in a run folder that no algorithm may take for its own."""
WRITTEN = "written"
PAPER = "paper"
OWN_KEYS = ("label", "rounds", "evaluate_every")
"""What an algorithm's table may hold beside its settings: its name here, and a length of its own."""
LAW_OFF = "off"
"""`epsilon = "off"` in a file or `--set epsilon=off`: no law, for adversaries that act without it."""


class Spec(BaseModel):
    """A resolved experiment: defaults are filled in, so that the file alone says what was run.

    What a part works out for itself when left out (beta = M/K, damping = 1 - momentum) stays left out.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str
    description: str = ""
    setting: str = WRITTEN
    scale: str = PAPER
    rounds: Annotated[int, Field(ge=0)]
    sampled: Annotated[int, Field(ge=1)]
    epsilon: Annotated[float, Field(ge=0, lt=1)] | None = None
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**32)]], Field(min_length=1)] = [0]
    evaluate_every: Annotated[int, Field(ge=1)] = 15
    evaluate_on: Annotated[int, Field(ge=1)] | None = None
    diagnose: bool = False
    precision: Precision | None = None
    data: dict[str, Any]
    model: dict[str, Any]
    adversary: dict[str, Any] = {"name": "nobody"}
    algorithms: Annotated[list[dict[str, Any]], Field(min_length=1)]

    def to_toml(self) -> str:
        """The resolved spec as a file that runs the same experiment again."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))

    @property
    def digest(self) -> str:
        """Eight letters that differ when the experiment does."""
        # What nobody asked for is left out, as from before there was such a setting: folders keep their names.
        unasked = {"precision"} if self.precision is None else set()
        settings = self.model_dump(exclude={"description", *unasked})
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def labels(self) -> list[str]:
        """What the algorithms are called in this experiment."""
        return [label_of(settings) for settings in self.algorithms]

    def length(self, label: str) -> tuple[int, int]:
        """An algorithm's rounds, and the rounds between two evaluations: its own, or the experiment's."""
        table = self.algorithms[self.labels.index(label)]
        return table.get("rounds", self.rounds), table.get("evaluate_every", self.evaluate_every)

    def unlike(self, other: Spec) -> list[str]:
        """The parts in which another spec asks for another run."""
        return [key for key in Spec.model_fields if key != "description" and getattr(self, key) != getattr(other, key)]

    def run_settings(self, label: str) -> dict[str, Any]:
        """What `simulate` and `Simulation` take beside the parts, for one algorithm."""
        rounds, evaluate_every = self.length(label)
        return {
            "sampled": self.sampled,
            "rounds": rounds,
            "epsilon": self.epsilon,
            "seeds": self.seeds,
            "evaluate_every": evaluate_every,
            "evaluate_on": self.evaluate_on,
            "diagnose": Diagnose() if self.diagnose else None,
            "precision": self.precision,
        }


class Experiment(NamedTuple):
    """A spec's parts, built."""

    federation: Federation
    model: Model
    adversary: Adversary
    algorithms: list[Algorithm]


def validate(raw: Mapping[str, Any]) -> Spec:
    """The resolved spec, or one sentence about the first thing that is wrong."""
    for key in raw:
        require(key in Spec.model_fields, f"{key} is not a setting of an experiment: {nearest(key, Spec.model_fields)}")
    given = {key: value for key, value in raw.items() if (key, value) != ("epsilon", LAW_OFF)}
    try:
        spec = Spec.model_validate(given)
    except ValidationError as error:
        raise NoshowError(_first_problem(error)) from None
    require(SAFE_NAME.fullmatch(spec.name) is not None, f"name is {spec.name!r}: {NAME_RULE}")
    algorithms = _resolve_algorithms(spec.algorithms)
    return spec.model_copy(
        update={
            "data": _resolve_data(spec.data),
            "model": _resolve_model(spec.model),
            "algorithms": algorithms,
            "adversary": _resolve_adversary(spec.adversary, algorithms),
        }
    )


def realise(spec: Spec) -> Experiment:
    """Build the parts of a spec and check that they go together."""
    federation = _build_data(spec.data)
    model = _build_model(spec.model)
    chosen = [
        build(ALGORITHMS, _without_own(settings), f"algorithms.{label}").renamed(label)
        for label, settings in zip(spec.labels, spec.algorithms, strict=True)
    ]
    adversary = build(ADVERSARIES, with_rehearsals(spec.adversary, spec.algorithms), "adversary")
    for algorithm in chosen:
        rounds, every = spec.length(algorithm.name)
        check(federation, model, adversary, spec.sampled, rounds, spec.epsilon, spec.seeds, every, spec.evaluate_on)
        curve(algorithm.rate, rounds)
    return Experiment(federation, model, adversary, chosen)


_DRAWING = {"batches": Batches, "batch_size": int}


def _resolve_data(settings: Settings) -> dict[str, Any]:
    drawing = {key: typed(hint, settings[key], f"data.{key}") for key, hint in _DRAWING.items() if key in settings}
    return resolve(DATASETS, {k: v for k, v in settings.items() if k not in drawing}, "data") | drawing


def _build_data(settings: Settings) -> Federation:
    federation: Federation = build(DATASETS, {k: v for k, v in settings.items() if k not in _DRAWING}, "data")
    if not any(key in settings for key in _DRAWING):
        return federation
    batches: Batches = settings.get("batches", federation.batches)
    require(
        batches != "full" or "batch_size" not in settings,
        f"data.batch_size is {settings.get('batch_size')}, but a full batch is all that a client holds: "
        "set data.batches to 'round' or 'step' too, or leave it out",
    )
    try:
        return federation.drawing(batches, settings.get("batch_size", federation.batch_size))
    except NoshowError as error:
        raise NoshowError(f"data.{error}") from None


START_FROM = "start_from"
"""What a model's table may hold beside its settings: a `.safetensors` file with its first parameters."""


def _resolve_model(settings: Settings) -> dict[str, Any]:
    start = {key: typed(str, value, f"model.{key}") for key, value in settings.items() if key == START_FROM}
    return resolve(MODELS, {k: v for k, v in settings.items() if k not in start}, "model") | start


def untrained_model(settings: Settings) -> Model:
    """The model of a table as it starts by itself, whatever file the table names."""
    model: Model = build(MODELS, {k: v for k, v in settings.items() if k != START_FROM}, "model")
    return model


def _build_model(settings: Settings) -> Model:
    model = untrained_model(settings)
    if START_FROM not in settings:
        return model
    try:
        return start_from(settings[START_FROM], model)
    except NoshowError as error:
        raise NoshowError(f"model.{START_FROM}: {error}") from None


def label_of(settings: Settings) -> str:
    """What an algorithm is called: its label, or its name."""
    return str(settings.get("label", settings.get("name")))


def _without_own(table: Settings) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in OWN_KEYS}


def _resolve_algorithms(tables: Sequence[Settings]) -> list[dict[str, Any]]:
    resolved: list[dict[str, Any]] = []
    for number, table in enumerate(tables):
        label = label_of(table)
        where = f"algorithms.{label}" if str(table.get("name")) in ALGORITHMS else f"algorithms[{number}]"
        settings = resolve(ALGORITHMS, _without_own(table), where)
        require(SAFE_NAME.fullmatch(label) is not None, f"algorithms[{number}].label is {label!r}: {NAME_RULE}")
        require(
            label not in FILES_OF_A_RUN, f"algorithms[{number}].label is {label!r}, a file of every run: give another"
        )
        require(
            label not in map(label_of, resolved),
            f'two algorithms are called {label!r}: give one of them another label = "…"',
        )
        lengths = {
            key: typed(int, table[key], f"{where}.{key}") for key in ("rounds", "evaluate_every") if key in table
        }
        resolved.append(settings | ({"label": label} if "label" in table else {}) | lengths)
    return resolved


def _resolve_adversary(settings: Settings, algorithms: Sequence[Settings]) -> dict[str, Any]:
    """The adversary's settings, less the rehearsals it takes from the experiment: those follow its algorithms."""
    resolved = resolve(ADVERSARIES, with_rehearsals(settings, algorithms), "adversary")
    return {key: value for key, value in resolved.items() if key in settings or key not in REHEARSED}


REHEARSED = ("fedavg", "cclip")


def with_rehearsals(settings: Settings, algorithms: Sequence[Settings]) -> dict[str, Any]:
    """Shadow rehearses with the experiment's own FedAvg and cclip unless given others."""
    filled = dict(settings)
    if filled.get("name") == "shadow":
        for needed in REHEARSED:
            same = [table for table in algorithms if table["name"] == needed]
            require(
                needed in filled or bool(same),
                f"the shadow adversary rehearses with {needed}: add it to the algorithms, or give adversary.{needed}",
            )
            filled.setdefault(needed, _without_own(same[0]) if same else None)
    return filled


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    where = ".".join(str(step) for step in problem["loc"])
    if problem["type"] == "missing":
        return f"{where} is missing: every experiment needs it"
    if problem["loc"][0] == "epsilon":
        return f"epsilon is {problem['input']!r}: give a number from 0 up to, but not including, 1"
    if problem["type"] == "too_short":
        return f"{where} is empty: give at least one"
    return f"{where} is {problem['input']!r}: {in_words(error)}"
