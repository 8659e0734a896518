"""A session of the Universal Chess Interface: the position, the search in progress, the answers."""

import dataclasses
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.answers import shorten
from dualmctx.evaluation.questions import Row
from dualmctx.protocols.clock import Clock, seconds_for_move
from dualmctx.protocols.events import LATE, Events, Found
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Limits, Thinker
from dualmctx.protocols.uci_info import format_info, format_statistics
from dualmctx.protocols.uci_options import OptionTable, UciOptions
from dualmctx.protocols.uci_text import Go, Placed, parse_go, parse_option, parse_position
from dualmctx.version import __version__

NO_MOVE = "0000"
"""The move of a finished game."""
_REPORT_SECONDS = 0.1
_VARIANTS = {"gardner_chess": "gardner"}
_IGNORED = ("debug", "register")


@dataclasses.dataclass
class _Running:
    """A search in progress.

    Attributes:
      number: its number.
      go: its arguments.
      begin: the time at which it began, of `time.monotonic`.
      deadline: the time at which its move is due; `None` for no limit.
      waits: whether it ends only after `stop`, or `ponderhit`.
      row: the result so far.
      is_stopped: whether it ends with its first result.
      reported: the time of the last report.
    """

    number: int
    go: Go
    begin: float
    deadline: float | None
    waits: bool
    row: Row | None = None
    is_stopped: bool = False
    reported: float = 0.0


class UciSession:
    """Answers lines and rows of the search in the order of their arrival."""

    def __init__(
        self,
        game: RunningGame,
        thinker: Thinker,
        events: Events,
        write: Callable[[str], None],
        options: UciOptions,
        max_simulations: int,
    ) -> None:
        """Takes the parts of the session; `write` writes lines at once."""
        self._game, self._thinker, self._events, self._write = game, thinker, events, write
        self.options = options
        self._table = OptionTable(
            options, max_simulations, thinker.clear, _VARIANTS.get(game.env.id, "")
        )
        self._placed, self._problem = Placed(), ""
        self._running: _Running | None = None
        # What waits for the end of the compilation.
        self._waiting: list[Callable[[], None]] = []
        # What arrived while a search had to end.
        self._lines: deque[str | None] = deque()
        self._is_ended = False
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "uci": self._introduce,
            "isready": lambda _: self._when_ready(lambda: self._say("readyok")),
            "setoption": lambda words: self._table.set(*parse_option(words)),
            "ucinewgame": self._begin_game,
            "position": self._place,
            "go": self._go,
            "stop": self._stop,
            "ponderhit": self._hit,
            "quit": self._quit,
        } | dict.fromkeys(_IGNORED, lambda words: None)

    def run(self) -> None:
        """Answers lines until `quit`, or until the end of the input and of a search with a limit.

        Raises:
          UserError: if the search cannot be compiled.
        """
        while not self._is_ended:
            running = self._running
            is_due = running is not None and running.row is not None
            if self._lines:
                event = self._lines.popleft()
            else:
                event = self._events.next(running.deadline if running and is_due else None)
            if event is None:
                self._end_input()
            elif event is LATE:
                self._finish()
            elif isinstance(event, Found):
                self._take(event)
            else:
                self.answer(event)

    def _end_input(self) -> None:
        self._when_ready(lambda: None)
        while self._waiting or (self._running is not None and not self._running.waits):
            running = self._running
            event = self._events.next(running.deadline if running and running.row else None)
            if event is LATE:
                self._finish()
            elif isinstance(event, Found):
                self._take(event)
        self._is_ended = True

    def answer(self, line: str) -> None:
        """Answers a line."""
        words = line.split()
        if not words:
            return
        run = self._commands.get(words[0])
        try:
            if run is None:
                raise UserError(f"there is no command {words[0][:40]!r}")
            run(words[1:])
        except UserError as error:
            self._complain(str(error))

    def _say(self, *lines: str) -> None:
        self._write("".join(f"{line}\n" for line in lines))

    def _complain(self, problem: str) -> None:
        self._say(f"info string {shorten(problem)}")

    def _introduce(self, words: list[str]) -> None:
        del words
        self._say(
            f"id name dualmctx {__version__}",
            "id author the authors of dualmctx",
            *self._table.declarations(),
            "uciok",
        )

    def _when_ready(self, call: Callable[[], None]) -> None:
        """Calls a function now or after the compilation."""
        if self._thinker.is_ready:
            call()
        else:
            self._waiting.append(call)

    def _begin_game(self, words: list[str]) -> None:
        del words
        self._thinker.clear()

    def _quit(self, words: list[str]) -> None:
        del words
        self._is_ended = True

    # The position

    def _place(self, words: list[str]) -> None:
        self._end_search()
        placed = parse_position(words)
        self._problem = ""
        try:
            self._set_up(placed)
        except UserError as error:
            # The moves of this position are unknown, so that it has no best one.
            self._placed, self._problem = Placed("?"), str(error)
            raise

    def _set_up(self, placed: Placed) -> None:
        """Plays the moves, from the position before if they continue it."""
        before, number = self._placed, len(self._placed.moves)
        if before.fen != placed.fen or before.moves != placed.moves[:number]:
            self._game.begin(placed.fen)
            number = 0
        for text in placed.moves[number:]:
            if self._game.is_over:
                self._go_on()
            self._game.play(self._game.read(text))
        self._placed = placed

    def _go_on(self) -> None:
        """Drops the history of a drawn game, which goes on if nobody claims the draw.

        A game that is over by its position alone stays so.
        """
        position: Any = games.to_position(self._game.env, self._game.state)
        self._game.begin(games.write_fen(position._replace(halfmoves=0, fullmoves=1)))

    # Searches

    def _go(self, words: list[str]) -> None:
        self._end_search()
        go = parse_go(words)
        if go.ignored:
            self._complain(f"go has no effect of {', '.join(go.ignored)}")
        self._when_ready(lambda: self._start(go))

    def _start(self, go: Go) -> None:
        if not self._problem and self._game.is_over:
            self._go_on()
        if self._problem or self._game.is_over:
            self._complain(self._problem or "the game is over")
            self._say(f"bestmove {NO_MOVE}")
            return
        begin, waits = time.monotonic(), go.is_infinite or go.is_ponder
        seconds = self._seconds(go)
        deadline = None if seconds is None or waits else begin + seconds
        number = self._thinker.start(self._game, self._limits(go, seconds), self._allowed(go))
        self._running = _Running(number, go, begin, deadline, waits)

    def _limits(self, go: Go, seconds: float | None) -> Limits:
        options, has_time = self.options, seconds is not None
        number = go.nodes
        if go.is_infinite:
            return Limits()
        if number is None and (options.has_budget or not (has_time or go.depth or go.is_ponder)):
            number = options.simulations
        return Limits(number, is_clocked=has_time)

    def _seconds(self, go: Go) -> float | None:
        """Returns the time of the move, from the arguments and the clock of the side to move."""
        overhead = self.options.overhead
        if go.move_time is not None:
            return max(0.0, go.move_time - overhead)
        color = games.to_position(self._game.env, self._game.state).color
        remaining = go.times[color]
        if remaining is None:
            return None
        clock = Clock(remaining, go.increments[color], go.moves_to_go)
        return seconds_for_move(clock, overhead)

    def _allowed(self, go: Go) -> tuple[int, ...] | None:
        """Returns the actions of `searchmoves`; `None` without legal ones among them."""
        actions = set[int]()
        for text in go.moves:
            try:
                actions.add(self._game.read(text))
            except UserError as error:
                self._complain(f"searchmoves: {error}")
        return tuple(sorted(actions)) or None

    def _take(self, found: Found) -> None:
        """Takes a row of a search."""
        if found.search == 0:
            self._thinker.take_start(found.row)
            while self._thinker.is_ready and self._waiting:
                self._waiting.pop(0)()
            return
        running, row = self._running, found.row
        if running is None or found.search != running.number:
            return
        if "error" in row:
            self._running = None
            self._complain(row["error"])
            self._say(f"bestmove {NO_MOVE}")
            return
        running.row = row
        is_last, now = row.get("final") is not False, time.monotonic()
        depth = running.go.depth
        is_deep = depth is not None and len(row["pv"]) >= depth
        is_late = running.deadline is not None and now >= running.deadline
        if running.is_stopped or (not running.waits and (is_last or is_deep or is_late)):
            self._finish()
        elif now - running.reported >= _REPORT_SECONDS:
            running.reported = now
            self._report(running, now)

    def _report(self, running: _Running, now: float) -> None:
        if running.row is not None:
            self._say(*format_info(running.row, now - running.begin, self.options))

    def _stop(self, words: list[str]) -> None:
        del words
        if self._running is not None:
            self._running.waits = False
            self._finish()
        for place in range(len(self._waiting)):
            # A search that waits for the compilation ends with its first result.
            self._waiting[place] = self._stopped(self._waiting[place])

    def _stopped(self, call: Callable[[], None]) -> Callable[[], None]:
        def start() -> None:
            call()
            if self._running is not None:
                self._running.is_stopped, self._running.waits = True, False

        return start

    def _hit(self, words: list[str]) -> None:
        """The expected move was played: the time of the own move begins."""
        del words
        running = self._running
        if running is None or not running.go.is_ponder:
            return
        running.waits = running.go.is_infinite
        seconds = self._seconds(running.go)
        if seconds is not None and not running.waits:
            running.deadline = time.monotonic() + seconds
        is_done = running.row is not None and running.row.get("final") is not False
        if is_done and not running.waits:
            self._finish()

    def _end_search(self) -> None:
        """Waits for the move of a search that the client has not stopped."""
        self._finish()
        while self._running is not None:
            event = self._events.next()
            if isinstance(event, Found):
                self._take(event)
            else:
                self._lines.append(event)

    def _finish(self) -> None:
        """Ends the search in progress with its move; if it has none yet, after its first step."""
        running = self._running
        if running is None:
            return
        if running.row is None:
            running.is_stopped = True
            return
        self._running = None
        self._thinker.stop()
        self._report(running, time.monotonic())
        if self.options.has_statistics:
            self._say(*format_statistics(running.row))
        line = running.row["pv"]
        ponder = f" ponder {line[1]}" if len(line) > 1 else ""
        self._say(f"bestmove {running.row['move']}{ponder}")
