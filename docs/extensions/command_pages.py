"""Writes a page for each command: its description and its options, from the parser of the command.

A command is run with `--help`, while a function in place of `tyro.cli` keeps the parsers that it
would build. So the pages have the options that the command has.
"""

import argparse
import contextlib
import io
import pathlib
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import tyro

from dualmctx.commands import main, train
from dualmctx.policies import REGISTRY

FOLDER = "docs/reference/commands"
_HELP = ["--help"]
_PRESET = "hsr"


class Parser(NamedTuple):
    """The description of a command, and its options in the order of `--help`."""

    about: str
    options: list[argparse.Action]


def setup(app: Any) -> dict[str, bool]:
    """Writes the pages before Sphinx looks for its sources."""
    app.connect("builder-inited", lambda app: write_pages(pathlib.Path(app.srcdir, FOLDER)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(folder: pathlib.Path) -> None:
    """Writes the pages of all commands; leaves a page that is right already untouched."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {name: _page(name, row.summary) for name, row in main.SUBCOMMANDS.items()}
    pages |= {"train-searches": _searches(), "train-pipeline": _pipeline()}
    pages["index"] = _index([*pages])
    for name, text in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def _index(pages: list[str]) -> str:
    """Returns the list of all commands."""
    lines = ["# Commands", "", "Every option of every command, from the parsers of the commands."]
    lines += ["[Using the commands every day](../../commands.md) describes what they share.", ""]
    lines += ["| command | use |", "|---|---|"]
    rows = main.SUBCOMMANDS.items()
    lines += [f"| [`dualmctx {name}`]({name}.md) | {row.summary} |" for name, row in rows]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def read_parser(command: Any, arguments: list[str], program: str) -> Parser:
    """Returns the parser of a command: the options that it reads first, and all others."""
    found: list[Parser] = []

    def keep(kind: Any, **given: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            names = ("default", "registry", "config")
            parser = tyro.extras.get_parser(kind, **{x: given[x] for x in names if x in given})
        found.append(Parser(given.get("description") or "", parser._actions))
        if given.get("return_unknown_args"):
            return original(kind, **given)
        raise SystemExit(0)

    original = tyro.cli
    with mock.patch("tyro.cli", keep), contextlib.suppress(SystemExit):
        command(arguments, program) if command is train.main else command(arguments)
    options: dict[str, argparse.Action] = {}
    for parser in reversed(found):
        for action in parser.options:
            options.setdefault(_name(action), action)
    options.pop("-h", None)
    return Parser(" ".join(found[-1].about.split()), list(options.values()))


def _page(name: str, summary: str) -> str:
    program = f"dualmctx {name}"
    lines = [f"# {program}", "", f"`{program}` {summary}.", ""]
    if name == "train":
        return "\n".join([*lines, *_train(program)])
    row = main.SUBCOMMANDS[name]
    command = getattr(row.load(), row.function)
    parser = read_parser(command, _HELP, program)
    return "\n".join([*lines, _escape(parser.about), "", *_options(parser.options, program)])


def _train(program: str) -> Iterator[str]:
    """Yields the text of `dualmctx train --help`, and the options of the preset hsr."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        train.main(_HELP, program)
    yield from ("```text", shown.getvalue().strip(), "```", "")
    yield f"The defaults below are those of the preset `{_PRESET}`. The options of the search are"
    yield "on [a page of their own](train-searches.md), because they depend on its variant; so are"
    yield "those of [AlphaGo's pipeline](train-pipeline.md)."
    yield ""
    parser = read_parser(train.main, [_PRESET, *_HELP], program)
    kept = (x for x in parser.options if not _is_of_search(x))
    yield from _options(kept, f"{program} {_PRESET}")


def _searches() -> str:
    """Returns the page of the options of all variants of the search."""
    lines = ["# dualmctx train: options of the search", ""]
    lines += ["`--search.variant NAME` chooses the search, which has the options of its section."]
    for name, row in REGISTRY.items():
        program = f"dualmctx train --search.variant {name}"
        arguments = [_PRESET, "--search.variant", name, *_HELP]
        parser = read_parser(train.main, arguments, program)
        lines += ["", f"## {name}", "", f"{_escape(row.summary)}.", ""]
        early = ("--search.variant", "--search.paper")
        kept = (x for x in parser.options if _is_of_search(x) and _name(x) not in early)
        lines += _options(kept, program)
    return "\n".join(lines)


def _pipeline() -> str:
    """Returns the page of the options of all stages of AlphaGo's pipeline."""
    lines = ["# dualmctx train: AlphaGo's pipeline", ""]
    lines += ["`--pipeline STAGE` runs a stage, which has the options of its section."]
    for name, kind in train.STAGES.items():
        program = f"dualmctx train --pipeline {name}"
        parser = read_parser(train.main, ["--pipeline", name, *_HELP], program)
        lines += ["", f"## {name}", "", f"{_escape(kind.summary)}.", ""]
        lines += _options((x for x in parser.options if not _is_of_search(x)), program)
    return "\n".join(lines)


def _options(actions: Iterable[argparse.Action], program: str) -> Iterator[str]:
    """Yields the description of each option."""
    yield from (f"```{{program}} {program}", "```", "")
    for action in actions:
        names = [x for x in action.option_strings if not x.startswith("--no-")]
        value = _value(action)
        term = " ".join(filter(None, [", ".join(names), value]))
        yield from (f"````{{option}} {term}", _escape(_about(action)), "````", "")


def _name(action: argparse.Action) -> str:
    return action.option_strings[0] if action.option_strings else action.dest


def _is_of_search(action: argparse.Action) -> bool:
    return _name(action).startswith("--search.")


def _value(action: argparse.Action) -> str:
    """Returns the name of an option's value, such as `FILE`."""
    return re.sub(r"\{\[(\w+) \[\w+ \.\.\.\]\]\}", r"\1 ...", str(action.metavar or ""))


def _about(action: argparse.Action) -> str:
    """Returns the description of an option, with its default."""
    text = " ".join((action.help or "").replace("%%", "%").split())
    if any(x.startswith("--no-") for x in action.option_strings):
        off = next(x for x in action.option_strings if x.startswith("--no-"))
        text = f"{text} `{off}` is the opposite."
    return text


def _escape(text: str) -> str:
    """Returns a text of `--help` as Markdown: flags as code, names of documents as links."""
    parts = text.split("`")  # those between backticks are code already
    for i in range(0, len(parts), 2):
        marked = re.sub(r"([\\*_<>\[\]$|])", r"\\\1", parts[i])
        flag = r"(?<![\w-])(--[\w.\\-]+)"
        parts[i] = re.sub(flag, lambda found: f"`{found[1].replace(chr(92), '')}`", marked)
    text = "`".join(parts)
    return re.sub(r"\b((?:docs|games)/[\w-]+\.md)", r"[\1](../../../\1)", text)
