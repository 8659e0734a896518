"""Settings in TOML and JSON files, whose entries have the names of a command's options."""

import dataclasses
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from dualmctx.errors import UserError
from dualmctx.game_files.positions_file import read_json
from dualmctx.runs.folder import FORMAT_VERSION, without_versions
from dualmctx.typed_values import NONE, with_values

C = TypeVar("C")
Settings = dict[str, Any]
"""Nested dictionaries of settings, as TOML or JSON values."""


def apply_settings(default: C, settings: Settings, file: str) -> C:
    """Returns options with the values of a file; the others keep their defaults.

    Names may have hyphens in place of underscores. `"none"` and JSON's null mean no value. Null
    also stands for an infinite number, as in the `config.json` of a run.

    Args:
      default: a frozen dataclass, possibly nested.
      settings: its fields by name, nested as the dataclass is.
      file: the name of the file, for messages.

    Raises:
      UserError: if an entry is unknown or its value is wrong; the message names the file, the
        entry and the remedy.
    """
    try:
        return with_values(default, _with_underscores(settings, default, ""))
    except UserError as error:
        raise UserError(f"{file}: {error}") from error


def _with_underscores(settings: Settings, options: Any, prefix: str) -> Settings:
    """Replaces hyphens in the names of options; other names, as in dictionaries, are kept."""
    found: Settings = {}
    for given, value in settings.items():
        name = given.replace("-", "_")
        if name in found:
            raise UserError(f"the entry {prefix}{name} occurs twice")
        group = getattr(options, name, None)
        if dataclasses.is_dataclass(group) and isinstance(value, dict):
            value = _with_underscores(value, group, f"{prefix}{name}.")
        found[name] = value
    return found


def read_settings(file: str) -> Settings:
    """Reads the settings in a TOML or JSON file, for example in the `config.json` of a run.

    The versions in a `config.json` are left out. Other files need no versions.
    """
    path = Path(file)
    if file and path.is_dir():
        raise UserError(f"--config {file} is a folder; name a file, such as {path / 'config.json'}")
    if path.suffix not in _PARSERS:
        known = " or ".join(_PARSERS)
        raise UserError(f"--config is {file!r}; it must be a file that ends in {known}")
    try:
        settings = _PARSERS[path.suffix](path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--config {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"--config {file} is not UTF-8 text, at byte {error.start}") from error
    except UserError as error:
        raise UserError(f"--config {file}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"--config {file} is not valid TOML: {error}") from error
    if not isinstance(settings, dict):
        raise UserError(
            f"--config {file} holds no object; it must be a JSON object of settings, as the "
            "config.json of a run"
        )
    return without_versions({"format_version": FORMAT_VERSION} | settings, path)


_PARSERS = {".toml": tomllib.loads, ".json": read_json}


def toml_lines(table: Settings, prefix: str = "") -> Iterator[str]:
    """Yields the lines of settings as TOML: first the values of a table, then its inner tables.

    `None` becomes `"none"`, and a function its name.
    """
    for name, value in table.items():
        if not isinstance(value, dict):
            yield f"{_key(name)} = {_value(value)}"
    for name, value in table.items():
        if isinstance(value, dict):
            yield from ("", f"[{prefix}{_key(name)}]")
            yield from toml_lines(value, f"{prefix}{_key(name)}.")


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if is_bare else _value(name)


def _value(value: Any) -> str:
    """Formats a value as TOML."""
    if value is None:
        return _value(NONE)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, int | float):
        # TOML has the words inf and nan, as Python does.
        return repr(value)
    # The escapes of JSON's strings are valid in TOML; DEL must be escaped in TOML only.
    text = value if isinstance(value, str) else value.__name__
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
