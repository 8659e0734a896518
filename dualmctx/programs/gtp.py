"""Engines that speak the Go Text Protocol, version 2.

Source: Gunnar Farnebäck, "Specification of the Go Text Protocol, version 2, draft 2", 2002,
sections 2.3 to 2.6 (commands and answers) and 2.11 (vertices).
"""

import math
from collections.abc import Sequence
from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.programs.engine import Engine
from dualmctx.programs.process import MAX_BYTES, Program, ProgramError
from dualmctx.types import Environment, Failure
from games.records import is_go

_MAX_REASON = 200
_PASS, _RESIGN = "pass", "resign"


def board_size(env: Environment) -> int | None:
    """Returns the number of rows and columns of a square board; `None` for other boards."""
    is_square = env.id in ("othello", "hex", "tic_tac_toe") or is_go(env)
    return math.isqrt(env.num_actions) if is_square else None


class GtpRefusalError(ProgramError):
    """A command that the program answered with an error."""


class GtpProgram(Program):
    """A running program that speaks GTP."""

    def send(self, command: str) -> str:
        """Sends a command; returns the answer without its sign.

        Raises:
          ProgramError: if the program ends, gives no answer in time, or writes more than 1 MiB
            before the end of its answer.
          GtpRefusalError: if it answers with an error.
        """
        end, size, lines = self.write(command), 0, []
        while True:
            line = self.read_line(command, end)
            size += len(line) + 1
            if size > MAX_BYTES:
                raise self.too_long(command)
            # Text before an answer is not part of the protocol; some programs print it.
            if lines or line.startswith(("=", "?")):
                if not line:
                    break
                lines.append(line)
        sign, answer = lines[0][0], "\n".join(lines)[1:].strip()
        if sign == "?":
            reason = answer[:_MAX_REASON] or "no reason"
            message = f"the program refused {command!r}: {reason}"
            raise GtpRefusalError(Failure("refused", message))
        return answer


class GtpEngine(Engine):
    """A program that speaks GTP.

    The sides of the game must alternate, and its moves must have the names of the protocol: the
    first side is black.
    """

    kind = GtpProgram

    def __init__(self, env: Environment, command: str, timeout: float) -> None:
        """Prepares an engine, see `Engine`."""
        if games.is_chess(env):
            raise UserError(
                f"the Go Text Protocol has no moves of {env.id}; use another engine, such as one "
                "that speaks UCI"
            )
        super().__init__(env, command, timeout)
        self._is_go = is_go(env)

    def _prepare(self, program: GtpProgram) -> None:
        """Makes none: GTP has settings of a game only."""

    def _name(self, program: GtpProgram) -> str:
        return " ".join(x for x in (program.send("name"), program.send("version")) if x)

    def _begin(self, program: GtpProgram) -> None:
        if (size := board_size(self._env)) is not None:
            # Programs of games with one size need not know the command.
            self._send_optional(program, f"boardsize {size}", is_optional=not self._is_go)
        if self._is_go:
            env: Any = self._env
            program.send(f"komi {env._game.komi:g}")
        program.send("clear_board")

    def _ask(self, program: GtpProgram, history: Sequence[Any], known: int) -> str | None:
        names = games.format_moves(self._env, None, list(history))
        for ply, name in enumerate(names[known:], start=known):
            # Some programs of Othello pass by themselves and do not know the command.
            is_optional = name == _PASS and not self._is_go
            self._send_optional(program, f"play {'BW'[ply % 2]} {name}", is_optional=is_optional)
        answer = program.send(f"genmove {'BW'[len(history) % 2]}")
        return None if answer.lower() == _RESIGN else answer

    def _send_optional(self, program: GtpProgram, command: str, *, is_optional: bool) -> None:
        try:
            program.send(command)
        except GtpRefusalError:
            if not is_optional:
                raise

    def _read_move(self, history: Sequence[Any], text: str) -> int:
        return games.parse_move(self._env, text)
