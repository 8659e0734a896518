"""Writes the settings of a training run as TOML that `--config` reads back."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from dualmctx.pipeline.start import PIPELINE
from dualmctx.policies.names import variant_of
from dualmctx.typed_values import NONE


def to_toml(preset: str, config: Any, stage: str | None = None) -> str:
    """Returns all settings of a run as TOML; `dualmctx train --config` reads the same ones back.

    Settings of the run that have no value, such as `wandb`, are left out: no preset has one. In
    groups, `"none"` stands for no value. The entry `resume` is left out, as it is a flag only.

    Args:
      preset: the name of the preset.
      config: the configuration.
      stage: the stage of the pipeline; `None` for self-play.
    """
    settings: dict[str, Any] = {PIPELINE: stage, "preset": preset} | option_values(config)
    settings = {name: x for name, x in settings.items() if x is not None and name != "resume"}
    if stage is None:
        settings["search"] = {"variant": variant_of(config.search)} | settings["search"]
    return "\n".join(_lines(settings, "")) + "\n"


def option_values(options: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass by name; nested dataclasses become dictionaries."""
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {
        name: option_values(x) if dataclasses.is_dataclass(x) else x for name, x in values.items()
    }


def _lines(table: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yields the lines of a table: first its values, then its inner tables."""
    for name, value in table.items():
        if not isinstance(value, dict):
            yield f"{_key(name)} = {_value(value)}"
    for name, value in table.items():
        if isinstance(value, dict):
            yield from ("", f"[{prefix}{_key(name)}]")
            yield from _lines(value, f"{prefix}{_key(name)}.")


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
