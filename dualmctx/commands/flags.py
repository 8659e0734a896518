"""Parses command lines: one flag per field of a dataclass; bad input gives a short message."""

import contextlib
import dataclasses
import io
import re
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import docstring_parser
import tyro

from dualmctx.commands.option_names import (
    Positional,
    Unprefixed,
    flat_names,
    hints_of,
    is_marked,
    nearest_names,
)
from dualmctx.commands.settings import apply_settings
from dualmctx.commands.settings_file import read_settings
from dualmctx.errors import UserError

__all__ = (
    "CONFIG",
    "HELP_HINT",
    "REQUIRED",
    "Positional",
    "Unprefixed",
    "named",
    "parse_flags",
    "summarize_error",
    "take_config",
    "take_flag",
)

C = TypeVar("C")
CONFIG = "--config"
"""The flag that names a file of settings."""
named = tyro.conf.arg
"""Annotates a field with the name of its value in `--help`: `metavar=...`."""
REQUIRED: Any = tyro.MISSING
"""The default of a required field."""
HELP_HINT = " (--help lists every flag)"
"""The end of every message about an invalid flag."""


def parse_flags(default: C, arguments: list[str], program: str, description: str) -> C:
    """Parses flags that change the fields of a configuration.

    The flag `--config FILE` applies the settings in a file before the other flags.

    Args:
      default: a frozen dataclass, possibly nested. Every field is a flag. A field whose type is a
        union of dataclasses has the flags of its default's type.
      arguments: the flags.
      program: the program's name, for `--help`.
      description: the program's description, for `--help`.

    Returns:
      The configuration.

    Raises:
      ValueError: if a flag or an entry of the file is invalid.
      SystemExit: with code 0, after `--help`.
    """
    file, arguments = take_config(arguments)
    if file is not None:
        default = apply_settings(default, read_settings(file), file)
    description = f"{description} {_ABOUT_CONFIG}"
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages), _joined_lines():
            parsed = tyro.cli(
                type(default),
                default=_without_dicts(default),
                args=arguments,
                prog=program,
                description=_wrap(description),
                config=(tyro.conf.AvoidSubcommands,),
            )
            return _with_dicts(parsed, default)
    except SystemExit as exit_:
        if exit_.code in (0, None):
            raise
        positional = {x for x, hint in hints_of(default).items() if is_marked(hint, Positional)}
        known = [name for name in flat_names(default) if name not in positional]
        raise UserError(summarize_error(messages.getvalue(), known, arguments)) from None


def _without_dicts(options: Any) -> Any:
    """Empties the dicts of nested dataclasses; tyro would make a flag of each of their entries."""
    changes: dict[str, Any] = {}
    for name, value in _fields(options).items():
        emptied = {} if isinstance(value, dict) else _without_dicts(value)
        if emptied is not value and value != {}:
            changes[name] = emptied
    return dataclasses.replace(options, **changes) if changes else options


def _with_dicts(parsed: Any, default: Any) -> Any:
    """Restores the dicts that no flag replaced."""
    changes: dict[str, Any] = {}
    before = _fields(default)
    for name, value in _fields(parsed).items():
        known = before.get(name)
        restored = (known or value) if value == {} else _with_dicts(value, known)
        if restored is not value:
            changes[name] = restored
    return dataclasses.replace(parsed, **changes) if changes else parsed


def _fields(options: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass that its constructor takes; of other values, none."""
    if not dataclasses.is_dataclass(options):
        return {}
    return {x.name: getattr(options, x.name) for x in dataclasses.fields(options) if x.init}


_ABOUT_CONFIG = (
    f"{CONFIG} FILE reads settings from a TOML or JSON file, in which they have the names of the "
    "flags; flags take precedence."
)


@contextlib.contextmanager
def _joined_lines() -> Iterator[None]:
    """Joins the lines of each field's docstring, so that `--help` wraps the whole text.

    tyro keeps the line breaks of docstrings whose second line is indented.
    """
    parse = docstring_parser.parse_from_object

    def parse_and_join(described: Any) -> docstring_parser.Docstring:
        docstring = parse(described)
        for field in docstring.params:
            field.description = " ".join((field.description or "").split()) or None
        return docstring

    docstring_parser.parse_from_object = parse_and_join
    try:
        yield
    finally:
        docstring_parser.parse_from_object = parse


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


def take_flag(arguments: list[str], flag: str) -> tuple[str | None, list[str]]:
    """Removes a flag from the arguments; returns its value, if any, and the other arguments."""
    for i, argument in enumerate(arguments):
        if argument.startswith(flag + "="):
            return argument.split("=", 1)[1], arguments[:i] + arguments[i + 1 :]
        if argument == flag:
            value = arguments[i + 1] if i + 1 < len(arguments) else ""
            return value, arguments[:i] + arguments[i + 2 :]
    return None, arguments


def take_config(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Removes `--config` from the arguments; returns its file, if any, and the other arguments.

    Raises:
      ValueError: if it is given twice.
    """
    file, rest = take_flag(arguments, CONFIG)
    if take_flag(rest, CONFIG)[0] is not None:
        raise UserError(f"{CONFIG} is given twice; write all settings into one file")
    return file, rest


def summarize_error(message: str, known: Sequence[str] = (), arguments: Sequence[str] = ()) -> str:
    """Reduces tyro's boxed message to its first sentence, as one line of text.

    Args:
      message: the message.
      known: the dotted names of the options, from which a misspelt one is guessed.
      arguments: the command line, from which the message quotes wrong pairs.
    """
    text = " ".join(_first_section(message))
    text = re.sub(r"^Error parsing ((Config|Options): )?", "", text)
    if unknown := re.match(r"Unrecognized options: (--[^\s,=]+)", text):
        text = f"there is no flag {unknown[1]}{_guess(unknown[1], known)}"
    text = re.sub(r"invalid literal for int\(\) with base 10: (.*)", r"\1 is not an integer", text)
    text = re.sub(r"could not convert string to float: (.*)", r"\1 is not a number", text)
    optional = r"no type matching \{None\}\|(\{.*?\}|\S+) could be instantiated from \[(.*?)\]\..*"
    text = re.sub(optional, r"\2 is not of the form \1", text)
    if pairs := re.match(r"(--\S+): Failed to parse key-value pairs!", text):
        given = _values_of(pairs[1], arguments)
        text = f"{pairs[1]} is {given}; give names, each with its value, as in {pairs[1]} size 9"
    if missing := re.match(r"Missing from [^:]*: (.*)", text):
        # tyro repeats the help of each argument.
        names = [part.split()[0] for part in missing[1].split("(required)") if part.strip()]
        text = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing"
    return text + HELP_HINT


def _values_of(flag: str, arguments: Sequence[str]) -> str:
    """Returns the values of a flag, the last time that it is given."""
    values: list[str] = []
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name, sign, value = argument.partition("=")
            name = name.replace("_", "-")
            values = [value] * bool(sign) if name == flag else values
        elif name == flag:
            values.append(argument)
    return " ".join(values) or "without values"


def _first_section(message: str) -> list[str]:
    """Returns the lines of tyro's message between its title and the next rule.

    tyro draws a box, or, if the terminal is not in UTF-8, only rules of hyphens.
    """
    lines = [line.strip("│╰╯ \t") for line in message.splitlines()]
    # The title stands in the upper edge of the box, or above the first rule.
    is_rule = [re.fullmatch(r"╭.*╮|[─-]{10,}", line) is not None for line in lines]
    start = is_rule.index(True) + 1 if True in is_rule else 0
    end = is_rule.index(True, start) if True in is_rule[start:] else len(lines)
    return [line for line in lines[start:end] if line and not set(line) <= {"─"}]


def _guess(flag: str, known: Sequence[str]) -> str:
    """Names the flags nearest to an unknown one."""
    near = nearest_names(flag.removeprefix("--").replace("-", "_"), known)
    flags = " or ".join(f"--{name.replace('_', '-')}" for name in near)
    return f"; perhaps you meant {flags}" if near else ""
