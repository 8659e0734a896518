"""An engine: a program that chooses the moves of one game at a time."""

import abc
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from dualmctx.errors import UserError
from dualmctx.programs.process import Program, ProgramError
from dualmctx.types import Environment, Failure

SEED = "{seed}"
"""The part of a command that is replaced by a number."""
P = TypeVar("P", bound=Program)


class Engine(abc.ABC, Generic[P]):
    """A program that plays one game at a time, for either side.

    It keeps its board from one move to the next. After a failure its process is ended, and the next
    game starts it again. With `{seed}` in the command, each game starts it anew.
    """

    def __init__(self, env: Environment, command: str, timeout: float) -> None:
        """Prepares an engine; the program starts with the first move.

        Args:
          env: a game of `games.make`.
          command: the command, as for `Program`; `{seed}` is replaced by the seed of a game.
          timeout: the longest time in seconds to wait for an answer.
        """
        self._env, self._command, self._timeout = env, command, timeout
        self._program: P | None = None
        self._known: list[Any] = []

    def choose(self, history: Sequence[int | str], seed: int) -> int | Failure:
        """Chooses a move; its legality is not checked.

        Args:
          history: the actions so far; a FEN comes first if they do not begin at the start.
          seed: a number for a program that is started anew.
        """
        known = self.count_known(history)
        try:
            program = self._program if known else self._restart(seed)
            assert program is not None
            text = self._ask(program, history, known)
            action = None if text is None else self._parse(history, text)
        except ProgramError as error:
            self.close()
            return error.failure
        if action is None:
            self.new_game()
            return Failure("resigned", "the program resigned")
        self._known = [*history, action]
        return action

    def count_known(self, history: Sequence[int | str]) -> int:
        """Returns how many entries of a history the program has on its board; 0 if others too."""
        known = len(self._known)
        is_later = known <= len(history) and [*history[:known]] == self._known
        return known if is_later else 0

    @property
    def is_free(self) -> bool:
        """Whether no game is in progress."""
        return not self._known

    def new_game(self) -> None:
        """Makes the next move begin a game, which does not depend on the one before."""
        self._known = []

    def identify(self) -> str:
        """Starts the program, and returns its name.

        Raises:
          ProgramError: if it cannot be started, or does not answer.
          UserError: if it does not play the game, or lacks an option.
        """
        return self._name(self._running(0))

    def kill(self) -> None:
        """Kills the program, while another thread may be waiting for its answer."""
        if self._program is not None:
            self._program.kill()

    def close(self) -> None:
        """Ends the program."""
        if self._program is not None:
            self._program.close()
        self._program, self._known = None, []

    def _restart(self, seed: int) -> P:
        """Returns the program, ready for a new game."""
        if SEED in self._command:
            self.close()
        program = self._running(seed)
        self._begin(program)
        return program

    def _running(self, seed: int) -> P:
        if self._program is None:
            self._program = self._open(self._command.replace(SEED, str(seed)))
            self._prepare(self._program)
        return self._program

    def _illegal(self, text: str) -> ProgramError:
        message = f"the program's move is {text[:40]!r}, which is not a move of {self._env.id}"
        return ProgramError(Failure("illegal move", message))

    def _parse(self, history: Sequence[int | str], text: str) -> int:
        try:
            return self._read_move(history, text.split()[0])
        except (UserError, IndexError):
            raise self._illegal(text) from None

    @abc.abstractmethod
    def _open(self, command: str) -> P:
        """Starts the program."""

    @abc.abstractmethod
    def _prepare(self, program: P) -> None:
        """Makes settings that hold for all games."""

    @abc.abstractmethod
    def _name(self, program: P) -> str:
        """Returns the name of the program."""

    @abc.abstractmethod
    def _begin(self, program: P) -> None:
        """Begins a game."""

    @abc.abstractmethod
    def _ask(self, program: P, history: Sequence[int | str], known: int) -> str | None:
        """Asks for a move after a history of which `known` entries are on the board.

        Returns:
          The text of the move, or `None` if the program resigns.
        """

    @abc.abstractmethod
    def _read_move(self, history: Sequence[int | str], text: str) -> int:
        """Returns the action of a move; raises a `UserError` if the text is no move."""
