"""The names of nested options, and the names nearest to a misspelt one."""

import dataclasses
import difflib
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import tyro

Positional = tyro.conf.Positional
"""Marks a field as a positional argument."""
Unprefixed = tyro.conf.OmitArgPrefixes
"""Marks a field of nested options whose flags omit the name of the field."""
_MAX_NEAREST = 3
_MIN_SIMILARITY = 0.7


def hints_of(options: Any) -> dict[str, Any]:
    """Returns the type of each field of a dataclass, with its marks."""
    hints = typing.get_type_hints(type(options), include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(options)}


def is_marked(hint: Any, mark: Any) -> bool:
    """Returns whether a type has the mark `Positional` or `Unprefixed`."""
    [sample] = typing.get_args(mark[int])[1:]
    return any(sample is part for part in getattr(hint, "__metadata__", ()))


def flat_names(options: Any, prefix: str = "") -> Iterator[str]:
    """Yields the dotted name of each named option; a nested dataclass is a group of options."""
    for name, hint in hints_of(options).items():
        value = getattr(options, name)
        if dataclasses.is_dataclass(value):
            yield from flat_names(value, group_prefix(hint, name, prefix))
        else:
            yield prefix + name


def group_prefix(hint: Any, name: str, prefix: str) -> str:
    """Returns the prefix of the names in a group of options."""
    return prefix if is_marked(hint, Unprefixed) else f"{prefix}{name}."


def nearest_names(name: str, known: Sequence[str]) -> list[str]:
    """Returns the names that a misspelt dotted name may stand for, the likeliest first.

    The last parts are compared as well as the whole names, because a group is easily left out.
    """

    def last(text: str) -> str:
        return text.rsplit(".", 1)[-1]

    def similarity(other: str) -> float:
        pairs = ((name, other), (last(name), last(other)))
        return max(difflib.SequenceMatcher(None, x.lower(), y.lower()).ratio() for x, y in pairs)

    found = {other: similarity(other.replace("-", "_")) for other in known}
    best = max(found.values(), default=0.0)
    # One letter of a short name is a larger part of it than of a long one.
    limit = max(_MIN_SIMILARITY, best - 0.1)
    ranked = sorted(found, key=lambda other: -found[other])
    return [other for other in ranked if found[other] >= limit][:_MAX_NEAREST]
