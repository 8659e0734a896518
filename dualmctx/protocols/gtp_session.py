"""A session of the Go Text Protocol: its commands, and the searches that they ask for."""

import time
from collections.abc import Callable
from typing import NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.answers import shorten
from dualmctx.evaluation.questions import Row
from dualmctx.protocols import gtp_text, points, scores
from dualmctx.protocols.board_text import board_text
from dualmctx.protocols.events import Events, Found
from dualmctx.protocols.gtp_analysis import (
    AnalysisRequest,
    Reporter,
    format_report,
    parse_analysis,
)
from dualmctx.protocols.gtp_clock import GtpClocks
from dualmctx.protocols.gtp_table import PASS, GtpTable
from dualmctx.protocols.gtp_text import (
    COLORS,
    Command,
    GtpError,
    parse_color,
    parse_integer,
    parse_number,
)
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.searching import search, wait_until_ready
from dualmctx.protocols.thinker import Limits, Thinker
from dualmctx.version import __version__

INTERRUPT = "# interrupt"
"""The comment by which GoGui asks for a move at once."""
_RESIGN = "resign"
_ANALYZE_COMMANDS = """\
string/Final Score/final_score
string/Final Result/gogui-rules_final_result
string/Legal Moves/gogui-rules_legal_moves
string/Side to Move/gogui-rules_side_to_move
string/Board/gogui-rules_board"""


class GtpOptions(NamedTuple):
    """The options of a session.

    Attributes:
      has_budget: whether the budget of the search also holds under a clock.
      overhead: seconds of a move that pass outside of the search.
      with_komi: makes the game and the thinker for another komi; `None` in games without komi.
    """

    has_budget: bool = False
    overhead: float = 0.05
    with_komi: Callable[[float], tuple[RunningGame, Thinker]] | None = None


class GtpSession:
    """Answers commands one by one."""

    def __init__(
        self,
        game: RunningGame,
        thinker: Thinker,
        events: Events,
        write: Callable[[str], None],
        options: GtpOptions,
    ) -> None:
        """Takes the parts of the session; `write` writes text at once."""
        self._table, self._thinker = GtpTable(game), thinker
        self._events, self._write, self._options = events, write, options
        self._clocks = GtpClocks()
        self._komi = float(game.env._game.komi) if _is_go(game) else 0.0  # pyright: ignore
        self._is_ended = False
        self._commands = self._make_commands()

    def _make_commands(self) -> dict[str, Callable[[Command], str | None]]:
        """Returns the commands by name; one that returns `None` has written its answer."""
        commands: dict[str, Callable[[Command], str | None]] = {
            "protocol_version": lambda _: "2",
            "name": lambda _: "dualmctx",
            "version": lambda _: __version__,
            "known_command": lambda given: str(_one(given) in self._commands).lower(),
            "list_commands": lambda _: "\n".join(self._commands),
            "quit": self._quit,
            "boardsize": self._set_size,
            "clear_board": self._begin,
            "komi": self._set_komi,
            "play": self._play,
            "genmove": lambda given: self._generate(given, plays=True),
            "reg_genmove": lambda given: self._generate(given, plays=False),
            "undo": self._undo,
            "showboard": self._show,
            "time_settings": self._set_time,
            "time_left": self._set_time_left,
            "final_score": self._score,
        }
        for name in ("analyze", "lz-analyze", "kata-analyze"):
            commands[name] = self._analyze
        for name in ("genmove_analyze", "lz-genmove_analyze", "kata-genmove_analyze"):
            commands[name] = self._generate_analysed
        return commands | {
            "gogui-interrupt": lambda _: "",
            "gogui-analyze_commands": lambda _: _ANALYZE_COMMANDS,
            "gogui-rules_game_id": lambda _: "Go" if _is_go(self._game) else self._game.env.id,
            "gogui-rules_board": lambda _: self._pointed("\n".join(points.board(self._game))),
            "gogui-rules_board_size": lambda _: str(len(points.board(self._game))),
            "gogui-rules_legal_moves": lambda _: self._pointed(" ".join(points.points(self._game))),
            "gogui-rules_side_to_move": lambda _: COLORS[self._game.side()],
            "gogui-rules_final_result": lambda _: scores.result(self._game),
        }

    @property
    def _game(self) -> RunningGame:
        return self._table.game

    def run(self) -> None:
        """Answers commands until `quit` or the end of the input.

        Raises:
          UserError: if the search cannot be compiled.
        """
        wait_until_ready(self._thinker, self._events)
        while not self._is_ended:
            line = self._events.next_line()
            if line is None:
                return
            self.answer(line)

    def answer(self, line: str) -> None:
        """Answers the command of a line, if it has one."""
        command = gtp_text.parse_line(line)
        if command is None:
            return
        try:
            run = self._commands.get(command.name)
            if run is None:
                raise GtpError("unknown command")
            text = run(command)
        except UserError as error:
            self._write(gtp_text.format_answer(command.id, shorten(str(error)), is_error=True))
        else:
            if text is not None:
                self._write(gtp_text.format_answer(command.id, text))

    def _quit(self, command: Command) -> str:
        del command
        self._is_ended = True
        return ""

    # The game

    def _set_size(self, command: Command) -> str:
        size, own = parse_integer(_one(command)), self._table.size
        if own is not None and size != own:
            raise GtpError(f"unacceptable size: the network plays on a board of size {own}")
        return self._begin(command)

    def _begin(self, command: Command) -> str:
        del command
        self._table.begin()
        self._clocks.begin()
        return ""

    def _set_komi(self, command: Command) -> str:
        komi, make = parse_number(_one(command)), self._options.with_komi
        if komi != self._komi and make is not None:
            game, thinker = make(komi)
            self._thinker.close(0.0)
            self._thinker = thinker
            wait_until_ready(thinker, self._events)
            self._table.move_to(game)
        self._komi = komi
        return ""

    def _play(self, command: Command) -> str:
        if len(command.arguments) != 2:
            raise GtpError("syntax error: play needs a colour and a move")
        color, move = command.arguments
        side = parse_color(color)
        if move.lower() != _RESIGN:
            self._table.play(side, move)
        return ""

    def _undo(self, command: Command) -> str:
        del command
        self._table.undo()
        return ""

    def _show(self, command: Command) -> str:
        del command
        return board_text(self._game.env, self._game.state, (None, *self._game.states)[-2])

    def _score(self, command: Command) -> str:
        del command
        found = scores.score(self._game, self._komi)
        if found is None:
            raise GtpError("cannot score: the game is not over")
        return found

    def _pointed(self, text: str) -> str:
        """A client that asks for the board names moves by points from now on."""
        self._table.has_points = True
        return text

    # Time

    def _set_time(self, command: Command) -> str:
        main, byo_yomi, stones = _integers(command.arguments, 3)
        self._clocks = GtpClocks(main, byo_yomi, stones)
        return ""

    def _set_time_left(self, command: Command) -> str:
        color, *numbers = command.arguments or [""]
        seconds, stones = _integers(numbers, 2)
        self._clocks.set(parse_color(color), seconds, stones)
        return ""

    # Searches

    def _generate(self, command: Command, *, plays: bool) -> str:
        side = parse_color(_one(command))
        return self._move(side, lambda: self._think(side), plays=plays)

    def _move(self, side: int, think: Callable[[], Row], *, plays: bool = True) -> str:
        """Returns the move of a search for a side, and plays it."""
        table = self._table
        if table.game.is_over:
            return PASS if table.has_pass else _RESIGN
        number = table.give_turn(side)
        try:
            action = think()["action"]
            name = table.names()[action]
        except UserError:
            table.take_back(number)
            raise
        if plays:
            table.play_found(action, number)
        else:
            table.take_back(number)
        return name

    def _think(
        self,
        side: int,
        report: Callable[[Row], None] = lambda row: None,
        allowed: tuple[int, ...] | None = None,
    ) -> Row:
        """Searches for a move in the time of a side; returns the last row."""
        begin = time.monotonic()
        seconds = self._clocks.seconds(side, self._options.overhead)
        has_budget = seconds is None or self._options.has_budget
        row = search(
            self._thinker,
            self._events,
            self._game,
            Limits(self._thinker.budget if has_budget else None, is_clocked=seconds is not None),
            deadline=None if seconds is None else begin + seconds,
            stops=lambda line: line is not None and line.strip() == INTERRUPT,
            report=report,
            allowed=allowed,
        )
        self._clocks.spend(side, time.monotonic() - begin)
        return row

    def _reporter(self, command: Command, request: AnalysisRequest) -> Reporter:
        is_kata, show = command.name.startswith("kata"), self._table.show
        return Reporter(
            self._write,
            lambda row: format_report(row, request, show, is_kata=is_kata),
            id=command.id,
            interval=request.interval,
        )

    def _generate_analysed(self, command: Command) -> None:
        """Writes reports, then the move."""
        request = parse_analysis(command.arguments)
        side = request.color
        if side is None:
            raise GtpError("syntax error: name a colour, black or white")
        reporter = self._reporter(command, request)

        def think() -> Row:
            row = self._think(side, reporter, self._allowed(side, request))
            reporter.finish(row)
            return row

        reporter.add(f"play {self._move(side, think)}")
        reporter.add()

    def _analyze(self, command: Command) -> None:
        """Writes reports until the next line, also when the trees are full."""
        if self._game.is_over:
            raise GtpError("the game is over")
        request, events = parse_analysis(command.arguments), self._events
        side = self._game.side() if request.color is None else request.color
        reporter = self._reporter(command, request)
        number = self._table.give_turn(side)
        try:
            row = search(
                self._thinker,
                events,
                self._game,
                Limits(),
                deadline=None,
                stops=lambda line: True,
                report=reporter,
                allowed=self._allowed(side, request),
                is_brief=events.is_line_waiting,
            )
            reporter.finish(row)
        finally:
            self._table.take_back(number)
        while not events.is_line_waiting:
            event = events.next()
            if not isinstance(event, Found):
                events.postpone(event)
        reporter.add()

    def _allowed(self, side: int, request: AnalysisRequest) -> tuple[int, ...] | None:
        """Returns the actions that an analysis may choose; `None` for all legal ones."""
        allowed, avoided = request.allowed[side], request.avoided[side]
        if not allowed and not avoided:
            return None
        chosen = self._table.find(allowed) if allowed else set(self._game.legal())
        chosen -= self._table.find(avoided)
        if not chosen:
            raise GtpError("no legal move is allowed")
        return tuple(sorted(chosen))


def _is_go(game: RunningGame) -> bool:
    return game.env.id.startswith("go_")


def _one(command: Command) -> str:
    if len(command.arguments) != 1:
        raise GtpError("syntax error: the command needs one argument")
    return command.arguments[0]


def _integers(given: list[str], number: int) -> list[int]:
    if len(given) != number:
        raise GtpError(f"syntax error: the command needs {number} whole numbers")
    return [*map(parse_integer, given)]
