"""Where data files live: one folder, set once, found without asking from then on."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from noshow.errors import NoshowError, require
from noshow.files import write_whole

VARIABLE = "NOSHOW_DATA"


def config_dir() -> Path:
    """Where the user's settings live: `$XDG_CONFIG_HOME/noshow`, or `~/.config/noshow`."""
    return _of_user("XDG_CONFIG_HOME", "~/.config")


def cache_dir() -> Path:
    """Where files live that can be made again: `$XDG_CACHE_HOME/noshow`, or `~/.cache/noshow`."""
    return _of_user("XDG_CACHE_HOME", "~/.cache")


def data_folder(chosen: str | Path | None = None) -> Path:
    """The data folder: what is first set of `chosen`, the variable NOSHOW_DATA, the user's settings, and the default.

    The settings are the key `data` of `config.toml` in `config_dir()` (see `remember`); the default is
    `$XDG_DATA_HOME/noshow`, or `~/.local/share/noshow`.

    Example:
        >>> from noshow.datasets.folder import data_folder
        >>> data_folder("/data/federated").as_posix()
        '/data/federated'
    """
    named = chosen or os.environ.get(VARIABLE) or _settings().get("data")
    if named is None:
        return _of_user("XDG_DATA_HOME", "~/.local/share")
    require(isinstance(named, str | Path), f"data is {named!r} in {_settings_file()}: give a folder's name in quotes")
    return Path(os.path.expanduser(named))


def remember(folder: Path) -> None:
    """Write the folder into the user's settings, where `data_folder` finds it; other settings stay as they are."""
    import tomli_w  # here alone: `import noshow` can do without it

    settings = _settings() | {"data": str(folder.absolute())}
    write_whole(_settings_file(), lambda part: part.write_text(tomli_w.dumps(settings), "utf-8"))


def not_here(what: str, name: str, folder: Path, files: str) -> NoshowError:
    """The error for a data set that is not in the folder: where it was looked for, and what to do."""
    return NoshowError(
        f"{what} is neither in {folder} nor in {folder / name}: run `noshow data get {name}`, or put {files} there, "
        "or name the folder that has it with `noshow data use DIR`"
    )


def _settings_file() -> Path:
    return config_dir() / "config.toml"


def _settings() -> dict[str, Any]:
    file = _settings_file()
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise NoshowError(f"the settings {file} cannot be read ({error}): mend or remove that file") from None


def _of_user(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or os.path.expanduser(default)) / "noshow"
