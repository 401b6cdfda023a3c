"""Where a spec comes from: a TOML file or a preset, one of its settings, and `key=value` assignments on top."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from noshow.errors import NoshowError, nearest, require
from noshow.parts import ADVERSARIES, ALGORITHMS, DATASETS, MODELS, Settings
from noshow.spec import OWN_KEYS, PAPER, WRITTEN, Spec, label_of, validate

PRESETS = resources.files("noshow") / "presets"


def load(source: str, assignments: Iterable[str] = (), setting: str | None = None, scale: str | None = None) -> Spec:
    """The spec in a file or a preset, in one of its settings and scales, with `key=value` assignments on top.

    Without `setting` or `scale` it is the one the file itself names, else `"written"` and `"paper"`.

    Example:
        >>> spec = load("synthetic-0.9", ["rounds=60", "beta=5", "data.clients=50"])
        >>> spec.rounds, spec.algorithms[1]["beta"], spec.data["clients"]
        (60, 5.0, 50)
    """
    return load_with(source, map(assignment, assignments), setting, scale)


def load_with(
    source: str, changes: Iterable[tuple[str, Any]], setting: str | None = None, scale: str | None = None
) -> Spec:
    """As `load`, with changes as pairs of a key and its value.

    Example:
        >>> load_with("synthetic-0.9", [("algorithms", ["mifa"]), ("adversary", {"name": "nobody"})]).labels
        ['mifa']
    """
    raw = read(source)
    _choose(raw, source, "setting", setting, WRITTEN)
    _choose(raw, source, "scale", scale, PAPER)
    for key, value in sorted(changes, key=lambda change: not change[0].endswith(".name")):  # a part, then its settings
        assign(raw, key, value)
    return validate(raw)


CHOICES = ("setting", "scale")


def assignment(text: str) -> tuple[str, Any]:
    """The key and the value in `key=value`.

    Example:
        >>> assignment("data.clients = 50")
        ('data.clients', 50)
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    require(equals == "=" and key != "", f"--set {text}: write it as key=value, such as rounds=60")
    require(key not in CHOICES, f"--set {text}: choose it with --{key}, which changes its values too")
    return key, _literal(value.strip())


def _choose(raw: dict[str, Any], source: str, choice: str, wanted: str | None, usual: str) -> None:
    """Apply the values under [settings.NAME] or [scales.NAME], and write down which."""
    tables = _named_tables(raw.pop(f"{choice}s", {}), choice)
    own = str(raw.get(choice, usual))
    name = own if wanted is None else wanted
    known = {usual, *tables} if tables else {own}
    require(name in known, f"{choice} is {name!r}, which {source} does not have: {nearest(name, known)}")
    for key, value in tables.get(name, {}).items():
        assign(raw, key, value)
    raw[choice] = name


def _named_tables(tables: Any, choice: str) -> dict[str, dict[str, Any]]:
    fine = isinstance(tables, dict) and all(isinstance(table, dict) for table in tables.values())
    require(fine, f"{choice}s holds something else than tables: write [{choice}s.NAME] and its values under it")
    return dict(tables)


def preset_names() -> list[str]:
    """The presets that come with noshow."""
    return sorted(entry.name.removesuffix(".toml") for entry in PRESETS.iterdir() if entry.name.endswith(".toml"))


def read(source: str) -> dict[str, Any]:
    """The tables of a file or a preset, with those it is `like` underneath."""
    if source in preset_names():
        text = (PRESETS / f"{source}.toml").read_text("utf-8")
    else:
        is_path = source.endswith(".toml") or "/" in source
        require(
            is_path, f"there is no preset {source!r}: {nearest(source, preset_names())} (a file's name ends in .toml)"
        )
        text = _file_text(Path(source))
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoshowError(f"{source} is not valid TOML: {error}") from None
    base = tables.pop("like", None)
    if base is None:
        return tables
    require(
        base in preset_names(), f"{source}: like is {base!r}, which is no preset: {nearest(str(base), preset_names())}"
    )
    merged = _merged(read(base), tables)
    for choice in ("settings", "scales"):
        for name, values in _named_tables(merged.get(choice, {}), choice[:-1]).items():
            if name not in tables.get(choice, {}):  # the preset's: what it says of parts that are replaced is void
                merged[choice][name] = {key: value for key, value in values.items() if _applies(merged, key)}
    return merged


def _applies(raw: Mapping[str, Any], key: str) -> bool:
    """Whether the parts that are there have this setting."""
    first, _, rest = key.partition(".")
    if first == "algorithms":
        label, _, own = rest.partition(".")
        return any(label_of(t) == label and own in (*OWN_KEYS, *_settings_of(t)) for t in _algorithm_tables(raw))
    if not rest:
        return key in Spec.model_fields or any(key in _settings_of(table) for table in _algorithm_tables(raw))
    table = raw.get(first)
    kind = {"adversary": ADVERSARIES, "data": DATASETS, "model": MODELS}.get(first)
    if kind is None or not isinstance(table, dict) or str(table.get("name")) not in kind or key == "data.batches":
        return True  # what is wrong with such a part is told where it is made
    if key == "data.batch_size":
        return table.get("batches", "full") != "full"
    return rest.partition(".")[0] in inspect.signature(kind[str(table["name"])]).parameters


def assign(raw: dict[str, Any], key: str, value: Any) -> None:
    """Set `rounds`, `data.clients`, `algorithms.fedavg.rate`, or a setting of every algorithm that has it.

    `algorithms` as a list of names leaves only those.
    """
    if "." in key:
        _assign_inside(raw, key, value)
    elif key == "algorithms" and isinstance(value, list) and all(isinstance(label, str) for label in value):
        named = {label_of(table): table for table in _algorithm_tables(raw)}
        for label in value:
            require(label in named, f"algorithms: there is no algorithm {label!r} here: {nearest(label, named)}")
        raw[key] = [named[label] for label in value]
    elif key in Spec.model_fields:
        raw[key] = value
        for table in _algorithm_tables(raw) if key in OWN_KEYS else ():  # what has a length of its own has this one now
            if key in table:
                table[key] = value
    else:
        tables = _algorithm_tables(raw)
        taking = [table for table in tables if key in _settings_of(table)]
        known = {*Spec.model_fields, *(name for table in tables for name in _settings_of(table))}
        require(
            bool(taking),
            f"{key} is a setting neither of the experiment nor of its algorithms: {nearest(key, known)}",
        )
        for table in taking:
            table[key] = value


def _algorithm_tables(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    tables = raw.get("algorithms", [])
    fine = isinstance(tables, list) and all(isinstance(table, dict) for table in tables)
    require(fine, "algorithms is no list of tables: write [[algorithms]] and each one's settings under it")
    return list(tables)


def _settings_of(table: Settings) -> list[str]:
    function = ALGORITHMS.get(str(table.get("name")))
    return [] if function is None else list(inspect.signature(function).parameters)


def _file_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise NoshowError(
            f"there is no file {path}: give a preset ({', '.join(preset_names())}) or a .toml file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise NoshowError(f"{path} cannot be read: {error}") from None


def _merged(base: dict[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`top` over `base`: tables merge, unless they name another part; everything else is replaced.

    A named setting or scale is one choice, and is replaced as a whole.
    """
    merged = dict(base)
    for key, value in top.items():
        below = base.get(key)
        if key in ("settings", "scales") and isinstance(below, dict) and isinstance(value, dict):
            merged[key] = below | value
        elif isinstance(below, dict) and isinstance(value, dict) and value.get("name") in (None, below.get("name")):
            merged[key] = _merged(below, value)
        else:
            merged[key] = value
    return merged


def _assign_inside(raw: dict[str, Any], key: str, value: Any) -> None:
    first, _, rest = key.partition(".")
    require(
        first in Spec.model_fields,
        f"{key}: {first} is not a part of an experiment: {nearest(first, Spec.model_fields)}",
    )
    table: Any = raw.setdefault(first, {})
    if first == "algorithms":
        label, _, rest = rest.partition(".")
        named = {label_of(algorithm): algorithm for algorithm in _algorithm_tables(raw)}
        require(label in named, f"{key}: there is no algorithm {label!r} here: {nearest(label, named)}")
        table = named[label]
    *path, last = rest.split(".")
    for step in path:
        table = table.setdefault(step, {}) if isinstance(table, dict) else None
    require(isinstance(table, dict) and last != "", f"{key}: there is no such table to set a value in")
    if last == "name" and first != "algorithms" and table.get("name") != value:
        table.clear()  # another part, as in a file that is `like` this one
    table[last] = value


def _literal(text: str) -> Any:
    """The value as TOML would read it; a bare word is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError):
        raise NoshowError(f"--set …={text[:20]}…: the value is too long or too deep; give a shorter one") from None
