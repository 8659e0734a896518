"""A client of programs that speak the Go Text Protocol, version 2. It needs POSIX.

Source: Gunnar Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002,
sections 2.3 to 2.6 (commands and answers) and 2.11 (vertices).
"""

import contextlib
import math
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import NoReturn

import games
from dualmctx.datasets.self_play import RESIGN
from dualmctx.errors import UserError
from dualmctx.types import Environment

_SECONDS_TO_END = 0.2
_MAX_BYTES = 2**20
_MAX_REASON = 200


class GtpError(UserError):
    """A program that does not answer, ends, or refuses a command."""


class GtpRefusalError(GtpError):
    """A command that the program answered with an error."""


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
        self._process, self._unread = _start(command), b""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._output, selectors.EVENT_READ)

    def send(self, command: str) -> str:
        """Sends a command; returns the answer without its sign.

        Raises:
          GtpError: if the program ends, gives no answer in time, or writes more than 1 MiB before
            the end of its answer.
          GtpRefusalError: if it answers with an error.
        """
        try:
            self._input.write(f"{command}\n".encode())
        except OSError:
            raise GtpError(f"{self._describe_end()} at {command!r}") from None
        answer = self._read_answer(command)
        if answer.startswith("?"):
            reason = answer[1:].strip()[:_MAX_REASON] or "no reason"
            raise GtpRefusalError(f"the program refused {command!r}: {reason}")
        return answer[1:].strip()

    def _read_answer(self, command: str) -> str:
        """Returns the lines of an answer, which an empty line ends."""
        end, size, lines = time.monotonic() + self._timeout, 0, []
        while True:
            data = self._read_line(command, end)
            size += len(data)
            if size > _MAX_BYTES:
                raise GtpError(f"the program's answer to {command!r} is longer than 1 MiB")
            line = "".join(x for x in data.decode(errors="replace") if x.isprintable() or x == "\t")
            # Text before an answer is not part of the protocol; some programs print it.
            if lines or line.startswith(("=", "?")):
                if not line.strip():
                    return "\n".join(lines)
                lines.append(line.rstrip())

    def _read_line(self, command: str, end: float) -> bytes:
        """Returns the next line; of a line that is too long, the part that has been read."""
        while b"\n" not in self._unread and len(self._unread) <= _MAX_BYTES:
            if not self._ready.select(max(0.0, end - time.monotonic())):
                self._raise_late(command)
            data = os.read(self._output.fileno(), 2**16)
            if not data:
                raise GtpError(f"{self._describe_end()} at {command!r}")
            self._unread += data
        if time.monotonic() > end:
            # A program may write without a pause.
            self._raise_late(command)
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _raise_late(self, command: str) -> NoReturn:
        raise GtpError(f"the program gave no answer to {command!r} in {self._timeout:g} s")

    def _describe_end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1)
            return f"the program ended with exit code {code}"
        return "the program closed its output"

    def close(self) -> None:
        """Ends the program, and the processes that it has started."""
        # A program ends at the end of its input.
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._ready.close()
        self._output.close()

    def __enter__(self) -> "GtpProgram":
        """Returns the program."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the program."""
        self.close()


def _start(command: str) -> subprocess.Popen[bytes]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"gtp_command is {command!r}; it cannot be parsed: {error}") from None
    name = words[0] if words else ""
    if shutil.which(name) is None:
        raise UserError(
            f"gtp_command is {command!r}; there is no program {name!r}: install it, or write its "
            "path"
        )
    pipe = subprocess.PIPE
    try:
        # In a session of its own, so that Ctrl-C reaches this process only, and `close` can end the
        # whole group of processes. Without a buffer, no data waits that `select` does not see.
        return subprocess.Popen(
            words,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(f"gtp_command is {command!r}; it cannot be started: {error}") from None


_COLORS, _PASS = ("B", "W"), "pass"
SEED = "{seed}"
"""The part of a command that is replaced by a number."""


class GtpEngine:
    """Plays both sides of one game at a time.

    The program keeps its board from one move to the next. The sides of the game must alternate, and
    its moves must have the names of the protocol: the first side is black.
    """

    def __init__(self, env: Environment, command: str, timeout: float) -> None:
        """Prepares an engine; the program starts with the first move."""
        self._env, self._command, self._timeout = env, command, timeout
        self._is_go = env.id.startswith("go_")
        self._program: GtpProgram | None = None
        self._moves: list[int] = []

    def choose(self, histories: list[list[int]], seeds: list[int]) -> list[int | str]:
        """Chooses a move of each game; see `self_play.ChooseFn`."""
        return [*map(self._choose, histories, seeds)]

    def _choose(self, history: list[int], seed: int) -> int | str:
        try:
            program = self._prepare(history, seed)
            answer = program.send(f"genmove {_COLORS[len(history) % 2]}")
            if answer.lower() == RESIGN:
                self.new_game()
                return RESIGN
            self._moves = [*history, self._parse(answer)]
            return self._moves[-1]
        except GtpError as error:
            self.close()
            return str(error)

    def _parse(self, answer: str) -> int:
        try:
            return games.parse_move(self._env, answer.split()[0])
        except (UserError, IndexError):
            raise GtpError(
                f"the program's move is {answer[:40]!r}, which is not a move of {self._env.id}"
            ) from None

    def new_game(self) -> None:
        """Makes the next move clear the board, so that a game does not depend on the one before."""
        self._moves = []

    def _prepare(self, history: list[int], seed: int) -> GtpProgram:
        """Returns the program with the position after a history on its board."""
        known = len(self._moves)
        is_later = 0 < known <= len(history) and history[:known] == self._moves
        if self._program is None or not is_later:
            known = 0
            self._begin(seed)
        assert self._program is not None
        for ply, name in enumerate(self._names(history)[known:], start=known):
            try:
                self._program.send(f"play {_COLORS[ply % 2]} {name}")
            except GtpRefusalError:
                # Some programs of Othello pass by themselves and do not know the command.
                if name != _PASS or self._is_go:
                    raise
        return self._program

    def _begin(self, seed: int) -> None:
        """Clears the board of the program, or starts it."""
        if SEED in self._command:
            self.close()
        if self._program is None:
            command = self._command.replace(SEED, str(seed))
            self._program = GtpProgram(command, self._timeout)
        size = math.isqrt(self._env.num_actions)
        try:
            self._program.send(f"boardsize {size}")
        except GtpRefusalError:
            # Programs of games with one size need not know the command.
            if self._is_go:
                raise
        if self._is_go:
            self._program.send(f"komi {self._env._game.komi:g}")  # pyright: ignore
        self._program.send("clear_board")

    def _names(self, history: Sequence[int]) -> list[str]:
        return games.format_moves(self._env, None, list(history))

    def close(self) -> None:
        """Ends the program."""
        if self._program is not None:
            self._program.close()
        self._program, self._moves = None, []
