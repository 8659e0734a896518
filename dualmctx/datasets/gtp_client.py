"""A client of programs that speak the Go Text Protocol, version 2.

Source: Gunnar Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002,
sections 2.3 to 2.6 (commands and answers) and 2.11 (vertices).
"""

import contextlib
import queue
import shlex
import shutil
import subprocess
import threading
import time
from typing import Any


class GtpError(ValueError):
    """A program that does not answer, ends, or refuses a command."""


class GtpProgram:
    """A program in a process of its own; used as a context manager.

    Attributes:
      command: the command that started it.
    """

    def __init__(self, command: str, timeout: float) -> None:
        """Starts the program.

        Args:
          command: the command with its arguments, as in a shell, without a shell's operators.
          timeout: the longest time in seconds to wait for an answer.

        Raises:
          ValueError: if the command does not exist or cannot be started.
        """
        self.command, self._timeout = command, timeout
        self._process = _start(command)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(
            target=_read, args=(self._process.stdout, self._lines), daemon=True
        ).start()

    def send(self, command: str) -> str:
        """Sends a command; returns the answer without its sign.

        Raises:
          GtpError: if the program ends, gives no answer in time, or answers with an error.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except OSError:
            raise GtpError(f"{self._describe_end()} at {command!r}") from None
        answer = self._read_answer(command)
        if answer.startswith("?"):
            raise GtpError(f"the program refused {command!r}: {answer[1:].strip() or 'no reason'}")
        return answer[1:].strip()

    def _read_answer(self, command: str) -> str:
        """Returns the lines of an answer, which an empty line ends."""
        end, lines = time.monotonic() + self._timeout, []
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise GtpError(
                    f"the program gave no answer to {command!r} in {self._timeout:g} s"
                ) from None
            if line is None:
                raise GtpError(f"{self._describe_end()} at {command!r}")
            line = "".join(x for x in line if x.isprintable() or x == "\t").rstrip()
            # Text before an answer is not part of the protocol; some programs print it.
            if lines or line.startswith(("=", "?")):
                if not line:
                    return "\n".join(lines)
                lines.append(line)

    def _describe_end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1)
            return f"the program ended with exit code {code}"
        return "the program closed its output"

    def close(self) -> None:
        """Ends the program."""
        # Closing the input writes what is left in its buffer. The reader closes the output.
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(0.2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "GtpProgram":
        """Returns the program."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the program."""
        self.close()


def _start(command: str) -> subprocess.Popen[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"gtp_command is {command!r}; it cannot be parsed: {error}") from None
    name = words[0] if words else ""
    if shutil.which(name) is None:
        raise ValueError(
            f"gtp_command is {command!r}; there is no program {name!r}: install it, or write its "
            "path"
        )
    pipe = subprocess.PIPE
    try:
        # In a session of its own, so that Ctrl-C reaches this process only.
        return subprocess.Popen(
            words,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ValueError(f"gtp_command is {command!r}; it cannot be started: {error}") from None


def _read(stream: Any, lines: "queue.Queue[str | None]") -> None:
    """Puts the lines of a stream into a queue, and `None` at its end."""
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(None)
