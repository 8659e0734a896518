"""Every command in the documents is valid: its module exists and its flags parse."""

import argparse
import importlib
import pathlib
import re
import shlex
from typing import Any, NamedTuple

import pytest

from dualmctx.commands import train
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.main import SUBCOMMANDS

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [
    *sorted(ROOT.glob("docs/*.md")),
    *(ROOT / name for name in ("README.md", "benchmarks/README.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Up to a comment, a quotation mark or a shell redirection.
COMMAND = re.compile(
    r"(python -m benchmarks\.[a-z_]+|python train\.py|(?<![\w/.-])dualmctx [a-z]+)(?![\w.])"
    r"([^#'|;<>]*)"
)
# Replacements for placeholders.
EXAMPLES = {r"\b(NAME|PRESET)\b": "hsr", r"\$\w+_SIZE": "2", r"\$\w+": "1"}


class Command(NamedTuple):
    """A command of a page: the program and its arguments."""

    page: str
    program: str
    arguments: str


def commands() -> list[Command]:
    """Returns the commands of all pages, from shell blocks and inline code."""
    found: dict[Command, None] = {}
    for page in PAGES:
        text = page.read_text()
        shell = "".join(code for language, code in FENCE.findall(text) if language == "sh")
        lines = shell.replace("\\\n", " ").splitlines()
        spans = [" ".join(x.split()) for x in re.findall(r"`([^`]+)`", FENCE.sub("", text))]
        for words in (*lines, *spans):
            for program, arguments in COMMAND.findall(words):
                filled = arguments.strip()
                for pattern, text in EXAMPLES.items():
                    filled = re.sub(pattern, text, filled)
                found[Command(str(page.relative_to(ROOT)), program, filled)] = None
    return list(found)


class Parsed(Exception):
    """Stops a benchmark after it has parsed its flags."""


def parse_benchmark(name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, given: Any = None) -> Any:
        parse(parser, given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    with pytest.raises(Parsed):
        importlib.import_module(name).main(arguments)


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_page_command_is_valid(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, name = shlex.split(command.arguments), command.program.split()[-1]
    if name.startswith("benchmarks."):
        parse_benchmark(name, arguments, monkeypatch)
    elif name in ("train", "train.py") and arguments:
        train.parse([x for x in arguments if x != "--help"])
    elif arguments:
        module: Any = importlib.import_module(SUBCOMMANDS[name].module)
        parse_flags(module.Options(), arguments, command.program, "")
    else:
        assert name in SUBCOMMANDS


def test_every_page_has_commands() -> None:
    pages = {command.page for command in commands()}
    assert {str(page.relative_to(ROOT)) for page in PAGES} - pages == set()
    # This command is wrapped over two lines.
    wrapped = "connect-four --variant alphazero --simulations 85"
    assert Command("README.md", "python -m benchmarks.strength", wrapped) in commands()
