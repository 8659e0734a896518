"""Runs commands that are refused, also those whose flags tyro refuses."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from dualmctx.commands.main import main


def exit_code(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Returns the exit code of a command; tyro exits itself if a flag is wrong."""
    try:
        return command(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


def refusal(
    command: Callable[[list[str]], int],
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    program: str = "dualmctx train",
) -> str:
    """Runs a command that must be refused; returns its only line, or the message of tyro."""
    capsys.readouterr()
    assert exit_code(command, arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    if "For full helptext" in said.err:
        return unbox(said.err)
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"{program}: ")
    return said.err


def refused(arguments: list[str], capture: Any) -> str:
    """Runs `dualmctx` with arguments that must be refused; returns as `refusal`."""
    return refusal(main, arguments, capture, f"dualmctx {arguments[0]}")


def unbox(message: str) -> str:
    """Returns the words of a message without the box that tyro draws around it."""
    return " ".join(re.sub(r"[╭╮╰╯│─]|-{10,}", " ", message).split())
