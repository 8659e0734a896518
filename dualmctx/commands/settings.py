"""Applies settings from a file to a dataclass of options, with checks of names and types."""

import dataclasses
from typing import Any, TypeVar

from dualmctx.commands.option_names import (
    Unprefixed,
    flat_names,
    group_prefix,
    hints_of,
    is_marked,
    nearest_names,
)
from dualmctx.commands.settings_file import Settings
from dualmctx.commands.values import UnfitError, convert, describe, show
from dualmctx.errors import UserError

C = TypeVar("C")


def apply_settings(default: C, settings: Settings, file: str) -> C:
    """Returns options with the values of a file; the others keep their defaults.

    Names may have hyphens in place of underscores. `"none"` and JSON's null mean no value. Null
    also stands for an infinite number, as in the `config.json` of a run.

    Args:
      default: a frozen dataclass, possibly nested.
      settings: its fields by name, nested as the dataclass is. Fields of an `Unprefixed` field may
        stand beside it, as their flags do.
      file: the name of the file, for messages.

    Raises:
      ValueError: if an entry is unknown or its value is wrong; the message names the file, the
        entry and the remedy.
    """
    return _apply(default, settings, file, "", list(flat_names(default)))


def _apply(options: Any, settings: Settings, file: str, prefix: str, known: list[str]) -> Any:
    hints = hints_of(options)
    settings = _nest(_with_underscores(settings, prefix, file), options, hints)
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        full = prefix + name
        if name not in hints:
            raise UserError(_unknown(full, file, known))
        current = getattr(options, name)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, dict):
                raise UserError(f"{file}: {full} is {show(value)}; it must be a table of settings")
            inner = group_prefix(hints[name], name, prefix)
            changes[name] = _apply(current, value, file, inner, known)
        else:
            changes[name] = _checked(hints[name], current, value, full, file)
    try:
        return dataclasses.replace(options, **changes)
    except UserError as error:
        where = f"{file}: [{prefix[:-1]}] " if prefix else f"{file}: "
        raise UserError(f"{where}{error}") from error


def _with_underscores(settings: Settings, prefix: str, file: str) -> Settings:
    names = [name.replace("-", "_") for name in settings]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{file}: the entry {prefix}{name} occurs twice")
    return dict(zip(names, settings.values(), strict=True))


def _nest(settings: Settings, options: Any, hints: dict[str, Any]) -> Settings:
    """Moves settings of unprefixed groups into their groups."""
    for group, hint in hints.items():
        if is_marked(hint, Unprefixed):
            names = {field.name for field in dataclasses.fields(getattr(options, group))}
            moved = {name: x for name, x in settings.items() if name in names}
            rest = {name: x for name, x in settings.items() if name not in moved}
            inner = rest.get(group, {})
            # An entry of another type is refused later.
            if moved and isinstance(inner, dict):
                settings = rest | {group: inner | moved}
    return settings


def _unknown(name: str, file: str, known: list[str]) -> str:
    near = nearest_names(name, known)
    if near:
        return f"{file}: there is no entry {name!r}; perhaps you meant {' or '.join(near)}"
    group = name.rpartition(".")[0]
    beside = [x for x in known if x.startswith(f"{group}.")] if group else []
    tops = sorted({x.split(".")[0] for x in known})
    return f"{file}: there is no entry {name!r}; the entries are {', '.join(beside or tops)}"


def _checked(hint: Any, current: Any, value: Any, name: str, file: str) -> Any:
    if callable(current):
        expected = getattr(current, "__name__", None)
        if value == expected:
            return current
        raise UserError(
            f"{file}: {name} is {show(value)}; it must be {expected!r}, as a file cannot hold "
            "another function"
        )
    try:
        return convert(hint, value)
    except UnfitError:
        raise UserError(f"{file}: {name} is {show(value)}; it must be {describe(hint)}") from None
