"""A session of the Universal Chess Interface: the position, its searches, the answers."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.answers import shorten
from dualmctx.game_files.questions import Row
from dualmctx.protocols import uci_text
from dualmctx.protocols.clocks import Clock
from dualmctx.protocols.reports import format_info, format_statistics
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Ending, EngineError, Limits, Thinker
from dualmctx.protocols.uci_text import CLEAR, Go, Placed, UciOptions
from dualmctx.version import __version__

NO_MOVE = "0000"
"""The move of a finished game."""
_REPORT_SECONDS = 0.1
# Without effect; the last two concern a search that has ended.
_IGNORED = ("debug", "register", "stop", "ponderhit")
_ENDS_SEARCH = ("stop", "position", "go", "ucinewgame", "quit")


class UciSession:
    """Answers lines one by one; some lines are heard during a search."""

    def __init__(self, thinker: Thinker, write: Callable[[str], None], options: UciOptions) -> None:
        """Takes the parts of the session; `write` writes lines at once."""
        self._thinker, self._write, self._options = thinker, write, options
        self._placed, self._problem = Placed(), ""
        self._is_ended = False
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "uci": lambda _: self._introduce(),
            "isready": lambda _: self._say_ready(),
            "setoption": self._set_option,
            "ucinewgame": lambda _: self._thinker.clear(),
            "position": self._place,
            "go": self._go,
            "quit": lambda _: self._quit(),
        } | dict.fromkeys(_IGNORED, lambda _: None)

    @property
    def _game(self) -> RunningGame:
        """The game, after `wait`."""
        return self._thinker.game

    def run(self) -> None:
        """Answers lines until `quit` or the end of the input."""
        while not self._is_ended and (line := self._thinker.next_line()) is not None:
            self.answer(line)

    def answer(self, line: str) -> None:
        """Answers a line; raises an `EngineError` if the search cannot be compiled."""
        command, *words = self._split(line)
        try:
            if command:
                self._commands[command](words)
            elif line.split():
                raise UserError(f"there is no command {line.split()[0][:40]!r}")
        except EngineError:
            raise
        except UserError as error:
            self._complain(str(error))

    def _split(self, line: str) -> list[str]:
        """Returns the command of a line, empty if it has none, and the words after it."""
        words = itertools.dropwhile(lambda word: word not in self._commands, line.split())
        return [*words] or [""]

    def _say(self, *lines: str) -> None:
        self._write("".join(f"{line}\n" for line in lines))

    def _complain(self, problem: str) -> None:
        self._say(f"info string {shorten(problem)}")

    def _introduce(self) -> None:
        options = self._options.declarations().items()
        self._say(
            f"id name dualmctx {__version__}",
            "id author the authors of dualmctx",
            *(f"option name {name} {declared}" for name, declared in options),
            "uciok",
        )

    def _say_ready(self) -> None:
        if self._thinker.wait():
            self._say("readyok")

    def _set_option(self, words: list[str]) -> None:
        if self._options.set(*uci_text.parse_option(words)) == CLEAR:
            self._thinker.clear()

    def _quit(self) -> None:
        self._is_ended = True

    # The position

    def _place(self, words: list[str]) -> None:
        if not self._thinker.wait():
            return
        self._problem = ""
        try:
            self._set_up(uci_text.parse_position(words))
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
        go = uci_text.parse_go(words)
        if go.ignored:
            self._complain(f"go has no effect of {', '.join(go.ignored)}")
        if not self._thinker.wait():
            return
        if not self._problem and self._game.is_over:
            self._go_on()
        try:
            if self._problem or self._game.is_over:
                raise UserError(self._problem or "the game is over")
            row = self._search(go)
        except UserError as error:
            self._complain(str(error))
            self._say(f"bestmove {NO_MOVE}")
            return
        if self._options.has_statistics:
            self._say(*format_statistics(row))
        line = row["pv"]
        ponder = f" ponder {line[1]}" if len(line) > 1 else ""
        self._say(f"bestmove {row['move']}{ponder}")

    def _search(self, go: Go) -> Row:
        """Searches the position, and reports the result so far."""
        begin, seconds, depth = time.monotonic(), self._seconds(go), 1
        ending = Ending(waits=go.is_infinite or go.is_ponder, depth=go.depth)
        if seconds is not None and not ending.waits:
            ending.deadline = begin + seconds

        def hear(line: str | None) -> bool:
            return self._hear(line, go, ending)

        def report(row: Row) -> None:
            nonlocal depth
            # Some clients show no line whose depth is smaller than the one before.
            depth = max(depth, len(row["pv"]))
            self._say(*format_info(row, depth, time.monotonic() - begin, self._options))

        return self._thinker.search(
            self._game,
            self._limits(go, seconds),
            ending,
            hear=hear,
            report=report,
            every=_REPORT_SECONDS,
            allowed=self._allowed(go),
        )

    def _hear(self, line: str | None, go: Go, ending: Ending) -> bool:
        """Hears a line during a search; returns whether it is answered."""
        word = self._split(line or "")[0]
        if word in _ENDS_SEARCH or (line is None and ending.waits):
            ending.is_stopped = True
        elif word == "ponderhit" and go.is_ponder:
            # The expected move was played: the time of the own move begins.
            seconds, ending.waits = self._seconds(go), go.is_infinite
            if seconds is not None:
                ending.deadline = time.monotonic() + seconds
        elif word == "isready":
            self._say_ready()
        return word in ("stop", "ponderhit", "isready")

    def _limits(self, go: Go, seconds: float | None) -> Limits:
        options, has_time = self._options, seconds is not None
        number = go.nodes
        if go.is_infinite:
            return Limits()
        if number is None and (options.has_budget or not (has_time or go.depth or go.is_ponder)):
            number = options.simulations
        return Limits(number, is_clocked=has_time)

    def _seconds(self, go: Go) -> float | None:
        """Returns the time of the move, from the arguments and the clock of the side to move."""
        overhead = self._options.overhead
        if go.move_time is not None:
            return max(0.0, go.move_time - overhead)
        color = games.to_position(self._game.env, self._game.state).color
        remaining = go.times[color]
        if remaining is None:
            return None
        return Clock(remaining, go.increments[color], go.moves_to_go).seconds(overhead)

    def _allowed(self, go: Go) -> tuple[int, ...] | None:
        """Returns the actions of `searchmoves`; `None` without legal ones among them."""
        actions = set[int]()
        for text in go.moves:
            try:
                actions.add(self._game.read(text))
            except UserError as error:
                self._complain(f"searchmoves: {error}")
        return tuple(sorted(actions)) or None
