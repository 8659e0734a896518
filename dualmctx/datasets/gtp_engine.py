"""An engine that asks a program by the Go Text Protocol for its moves."""

import math
from collections.abc import Sequence

import games
from dualmctx.datasets.gtp_client import GtpError, GtpProgram, GtpRefusalError
from dualmctx.datasets.self_play import RESIGN
from dualmctx.errors import UserError
from dualmctx.types import Environment

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
