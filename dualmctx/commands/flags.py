"""Parses command lines: one flag per field of a dataclass; bad input gives a short message."""

import dataclasses
import reprlib
import shutil
import textwrap
import typing
from typing import Annotated, Any, TypeVar, cast

import docstring_parser
import tyro

from dualmctx.commands.settings import apply_settings, read_settings
from dualmctx.errors import UserError
from dualmctx.typed_values import NONE, describe_type, hints_of

C = TypeVar("C")
CONFIG = "--config"
"""The flag that names a file of settings."""
Positional = tyro.conf.Positional
"""Marks a field as a positional argument."""
named = tyro.conf.arg
"""Annotates a field with the name of its value in `--help`: `metavar=...`."""
Switch = tyro.conf.FlagCreatePairsOff[bool]
"""A flag without a value and without an opposite."""
REQUIRED: Any = tyro.MISSING
"""The default of a required field."""


@dataclasses.dataclass(frozen=True)
class ConfigFlag:
    """The flag that names a file of settings, for every command."""

    config: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, named(metavar="FILE")] = ()
    """A file of settings."""

    def __post_init__(self) -> None:
        """Checks that there is one file at most."""
        if len(self.config) > 1:
            raise UserError(f"{CONFIG} is given twice; write all settings into one file")


def parse_flags(default: C, arguments: list[str], program: str, description: str) -> C:
    """Parses flags that change the fields of a configuration.

    The flag `--config FILE` applies the settings in a file before the other flags. Only the main
    thread may call this function, because tyro keeps caches of the process. Options that come as
    data are read by `dualmctx.typed_values`.

    Args:
      default: a frozen dataclass, possibly nested. Every field is a flag, except functions; the
        entry `aliases` in its metadata has further names of the flag. A field whose type is a union
        of dataclasses has the flags of its default's type.
      arguments: the flags.
      program: the program's name, for `--help`.
      description: the program's description, for `--help`.

    Returns:
      The configuration.

    Raises:
      UserError: if an entry of the file is invalid, or the values do not fit each other.
      SystemExit: with code 0 after `--help`; with code 2 and tyro's message on standard error if
        there is no such flag, or its value is of another type.
    """
    early, arguments = take_flags(ConfigFlag(), arguments, program)
    for file in early.config:
        default = apply_settings(default, read_settings(file), file)
    parsed: Any = tyro.cli(
        type(default),
        default=default,
        args=arguments,
        prog=program,
        description=_wrap(f"{description} {_ABOUT_CONFIG}"),
        registry=make_registry(),
    )
    return _replace(default, parsed)


def take_flags(default: C, arguments: list[str], program: str) -> tuple[C, list[str]]:
    """Parses the flags that must be known before the others.

    Args:
      default: a frozen dataclass with these flags.
      arguments: all arguments.
      program: the program's name, for messages.

    Returns:
      The options, and the other arguments, with `--help` among them.

    Raises:
      UserError: if the values do not fit each other.
      SystemExit: with code 2, if a value is missing or of another type.
    """
    asks = [x for x in arguments if x in ("-h", "--help")]
    parsed, rest = tyro.cli(
        type(default),
        default=default,
        args=[x for x in arguments if x not in asks],
        prog=program,
        registry=make_registry(),
        return_unknown_args=True,
    )
    return _replace(default, cast(Any, parsed)), [*rest, *asks]


def optional_value(metavar: str) -> Any:
    """Annotates a text whose flag may stand alone, which is the empty text."""
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=(0, 1),
        metavar=f"[{metavar}]",
        instance_from_str="".join,
        is_instance=lambda value: value is None or isinstance(value, str),
        str_from_instance=lambda value: [value or ""],
    )


def _replace(default: C, parsed: dict[str, Any], prefix: str = "") -> C:
    """Returns options with the parsed values, in which nested options are dictionaries.

    The dataclasses are built here, because tyro takes every `ValueError` for one of the user.
    """
    options, changes = cast(Any, default), dict(parsed)
    for name, value in parsed.items():
        current = getattr(options, name)
        if dataclasses.is_dataclass(current):
            changes[name] = _replace(current, value, f"{prefix}{name}.")
    try:
        return dataclasses.replace(options, **changes)
    except UserError as error:
        raise UserError(f"{prefix[:-1]}: {error}" if prefix else str(error)) from error


def make_registry() -> tyro.constructors.ConstructorRegistry:
    """Returns the rules by which tyro makes flags of our options."""
    registry = tyro.constructors.ConstructorRegistry()
    registry.struct_rule(_make_group)
    registry.primitive_rule(_make_value)
    registry.primitive_rule(_make_none)
    return registry


def _make_group(
    info: tyro.constructors.StructTypeInfo,
) -> tyro.constructors.StructConstructorSpec | None:
    """Makes the flags of a dataclass; they are parsed to a dictionary."""
    options = info.default
    if not dataclasses.is_dataclass(options):
        return None
    descriptions = {
        field.arg_name: " ".join((field.description or "").split())
        for base in reversed(type(options).__mro__)
        if dataclasses.is_dataclass(base)
        for field in docstring_parser.parse_from_object(base).params
    }
    aliases = {x.name: x.metadata.get("aliases") for x in dataclasses.fields(options)}
    fields: list[tyro.constructors.StructFieldSpec] = []
    for name, hint in hints_of(options).items():
        value = getattr(options, name)
        marks = getattr(hint, "__metadata__", ())
        marks += (named(aliases=aliases[name]),) if aliases[name] else ()
        if dataclasses.is_dataclass(value):
            hint = type(value)
        elif callable(value):
            continue
        elif value is None or value in ((), {}):
            # The description gives the meaning of this default.
            hint = Annotated[hint, tyro.conf.arg(help_behavior_hint="")]
        # The marks of a field come last, because they take precedence.
        marked: Any = Annotated[hint, *marks] if marks else hint
        description = descriptions.get(name) or None
        fields.append(tyro.constructors.StructFieldSpec(name, marked, value, description))
    return tyro.constructors.StructConstructorSpec(dict, tuple(fields))


def _make_value(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec | None:
    """Makes the value of a flag as tyro does, with `none` for no value and our message."""
    hint: Any = info.type
    # tyro checks words and switches itself, and names them.
    if hint is bool or typing.get_origin(hint) is typing.Literal or _PLAIN in info.markers:
        return None
    # The mark also reaches the parts of the type, for which tyro asks this function.
    plain = dataclasses.replace(info, markers=info.markers | {_PLAIN})
    spec = tyro.constructors.ConstructorRegistry.get_primitive_spec(plain)
    if not isinstance(spec, tyro.constructors.PrimitiveConstructorSpec):
        return None

    def read(texts: list[str]) -> Any:
        try:
            return spec.instance_from_str(texts)
        except ValueError:
            # tyro prints the message with the name of the flag.
            given = reprlib.repr(" ".join(texts))
            raise ValueError(f"{given} is given; it must be {describe_type(hint)}") from None

    # tyro has the words of a union in a random order.
    choices = spec.choices and tuple(sorted({*spec.choices} - {NONE.title()}))
    return dataclasses.replace(spec, instance_from_str=read, choices=choices)


def _make_none(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec | None:
    """Makes the word for no value, the same as in files."""
    if info.type is not type(None):
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=NONE,
        choices=(NONE, NONE.title()),
        instance_from_str=lambda texts: None,
        is_instance=lambda value: value is None,
        str_from_instance=lambda value: [NONE],
    )


_PLAIN: Any = object()
"""Marks a type that tyro itself makes a value of."""
_ABOUT_CONFIG = (
    f"{CONFIG} FILE reads settings from a TOML or JSON file, in which they have the names of the "
    "flags; flags take precedence."
)


def _wrap(description: str) -> str:
    """Wraps a description to the width of the terminal.

    tyro does not wrap it, and keeps the breaks before lines that start with a space.
    """
    return textwrap.fill(
        description,
        shutil.get_terminal_size().columns,
        initial_indent=" ",
        subsequent_indent=" ",
        break_long_words=False,
        break_on_hyphens=False,
    )
