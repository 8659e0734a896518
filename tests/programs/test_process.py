"""Processes of programs: they end with their client, and their output is limited."""

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dualmctx.programs.gtp import GtpProgram
from dualmctx.programs.process import ProgramError


@contextlib.contextmanager
def ended(tmp_path: Path, script: str, timeout: float) -> Iterator[GtpProgram]:
    """Starts a script of a shell; checks that nothing of it goes on after the end of the block.

    It is the only writer of a pipe, which ends with it; if it goes on, its file 3 receives a line.
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    script = f"exec 3>{shlex.quote(str(pipe))}; {script}"
    with contextlib.closing(GtpProgram(shlex.join(["sh", "-c", script]), timeout)) as program:
        assert program.send("name") == ""
        yield program
    os.set_blocking(reader, True)
    assert os.read(reader, 99) == b""
    os.close(reader)


ANSWER = "read x; echo =; echo"


def test_a_gtp_program_that_hangs_is_ended(tmp_path: Path) -> None:
    with ended(tmp_path, f"{ANSWER}; {ANSWER}; sleep 60; echo late >&3", 30.0) as program:
        assert program.send("genmove B") == ""
        program._timeout = 0.25
        with pytest.raises(ProgramError, match=r"gave no answer to 'genmove W' in 0\.25 s"):
            program.send("genmove W")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("while True: print('x' * 99)", "is longer than 1 MiB"),
        ("while True: print()", "gave no answer to 'name' in 0.5 s"),
        ("print('=' + 'x' * 2**22, flush=True); input(); input()", "is longer than 1 MiB"),
    ],
    ids=["text without an end", "empty lines without an end", "a long line"],
)
def test_output_without_an_end_is_not_collected(program: str, message: str) -> None:
    command = shlex.join([sys.executable, "-c", program])
    with contextlib.closing(GtpProgram(command, 0.5)) as client:
        client._timeout = 60.0 if "longer" in message else 0.5
        with pytest.raises(ProgramError, match=message):
            client.send("name")
        assert len(client._unread) < 2**21


@pytest.mark.parametrize("last", ["wait", "exit"])
def test_the_processes_that_a_program_has_started_end_with_it(last: str, tmp_path: Path) -> None:
    with ended(tmp_path, f"(sleep 60; echo late >&3) & {ANSWER}; {last}", 60.0):
        pass


def test_a_program_that_ends_has_said_why() -> None:
    """Also after many lines, of which the first are dropped."""
    much = "yes | head -c 2000000 >&2"
    script = f"{much}; {ANSWER}; {ANSWER}; echo no such network >&2; echo '\t\a' >&2; exit 3"
    with contextlib.closing(GtpProgram(shlex.join(["sh", "-c", script]), 60.0)) as program:
        assert program.send("name") == program.send("name") == ""
        with pytest.raises(ProgramError, match=r"exit code 3 at 'name': no such network$"):
            program.send("name")
        assert len(program._said) <= 300
