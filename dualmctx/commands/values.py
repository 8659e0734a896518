"""Values of options: from texts or from TOML and JSON, by the type of the option."""

import math
import reprlib
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal

NONE = "none"
"""The text that stands for no value, because TOML has no null."""


class UnfitError(Exception):
    """A value is not of the wanted type."""


def convert(hint: Any, value: Any) -> Any:
    """Converts a TOML or JSON value to a type.

    Null stands for an infinite number, as in the `config.json` of a run.

    Raises:
      UnfitError: if it is not of that type.
    """
    hint, origin, parts = _split(hint)
    if origin in _UNIONS:
        if type(None) in parts and (value is None or value in (NONE, "None")):
            return None
        # An integer is a number too, but keeps its type if both are allowed.
        return _first_fit(parts, lambda part: convert(part, value))
    if origin is typing.Literal and value in parts and type(value) is not bool:
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(map(convert, _kinds(parts, len(value)), value))
    if origin is dict and isinstance(value, dict):
        return {key: convert(parts[1], x) for key, x in value.items()}
    if hint is float:
        if value is None:
            return math.inf
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _number(float, value)
    if hint is str and isinstance(value, str):
        return _text(value)
    return value if hint in (bool, int) and type(value) is hint else _refuse()


def parse(hint: Any, texts: Sequence[str]) -> Any:
    """Parses the texts of an option on the command line, or of one in the name of a search.

    Raises:
      UnfitError: if they are not of that type.
    """
    hint, origin, parts = _split(hint)
    if origin in _UNIONS:
        if type(None) in parts and [x.lower() for x in texts] == [NONE]:
            return None
        return _first_fit(parts, lambda part: parse(part, texts))
    if origin is tuple:
        kinds = _kinds(parts, len(texts))
        return tuple(parse(kind, [text]) for kind, text in zip(kinds, texts, strict=True))
    if origin is dict:
        if len(texts) % 2:
            raise UnfitError
        pairs = zip(texts[::2], texts[1::2], strict=True)
        return {name: parse(parts[1], [text]) for name, text in pairs}
    if len(texts) != 1:
        raise UnfitError
    [text] = texts
    if origin is typing.Literal:
        return _first_fit(parts, lambda part: part if str(part) == text else _refuse())
    if hint is bool:
        return text.lower() == "true" if text.lower() in ("true", "false") else _refuse()
    if hint in (int, float):
        return _number(hint, text)
    return _text(text) if hint is str else _refuse()


def describe(hint: Any) -> str:
    """Describes the values of a type, for messages."""
    hint, origin, parts = _split(hint)
    if origin in _UNIONS:
        return " or ".join(map(describe, parts))
    if origin is typing.Literal:
        return f"one of {', '.join(map(repr, parts))}"
    if origin is tuple and parts[-1] is Ellipsis:
        return f"a list, each element {describe(parts[0])}"
    if origin is tuple:
        kinds = list(map(describe, parts))
        if len(set(kinds)) == 1:
            return f"a list of {len(parts)}, each element {kinds[0]}"
        return f"a list of {len(parts)}: {', '.join(kinds)}"
    if origin is dict:
        return f"a table, each value {describe(parts[1])}"
    return _WORDS.get(hint, str(hint))


def describe_texts(hint: Any) -> str:
    """Describes the texts of a type on the command line, for messages."""
    _, origin, _ = _split(hint)
    return "names, each with its value, as in size 9" if origin is dict else describe(hint)


def count_texts(hint: Any) -> int | tuple[int, ...] | Literal["*"] | None:
    """Returns the numbers of texts that a value takes; `None` for a type without texts."""
    hint, origin, parts = _split(hint)
    if origin in _UNIONS:
        counts: set[Any] = {count_texts(part) for part in parts}
        several: Any = next((x for x in (None, "*") if x in counts), tuple(sorted(counts, key=str)))
        return several if len(counts) > 1 else counts.pop()
    if origin is dict or (origin is tuple and parts[-1] is Ellipsis):
        return "*"
    if origin is tuple:
        return len(parts)
    return 1 if origin is typing.Literal or hint in _METAVARS else None


def metavar(hint: Any) -> str:
    """Returns the name of the value of a type in `--help`, as in `INT|none`."""
    hint, origin, parts = _split(hint)
    if origin in _UNIONS:
        return "|".join(map(metavar, sorted(parts, key=lambda part: part is type(None))))
    if origin is typing.Literal:
        return f"{{{','.join(map(str, parts))}}}"
    if origin is tuple and parts[-1] is Ellipsis:
        return f"[{metavar(parts[0])} ...]"
    if origin is tuple:
        return " ".join(map(metavar, parts))
    if origin is dict:
        return f"[{' '.join(map(metavar, parts))} ...]"
    return _METAVARS[hint]


def to_texts(value: Any) -> list[str]:
    """Returns the texts that `parse` reads as a value."""
    if isinstance(value, dict):
        return [text for pair in value.items() for x in pair for text in to_texts(x)]
    if isinstance(value, tuple):
        return [text for x in value for text in to_texts(x)]
    return [NONE if value is None else str(value)]


def show(value: Any) -> str:
    """Shows a TOML or JSON value in a message: booleans and null as the file has them."""
    words: dict[Any, str] = {True: "true", False: "false", None: "null"}
    is_word = value is None or isinstance(value, bool)
    return words[value] if is_word else reprlib.repr(value)


_METAVARS: dict[Any, str] = {
    **{int: "INT", float: "FLOAT", bool: "{True,False}", str: "STR"},
    type(None): NONE,
}
_UNIONS = (typing.Union, types.UnionType)
_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string without NUL",
    type(None): f'"{NONE}"',
}


def _split(hint: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Returns a type without its marks, its origin and its parts."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    return hint, typing.get_origin(hint), typing.get_args(hint)


def _kinds(parts: tuple[Any, ...], number: int) -> list[Any]:
    """Returns the type of each element of a tuple."""
    kinds = [parts[0]] * number if parts[-1] is Ellipsis else list(parts)
    return kinds if len(kinds) == number else _refuse()


def _first_fit(parts: Sequence[Any], attempt: Callable[[Any], Any]) -> Any:
    for part in parts:
        try:
            return attempt(part)
        except UnfitError:
            continue
    raise UnfitError


def _number(kind: Any, value: Any) -> Any:
    try:
        return kind(value)
    except (ValueError, OverflowError):
        raise UnfitError from None


def _text(value: str) -> str:
    """Returns a text, which must be fit for the name of a file."""
    return value if "\0" not in value else _refuse()


def _refuse() -> Any:
    raise UnfitError
