"""Typed values from JSON, TOML and texts, with one message for a value of another type."""

import dataclasses
import difflib
import functools
import itertools
import math
import reprlib
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from dualmctx.errors import UserError

T = TypeVar("T")
NONE = "none"
"""The text that stands for no value, because TOML has no null."""
_MAX_NEAREST = 3


class OtherFunctionError(UserError):
    """A file names a function other than the default, of which it cannot hold the code."""


def decode(name: str, value: Any, hint: Any) -> Any:
    """Converts a value of TOML or JSON to a type.

    `"none"` and null mean no value. Null also stands for an infinite number, as in the
    `config.json` of a run.

    Args:
      name: the name of the value, for the message.
      value: the value.
      hint: the type; `msgspec.Meta` gives its limits and the description of its values.

    Raises:
      UserError: if the value is not of that type; the message has the name, the value and the
        remedy.
    """
    parts = _parts(hint)
    if type(None) in parts and value in (None, NONE, "None"):
        return None
    if value is None and float in parts:
        return math.inf
    return _first_fit(name, value, hint, [value], strict=True)


def decode_text(name: str, text: str, hint: Any) -> Any:
    """Converts a text to a type; a text with commas is a list, and `none` is no value.

    Raises:
      UserError: as `decode`.
    """
    if type(None) in _parts(hint) and text.lower() == NONE:
        return None
    attempts = [text.split(",")] if "," in text else [text, [text]]
    return _first_fit(name, text, hint, attempts, strict=False)


def decode_fields(
    fields: Mapping[str, Any], hints: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any]:
    """Converts the entries of an object, which must all be there; others are left out.

    Raises:
      UserError: if an entry is missing, or of another type.
    """
    for name in hints:
        if name not in fields:
            raise UserError(f"{prefix}{name} is missing")
    return {name: decode(prefix + name, fields[name], hint) for name, hint in hints.items()}


def with_values(options: T, values: Mapping[str, Any]) -> T:
    """Returns options with the values of TOML or JSON; the others keep their defaults.

    Args:
      options: a frozen dataclass, possibly nested.
      values: its fields by name, nested as the dataclass is.

    Raises:
      OtherFunctionError: if a function is not the default.
      UserError: if an entry is unknown, or its value is of another type or refused by the options.
    """
    return _with_values(options, values, "", list(_flat_names(options)))


def _with_values(options: Any, values: Any, prefix: str, known: list[str]) -> Any:
    hints, changes = hints_of(options), {}
    for name, value in values.items():
        full = prefix + name
        if name not in hints:
            raise UserError(_unknown(full, known))
        current = getattr(options, name)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, dict):
                raise UserError(f"{full} is {show_json(value)}; it must be a table of settings")
            changes[name] = _with_values(current, value, f"{full}.", known)
        elif not callable(current):
            changes[name] = decode(full, value, hints[name])
        elif value != function_name(current):
            raise OtherFunctionError(
                f"{full} is {show_json(value)}; it must be {function_name(current)!r}, as a file "
                "cannot hold another function"
            )
    try:
        return dataclasses.replace(options, **changes)
    except UserError as error:
        raise UserError(f"[{prefix[:-1]}] {error}" if prefix else str(error)) from error


def function_name(function: Any) -> Any:
    """Returns the record of a function: its name, with the arguments of a partial one."""
    if isinstance(function, functools.partial):
        return {"function": function_name(function.func), **function.keywords}
    return function.__name__


def hints_of(options: Any) -> dict[str, Any]:
    """Returns the type of each field of a dataclass, with its marks."""
    hints = typing.get_type_hints(type(options), include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(options)}


def _flat_names(options: Any, prefix: str = "") -> Iterator[str]:
    """Yields the dotted name of each named option; a nested dataclass is a group of options."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            yield from _flat_names(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def describe_type(hint: Any) -> str:
    """Describes the values of a type, for messages."""
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, msgspec.Meta) and mark.description:
            return mark.description
    hint = _unmarked(hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return " or ".join(map(describe_type, parts))
    if origin is typing.Literal:
        return f"one of {', '.join(map(repr, parts))}"
    if typing.is_typeddict(hint):
        return f"an object with {', '.join(hint.__annotations__)}"
    if origin is list or (origin is tuple and parts[-1] is Ellipsis):
        return f"a list, each element {describe_type(parts[0])}"
    if origin is tuple:
        kinds = list(map(describe_type, parts))
        same = len(set(kinds)) == 1
        return f"a list of {len(parts)}{f', each element {kinds[0]}' if same else f': {kinds}'}"
    if origin is dict:
        return f"names, each with {describe_type(parts[1])}"
    return _WORDS.get(hint, str(hint))


def show_json(value: Any) -> str:
    """Shows a TOML or JSON value in a message: booleans and null as the file has them."""
    words: dict[Any, str] = {True: "true", False: "false", None: "null"}
    is_word = value is None or isinstance(value, bool)
    return words[value] if is_word else _REPR.repr(value)


_REPR = reprlib.Repr()
_REPR.maxstring = 60
_UNIONS = (typing.Union, types.UnionType)
_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text without NUL",
    dict: "an object",
    type(None): f'"{NONE}"',
}


def _first_fit(name: str, value: Any, hint: Any, attempts: list[Any], *, strict: bool) -> Any:
    for attempt in attempts if not _has_nul(value) else ():
        try:
            return msgspec.convert(attempt, hint, strict=strict)
        except (msgspec.ValidationError, UnicodeEncodeError):
            continue
    raise UserError(f"{name} is {show_json(value)}; it must be {describe_type(hint)}")


def _has_nul(value: Any) -> bool:
    """Returns whether a text, or one in a list, is unfit for the name of a file."""
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def _unmarked(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _parts(hint: Any) -> tuple[Any, ...]:
    """Returns the types that a type unites, or the type itself."""
    hint = _unmarked(hint)
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)


def _unknown(name: str, known: list[str]) -> str:
    near = _nearest_names(name, known)
    if near:
        return f"there is no entry {name!r}; perhaps you meant {' or '.join(near)}"
    group = name.rpartition(".")[0]
    beside = [x for x in known if x.startswith(f"{group}.")] if group else []
    tops = sorted({x.split(".")[0] for x in known})
    return f"there is no entry {name!r}; the entries are {', '.join(beside or tops)}"


def _nearest_names(name: str, known: list[str]) -> list[str]:
    """Returns the dotted names that a misspelt one may stand for, the likeliest first.

    The last parts are compared, because a group is easily left out.
    """
    parts = [x.rpartition(".")[2] for x in known]
    near = difflib.get_close_matches(name.lower().rpartition(".")[2], {*parts}, _MAX_NEAREST, 0.7)
    found = (x for part in near for x, other in zip(known, parts, strict=True) if other == part)
    return [*itertools.islice(found, _MAX_NEAREST)]
