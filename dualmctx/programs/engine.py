"""Engines: programs that choose moves, one game at a time each, and many of them side by side."""

import abc
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from dualmctx.errors import UserError
from dualmctx.programs.process import Program, ProgramError
from dualmctx.types import Environment, Failure

SEED = "{seed}"
"""The part of a command that is replaced by a number."""


class Engine(abc.ABC):
    """A program that plays one game at a time, for either side.

    It keeps its board from one move to the next. After a failure its process is ended, and the next
    game starts it again. With `{seed}` in the command, each game starts it anew.
    """

    kind: ClassVar[type[Program]]
    """The class of the program, whose objects the methods of a subclass take."""

    def __init__(self, env: Environment, command: str, timeout: float) -> None:
        """Prepares an engine; the program starts with the first move.

        `command` is that of `Program`, in which `{seed}` is replaced by the seed of a game, and
        `timeout` is the longest time in seconds to wait for an answer.
        """
        self._env, self._command, self._timeout = env, command, timeout
        self._program: Program | None = None
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
        """Starts the program, begins a game, and returns the name of the program.

        Raises:
          ProgramError: if it cannot be started, does not answer, or refuses to begin the game.
          UserError: if it does not play the game, or lacks an option.
        """
        program = self._running(0)
        name = self._name(program)
        self._begin(program)
        return name

    def kill(self) -> None:
        """Kills the program, while another thread may be waiting for its answer."""
        if self._program is not None:
            self._program.kill()

    def close(self) -> None:
        """Ends the program."""
        if self._program is not None:
            self._program.close()
        self._program, self._known = None, []

    def _restart(self, seed: int) -> Program:
        """Returns the program, ready for a new game."""
        if SEED in self._command:
            self.close()
        program = self._running(seed)
        self._begin(program)
        return program

    def _running(self, seed: int) -> Program:
        if self._program is None:
            self._program = self.kind(self._command.replace(SEED, str(seed)), self._timeout)
            self._prepare(self._program)
        return self._program

    def _parse(self, history: Sequence[int | str], text: str) -> int:
        try:
            return self._read_move(history, text.split()[0])
        except (UserError, IndexError):
            message = f"the program's move is {text[:40]!r}, which is not a move of {self._env.id}"
            raise ProgramError(Failure("illegal move", message)) from None

    @abc.abstractmethod
    def _prepare(self, program: Any) -> None:
        """Makes settings that hold for all games."""

    @abc.abstractmethod
    def _name(self, program: Any) -> str: ...

    @abc.abstractmethod
    def _begin(self, program: Any) -> None:
        """Begins a game."""

    @abc.abstractmethod
    def _ask(self, program: Any, history: Sequence[int | str], known: int) -> str | None:
        """Asks for a move, `None` to resign; `known` entries of the history are on the board."""

    @abc.abstractmethod
    def _read_move(self, history: Sequence[int | str], text: str) -> int:
        """Returns the action of a move; raises a `UserError` if the text is no move."""


class EnginePool:
    """As many engines as there are games in progress, of which a few think at a time."""

    def __init__(self, make: Callable[[], Engine], num_processes: int | None = None) -> None:
        """Starts nothing yet; `num_processes` engines think at a time, by default one per core."""
        self._make, self._number = make, num_processes or num_cores()
        self._engines: list[Engine] = []

    def begin(self) -> None:
        """Ends the games in progress: the next moves begin new ones."""
        for engine in self._engines:
            engine.new_game()

    def choose(
        self, histories: Sequence[Sequence[int | str]], seeds: Sequence[int]
    ) -> list[int | Failure]:
        """Chooses a move of each game; see `Engine.choose`."""
        executor = ThreadPoolExecutor(self._number)
        moves = [engine.choose for engine in self._assign(histories)]
        try:
            return [*executor.map(lambda choose, *game: choose(*game), moves, histories, seeds)]
        except BaseException:
            # After Ctrl-C, the threads would wait for the answers.
            for engine in self._engines:
                engine.kill()
            raise
        finally:
            executor.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Ends all programs."""
        for engine in self._engines:
            engine.close()
        self._engines = []

    def _assign(self, histories: Sequence[Sequence[int | str]]) -> list[Engine]:
        """Returns an engine for each game: the one that has played it, or else a free one."""
        unused, found = [*self._engines], list[Engine | None]()
        for history in histories:
            known = [engine.count_known(history) for engine in unused]
            found.append(unused.pop(known.index(max(known))) if any(known) else None)
        free = [engine for engine in unused if engine.is_free]
        missing = sum(engine is None for engine in found) - len(free)
        made = [self._make() for _ in range(missing)]
        self._engines += made
        spare = iter([*free, *made])
        return [engine or next(spare) for engine in found]


def num_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    # Not every operating system can restrict a process to some of the cores.
    usable = getattr(os, "sched_getaffinity", None)
    return os.cpu_count() or 1 if usable is None else len(usable(0))
