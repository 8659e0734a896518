"""Engines that speak the Universal Chess Interface.

Source: Stefan Meyer-Kahlen, "Description of the universal chess interface (UCI)", April 2006.
`UCI_Variant`, which Gardner's chess needs, is an option of Fairy-Stockfish and others.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.programs.engine import Engine
from dualmctx.programs.process import MAX_BYTES, Program
from dualmctx.types import Environment

_VARIANT, _GARDNER = "UCI_Variant", "gardner"


class UciProgram(Program):
    """A running program that speaks UCI."""

    def ask(self, line: str, last: str) -> list[str]:
        """Writes a line; returns the answer, up to a line whose first word is `last`.

        Lines of information during a search are dropped.

        Raises:
          ProgramError: if the program ends or gives no answer in time, or if a line, or the answer
            without lines of information, is longer than 1 MiB.
        """
        end, size, found = self.write(line), 0, list[str]()
        while True:
            answer = self.read_line(line, end)
            word = answer.split(maxsplit=1)[0] if answer.strip() else ""
            if word in (last, "id", "option"):
                found.append(answer)
                size += len(answer)
            if word == last:
                return found
            if size > MAX_BYTES:
                raise self.too_long(line)


class UciEngine(Engine):
    """A program that speaks UCI."""

    kind = UciProgram

    def __init__(
        self,
        env: Environment,
        command: str,
        timeout: float,
        limits: Mapping[str, int],
        options: Mapping[str, str],
    ) -> None:
        """Prepares an engine for chess or Gardner's chess, see `Engine`.

        `limits` are the arguments of `go`, such as nodes; `options` are the program's own.
        """
        if not games.is_chess(env):
            raise UserError(f"UCI has no moves of {env.id}; use another engine, such as gtp")
        super().__init__(env, command, timeout)
        self._go = " ".join(["go", *(f"{name} {value}" for name, value in limits.items())])
        self._options = dict(options)
        self._id = ""

    def _prepare(self, program: UciProgram) -> None:
        lines = [x.split() for x in program.ask("uci", "uciok")]
        self._id = next((" ".join(x[2:]) for x in lines if x[:2] == ["id", "name"]), "")
        known = dict(_read_option(x) for x in lines if x[:2] == ["option", "name"])
        names, options = {name.lower(): name for name in known}, self._options
        if self._env.id == "gardner_chess":
            if _GARDNER not in known.get(_VARIANT, ()):
                raise UserError(
                    f"the program does not play {self._env.id}: it has no option {_VARIANT} with "
                    f"the value {_GARDNER}"
                )
            options = {_VARIANT: _GARDNER} | options
        for name, value in options.items():
            if name.lower() not in names:
                listed = ", ".join(known) or "none"
                raise UserError(f"the program has no option {name!r}; it has {listed}")
            program.write(f"setoption name {names[name.lower()]} value {value}")

    def _name(self, program: UciProgram) -> str:
        return self._id

    def _begin(self, program: UciProgram) -> None:
        program.write("ucinewgame")
        program.ask("isready", "readyok")

    def _ask(self, program: UciProgram, history: Sequence[Any], known: int) -> str | None:
        fen, start, actions = self._split(history)
        names = games.format_moves(self._env, start, actions)
        where = "startpos" if fen is None else f"fen {fen}"
        program.write(" ".join(["position", where, *(["moves", *names] if names else [])]))
        # A move to ponder on may follow.
        return " ".join(program.ask(self._go, "bestmove")[-1].split()[1:2])

    def _read_move(self, history: Sequence[Any], text: str) -> int:
        _, start, actions = self._split(history)
        # A text that is a remark and no move adds nothing.
        return games.parse_moves(self._env, [*actions, text], start)[len(actions)]

    def _split(self, history: Sequence[Any]) -> tuple[str | None, Any, list[int]]:
        """Returns the FEN, the position where the moves begin, and the moves."""
        if history and isinstance(history[0], str):
            fen = history[0].strip()
            return fen, games.read_fen(self._env, fen), list(history[1:])
        return None, None, list(history)


def _read_option(words: list[str]) -> tuple[str, list[str]]:
    """Reads `option name NAME type ...`: the name, which may have spaces, and the other words."""
    at = words.index("type") if "type" in words else len(words)
    return " ".join(words[2:at]), words[at:]
