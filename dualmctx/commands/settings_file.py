"""Settings from a TOML or JSON file: the entries have the names of a command's options."""

import json
import tomllib
from pathlib import Path
from typing import Any

from dualmctx.errors import UserError
from dualmctx.runs.folder import FORMAT_VERSION, current_config

Settings = dict[str, Any]
"""Nested dictionaries of settings, as TOML or JSON values."""


def read_settings(file: str) -> Settings:
    """Reads the settings in a TOML or JSON file, for example in the `config.json` of a run.

    The versions and the field `edited` in a `config.json` are left out. Other files need no
    versions.

    Raises:
      ValueError: if the file cannot be read, or is of neither format or of another version.
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
    except (ValueError, RecursionError) as error:
        kind = path.suffix[1:].upper()
        raise UserError(f"--config {file} is not valid {kind}: {error}") from error
    if not isinstance(settings, dict):
        raise UserError(
            f"--config {file} holds no object; it must be a JSON object of settings, as the "
            "config.json of a run"
        )
    return current_config({"format_version": FORMAT_VERSION} | settings, path)


def _parse_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    for name in entries:
        if sum(name == other for other, _ in pairs) > 1:
            raise UserError(f"the entry {name!r} occurs twice")
    return entries


_PARSERS = {".toml": tomllib.loads, ".json": _parse_json}
