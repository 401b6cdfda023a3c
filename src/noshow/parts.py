"""The parts an experiment is made of, by name, and how a table of settings becomes one of them.

A part's settings are its function's own arguments: their names, types and defaults are read off its signature, and
their values are checked by the function itself. So a file and a Python call get the same answers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from noshow import adversaries, algorithms, datasets, models, rates
from noshow.contracts import Adversary, Algorithm, Model, Rate
from noshow.errors import NoshowError, nearest, require
from noshow.federation import Federation
from noshow.plugins import Parts

Settings = Mapping[str, Any]
Kind = Mapping[str, Callable[..., Any]]


def _public(module: Any, names: list[str]) -> Kind:
    return {name: getattr(module, name) for name in names}


def _nameable(module: Any) -> Kind:
    """All but the adapters, which take a user's own objects: a file cannot name those."""
    return _public(module, [name for name in module.__all__ if not name.startswith("from_")])


DATASETS = Parts("noshow.datasets", _nameable(datasets), Federation)
MODELS = Parts("noshow.models", _nameable(models), Model)
ADVERSARIES = Parts("noshow.adversaries", _public(adversaries, adversaries.__all__), Adversary)
RATES = _public(rates, ["constant", "inverse_sqrt", "inverse"])
ALGORITHMS = Parts("noshow.algorithms", _public(algorithms, algorithms.__all__), Algorithm)


def resolve(kind: Kind, settings: Settings, where: str) -> dict[str, Any]:
    """The settings with every default filled in; raises where a key, a type or the name is wrong."""
    names = ", ".join(sorted(kind))
    require("name" in settings, f'{where} has no name: add name = "…", one of {names}')
    name = settings["name"]
    require(isinstance(name, str), f"{where}.name is {name!r}: give one of {names}, in quotes")
    require(name in kind, f"{where}.name is {name!r}, which is not known: {nearest(str(name), kind)}")
    part = kind[str(name)]
    signature, hints = inspect.signature(part), _hints(part, str(name))
    for key in settings:
        known = key == "name" or key in signature.parameters
        require(known, f"{where}.{key} is not a setting of {name}: {nearest(key, signature.parameters)}")
    resolved: dict[str, Any] = {"name": name}
    for key, parameter in signature.parameters.items():
        if key in settings:
            resolved[key] = _as_toml(typed(hints.get(key, Any), settings[key], f"{where}.{key}"))
        elif parameter.default is inspect.Parameter.empty:
            raise NoshowError(f"{where}.{key} is missing: {name} needs it")
        elif parameter.default is not None:  # TOML has no null: what is left out stays left out
            resolved[key] = _as_toml(parameter.default)
    return resolved


def _hints(part: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(part)
    except Exception as error:  # names in annotations that mean nothing
        raise NoshowError(f"the types of {name}'s arguments cannot be read ({error}): mend its signature") from None


def build(kind: Kind, settings: Settings, where: str) -> Any:
    """The part itself, from resolved settings."""
    arguments = {key: _argument(value, f"{where}.{key}") for key, value in settings.items() if key != "name"}
    try:
        part = kind[settings["name"]](**arguments)
    except NoshowError as error:
        names_a_setting = str(error).split()[0] in arguments
        raise NoshowError(f"{where}.{error}" if names_a_setting else str(error)) from None
    wanted = kind.makes if isinstance(kind, Parts) else object
    found = type(part).__name__
    require(isinstance(part, wanted), f"{where}: {settings['name']} returned a {found}, and no {wanted.__name__}")
    return part


def typed(hint: Any, value: Any, where: str) -> Any:
    """The value, if it is of the type that a signature asks for; tables of rates and algorithms are resolved."""
    if hint == float | Rate and isinstance(value, Mapping):
        return resolve(RATES, value, where)
    if hint is Algorithm:
        require(isinstance(value, Mapping), f"{where} is {value!r}: give an algorithm's settings as a table")
        return resolve(ALGORITHMS, value, where)
    plain = float if hint == float | Rate else hint
    try:
        return TypeAdapter(plain, config=ConfigDict(strict=True)).validate_python(value)
    except ValidationError as error:
        raise NoshowError(f"{where} is {value!r}: {in_words(error)}") from None


def _argument(value: Any, where: str) -> Any:
    """Tables inside settings are parts themselves: a rate or an algorithm."""
    if not isinstance(value, Mapping):
        return value
    return build(RATES if value["name"] in RATES else ALGORITHMS, value, where)


def _as_toml(value: Any) -> Any:
    """The value as a TOML file gives it back: lists, no tuples."""
    return [_as_toml(item) for item in value] if isinstance(value, list | tuple) else value


_WORDS = {
    "greater than or equal to": "a number of at least",
    "greater than": "a number above",
    "less than or equal to": "a number of at most",
    "less than": "a number below",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "text in quotes",
    "a valid list": "a list, in [ ]",
    "a valid dictionary": "a table",
    "'str' instances are not allowed as a Sequence value": "a list, in [ ]",
}


def in_words(error: ValidationError) -> str:
    """What pydantic asks for, as the end of a sentence."""
    asked = [problem["msg"].removeprefix("Input should be ") for problem in error.errors()]
    return "give " + ", or ".join(dict.fromkeys(map(_plainly, asked)))


def _plainly(words: str) -> str:
    """The first phrase that pydantic's words begin with, said our way; longer phrases stand first in the table."""
    for theirs, ours in _WORDS.items():
        if words.startswith(theirs):
            return ours + words.removeprefix(theirs)
    return words
