"""The searches of a session: one at a time, on the tree that is kept from move to move."""

import dataclasses
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from dualmctx.errors import UserError
from dualmctx.game_files.questions import Question, Row, questions_of_every_kind
from dualmctx.protocols.running_game import RunningGame
from dualmctx.runs.saved_network import Trained
from dualmctx.serving.engine import Engine, EngineOptions
from dualmctx.serving.requests import Analysis
from dualmctx.serving.tasks import can_deepen, to_chunk, total_simulations
from dualmctx.training.divergence import first_line
from dualmctx.types import Environment, Policy

# A row after each step.
_ALWAYS = 1e-9


class EngineError(UserError):
    """A network cannot be loaded or its search not be compiled, so that the session ends."""


class Found(NamedTuple):
    """A row of a search: the number of the search, and its result so far or its last one."""

    search: int
    row: Row


class Events:
    """Lines of the input and rows of searches, in the order in which they arrive.

    All methods but `put` are called by one thread.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        """Starts the thread that reads. It is a daemon, because it may wait for input forever."""
        self._arrived: queue.SimpleQueue[str | Found | None] = queue.SimpleQueue()
        self._kept: deque[str | None] = deque()
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterable[str]) -> None:
        try:
            for line in lines:
                self.put(line)
        finally:
            self.put(None)

    def put(self, event: str | Found | None) -> None:
        """Adds a line, a row, or the end of the input."""
        self._arrived.put(event)

    def put_back(self, lines: Iterable[str | None]) -> None:
        """Makes lines that `next` has returned the next ones again."""
        self._kept.extendleft(reversed([*lines]))

    def next(self, deadline: float | None = None) -> str | Found | None:
        """Waits for the next line or row; returns `None` at the end of the input.

        Raises a `TimeoutError` after the deadline, a time of `time.monotonic`.
        """
        if self._kept:
            return self._kept.popleft()
        seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            return self._arrived.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None


def read_lines(file: Iterable[bytes]) -> Iterable[str]:
    """Decodes lines as UTF-8; wrong bytes are replaced, and ends of lines removed."""
    return (line.decode(errors="replace").rstrip("\r\n") for line in file)


class Limits(NamedTuple):
    """The limits of a search in simulations.

    Attributes:
      simulations: the simulations of the tree, with those of the kept tree; `None` for as many as
        the trees hold.
      is_clocked: whether time runs, so that no program may be compiled. A search that cannot
        continue from its trees then has at most its own budget.
    """

    simulations: int | None = None
    is_clocked: bool = False


@dataclasses.dataclass
class Ending:
    """When a search ends besides its limits, but not before its first step.

    Attributes:
      deadline: the time, of `time.monotonic`, at which its result is due; `None` for no limit.
      waits: whether it goes on until a line stops it, also when its trees are full.
      depth: the length of the expected line at which it ends; `None` for no limit.
      is_stopped: whether it ends with its first row, or at once if there is one.
    """

    deadline: float | None = None
    waits: bool = False
    depth: int | None = None
    is_stopped: bool = False

    def is_reached(self, row: Row) -> bool:
        """Returns whether a search with a row ends now."""
        is_late = self.deadline is not None and time.monotonic() >= self.deadline
        is_deep = self.depth is not None and len(row["pv"]) >= self.depth
        is_last = row.get("final") is not False
        return self.is_stopped or (not self.waits and (is_last or is_deep or is_late))


class Thinker:
    """An engine with one search at a time, whose rows arrive as events.

    The rows of search 0 are those of the start, during which the network is loaded and the programs
    are compiled, in a thread of their own. The public methods are called by one other thread.

    Attributes:
      budget: the simulations of the search by default.
      game: a game at its start; if it was not given, after `wait`.
    """

    game: RunningGame

    def __init__(
        self,
        load: Callable[[], Trained],
        policy: Policy,
        options: EngineOptions,
        events: Events,
        game: RunningGame | None = None,
    ) -> None:
        """Loads and compiles in other threads, because some clients soon expect a first answer.

        `events` receives the rows, between the lines of the client. The policy is without noise,
        and the game, made with the network by default, is at its start.
        """
        if game is not None:
            self.game = game
        self.budget, self._number, self._name = total_simulations(policy), 0, ""
        self._max_simulations, self._events = options.max_simulations, events
        self._continues = can_deepen(policy)
        # A step that is larger than the budget would exceed it.
        options = options._replace(chunk_size=min(self.budget, options.chunk_size))
        chunk = to_chunk(policy, options.chunk_size) if self._continues else None
        self._step = 1 if chunk is None else total_simulations(chunk)
        self._engine: Engine | None = None
        self._failure = "the engine did not start"
        self._compiling, self._is_closed = 1, threading.Event()

        def start(trained: Trained) -> None:
            self._engine = Engine(trained, lambda variant: policy, options)
            self._compile(trained.env)
            # The engine goes on compiling.
            self.game = RunningGame(trained.env) if game is None else game
            self.game.compile()

        self._start_up = threading.Thread(target=self._load, args=(load, start), daemon=True)
        self._start_up.start()

    def _load(self, load: Callable[[], Trained], start: Callable[[Trained], None]) -> None:
        """Loads the network, and starts with it unless the session is closed."""
        row: Row = {}
        try:
            trained = load()
            if not self._is_closed.is_set():
                start(trained)
        except UserError as error:
            row = {"error": str(error)}
        except BaseException as error:  # Without a row, the session would wait for ever.
            row = {"error": f"the engine cannot start: {first_line(error)}"}
        self._failure = row.get("error", self._failure)
        self._events.put(Found(0, row))

    def _compile(self, env: Environment) -> None:
        """Searches positions of every kind, to compile all programs."""
        limits = Limits(self._step if self._continues else None, is_clocked=True)
        searches = [(question, limits) for question in questions_of_every_kind(env)]
        if not self._continues:
            # Without a clock, its program is another one.
            searches.append((Question(0, 0), Limits(self.budget)))
        # Their rows arrive later, so that the other thread does not count yet.
        self._compiling += len(searches)
        for question, given in searches:
            self._submit(0, question, given)

    def wait(self) -> bool:
        """Waits for the end of the compilation, or for `quit`; lines stay for later.

        Returns whether all programs are compiled that a search under a clock needs. Raises an
        `EngineError` if the network cannot be loaded, or the search does not fit into memory.
        """
        lines = list[str | None]()
        while self._compiling and not (lines and "quit" in (lines[-1] or "").split()):
            event = self._events.next()
            if isinstance(event, Found):
                self._note(event)
            else:
                lines.append(event)
        self._events.put_back(lines)
        return not self._compiling

    def next_line(self) -> str | None:
        """Waits for the next line; `None` at the end of the input. It raises errors as `wait`."""
        while isinstance(event := self._events.next(), Found):
            self._note(event)
        return event

    def _note(self, found: Found) -> None:
        """Counts the rows of the start, and drops the others."""
        if found.search == 0 and found.row.get("final") is not False:
            error = found.row.get("error")
            if error is not None and not error.startswith("move "):
                raise EngineError(error)
            self._compiling -= 1

    def search(
        self,
        game: RunningGame,
        limits: Limits,
        ending: Ending,
        *,
        hear: Callable[[str | None], bool],
        report: Callable[[Row], None] = lambda row: None,
        every: float = math.inf,
        allowed: tuple[int, ...] | None = None,
    ) -> Row:
        """Searches the last position of a game, which is not over, for at least one step.

        Args:
          game: the game.
          limits: the limits in simulations.
          ending: the other limits, which lines may change.
          hear: hears each line that arrives during the search, `None` at the end of the input;
            returns whether it has answered the line. The other lines stay for later.
          report: takes the first row, rows at intervals, and the last row.
          every: seconds from one report to the next.
          allowed: the legal actions among which the search chooses; `None` for all.

        Returns:
          The last row that arrived in time.
        """
        number, lines = self._start(game, limits, allowed), list[str | None]()
        row, reported, due = None, None, -math.inf
        try:
            while row is None or not ending.is_reached(row):
                is_timed = row is not None and not ending.waits
                try:
                    event = self._events.next(ending.deadline if is_timed else None)
                except TimeoutError:
                    continue
                if not isinstance(event, Found):
                    lines += [] if hear(event) else [event]
                elif event.search == number:
                    row = event.row
                    if "error" in row:
                        raise UserError(row["error"])
                    if time.monotonic() >= due:
                        report(row)
                        reported, due = row, time.monotonic() + every
        finally:
            self._stop()
            self._events.put_back(lines)
        if row is not reported:
            report(row)
        return row

    def _start(self, game: RunningGame, limits: Limits, allowed: tuple[int, ...] | None) -> int:
        """Starts a search; returns its number. Each step gives a row."""
        # A client may ask for a move and to quit before the engine has started.
        self._start_up.join()
        if self._engine is None:
            raise EngineError(self._failure)
        self._number += 1
        question = Question(0, 0, list(game.actions), game.fen, allowed=allowed)
        self._submit(self._number, question, limits)
        return self._number

    def _submit(self, number: int, question: Question, limits: Limits) -> None:
        assert self._engine is not None
        self._name = self._engine.submit(
            question, self._analysis(limits), lambda row: self._events.put(Found(number, row))
        )

    def _analysis(self, limits: Limits) -> Analysis:
        largest = self._max_simulations
        if limits.is_clocked and not self._continues:
            largest = min(largest, self.budget)
        simulations = largest if limits.simulations is None else min(limits.simulations, largest)
        is_staged = limits.is_clocked or limits.simulations is None or self._continues
        return Analysis(
            # A smaller budget than a step would need a program of its own.
            simulations=(max(simulations, self._step),),
            report_every=_ALWAYS if is_staged else None,
            is_maximum=True,
        )

    def _stop(self) -> None:
        """Ends the search in progress, if there is one, after its step."""
        assert self._engine is not None
        self._engine.cancel(self._name)

    def clear(self) -> None:
        """Drops the kept trees."""
        if self._engine is not None:
            self._engine.clear()

    def close(self, seconds: float) -> bool:
        """Ends the engine; returns whether its threads have ended within some seconds."""
        self._is_closed.set()
        deadline = time.monotonic() + seconds
        if self._engine is not None:
            self._engine.close()
        self._start_up.join(seconds)
        if self._start_up.is_alive():
            return False
        if self._engine is None:
            return True
        self._engine.close()
        return self._engine.join(max(0.0, deadline - time.monotonic()))
