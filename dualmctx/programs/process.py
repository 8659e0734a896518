"""A program in a process of its own, to which lines are written and from which lines are read.

It needs POSIX.
"""

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from typing import Any

from dualmctx.errors import UserError
from dualmctx.types import Failure

MAX_BYTES = 2**20
"""The largest answer of a program."""
_SECONDS_TO_END, _MAX_ERROR = 0.2, 300
# Debian installs games here, which is not on the path of every user.
_GAMES = "/usr/games"


class ProgramError(UserError):
    """A program that does not answer as it should; `failure` has the reason."""

    def __init__(self, failure: Failure) -> None:
        """Takes the reason, whose message is the text of the error."""
        super().__init__(failure.message)
        self.failure = failure


class Program:
    """A running program; `close` ends it."""

    def __init__(self, command: str, timeout: float) -> None:
        """Starts the program of a command, as in a shell, but without a shell's operators.

        `timeout` is the longest time in seconds to wait for an answer.
        """
        self._timeout, self._unread, self._said = timeout, b"", b""
        self._process = process = _start(command)
        pipes: Any = process.stdin, process.stdout, process.stderr
        self._input, self._output, self._errors = pipes
        os.set_blocking(self._errors.fileno(), False)
        self._ready = selectors.DefaultSelector()
        for file in (self._output, self._errors):
            self._ready.register(file, selectors.EVENT_READ)

    def write(self, line: str) -> float:
        """Writes a line; returns the time, of `time.monotonic`, by which the answer must come.

        Raises:
          ProgramError: if the program has ended.
        """
        try:
            self._input.write(f"{line}\n".encode())
        except OSError:
            raise self._ended(line) from None
        return time.monotonic() + self._timeout

    def read_line(self, asked: str, end: float) -> str:
        """Returns the next line without control characters.

        Args:
          asked: the line that is to be answered, for messages.
          end: the time by which the answer must come.

        Raises:
          ProgramError: if the program ends, gives no answer in time, or writes more than 1 MiB
            before the end of the line.
        """
        while b"\n" not in self._unread:
            if len(self._unread) > MAX_BYTES:
                raise self.too_long(asked)
            ready = {x.fileobj for x, _ in self._ready.select(max(0.0, end - time.monotonic()))}
            if self._errors in ready and self._read_error() == b"":
                self._ready.unregister(self._errors)
            if self._output not in ready:
                if time.monotonic() >= end:
                    raise self._late(asked)
                continue
            data = os.read(self._output.fileno(), 2**16)
            if not data:
                raise self._ended(asked)
            self._unread += data
        if time.monotonic() > end:
            # A program may write without a pause.
            raise self._late(asked)
        line, _, self._unread = self._unread.partition(b"\n")
        return _printable(line)

    def too_long(self, asked: str) -> ProgramError:
        """Returns the error of an answer that is too long."""
        message = f"the program's answer to {asked!r} is longer than 1 MiB"
        return ProgramError(Failure("crashed", message))

    def _late(self, asked: str) -> ProgramError:
        message = f"the program gave no answer to {asked!r} in {self._timeout:g} s"
        return ProgramError(Failure("timed out", message))

    def _ended(self, asked: str) -> ProgramError:
        message = "the program closed its output"
        with contextlib.suppress(subprocess.TimeoutExpired):
            message = f"the program ended with exit code {self._process.wait(1)}"
        self._read_error()
        lines = map(_printable, reversed(self._said.splitlines()))
        said = next(filter(None, lines), "").strip()
        return ProgramError(Failure("crashed", f"{message} at {asked!r}{said and f': {said}'}"))

    def _read_error(self) -> bytes | None:
        """Keeps the end of what the program writes to stderr; returns what is new."""
        data = self._errors.read(2**16)
        self._said = (self._said + (data or b""))[-_MAX_ERROR:]
        return data

    def kill(self) -> None:
        """Kills the program and the processes that it has started; another thread may read."""
        # macOS permits no signal to a group that has ended but was not waited for.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the program, and the processes that it has started."""
        # A program ends at the end of its input.
        with contextlib.suppress(OSError):
            self._input.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_END)
        self.kill()
        self._process.wait()
        self._ready.close()
        self._output.close()
        self._errors.close()


def find_program(name: str) -> str | None:
    """Returns the path of a program, or `None` if it is not installed."""
    return shutil.which(name) or shutil.which(name, path=_GAMES)


def _printable(line: bytes) -> str:
    """Returns a line without control characters."""
    text = line.decode(errors="replace")
    return "".join(x for x in text if x.isprintable() or x == "\t").rstrip()


def _start(command: str) -> subprocess.Popen[bytes]:
    """Starts a program."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _cannot_start(command, f"it cannot be parsed: {error}") from None
    name = words[0] if words else ""
    path = find_program(name)
    if path is None:
        raise _cannot_start(command, f"there is no program {name!r}: install it, or write its path")
    pipe = subprocess.PIPE
    try:
        # In a session of its own, so that Ctrl-C reaches this process only, and `close` can end the
        # whole group of processes. Without a buffer, no data waits that `select` does not see.
        return subprocess.Popen(
            [path, *words[1:]],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise _cannot_start(command, f"it cannot be started: {error}") from None


def _cannot_start(command: str, reason: str) -> ProgramError:
    return ProgramError(Failure("crashed", f"the command is {command!r}; {reason}"))
