"""A session of the Go Text Protocol: its commands, and the searches that they ask for."""

import time
from collections.abc import Callable
from typing import NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.answers import shorten
from dualmctx.game_files.questions import Row
from dualmctx.protocols import gtp_text
from dualmctx.protocols.clocks import GtpClocks
from dualmctx.protocols.gtp_table import PASS, GtpTable
from dualmctx.protocols.gtp_text import (
    AnalysisRequest,
    Command,
    GtpError,
    parse_color,
    parse_integer,
)
from dualmctx.protocols.reports import format_analysis
from dualmctx.protocols.running_game import COLORS, board_text
from dualmctx.protocols.thinker import Ending, EngineError, Limits, Thinker
from dualmctx.version import __version__
from games.records import is_go

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
      with_komi: makes the thinker for another komi; `None` in games without komi.
    """

    has_budget: bool = False
    overhead: float = 0.05
    with_komi: Callable[[float], Thinker] | None = None


class _Action(NamedTuple):
    """A command that returns an answer.

    Attributes:
      number: how many arguments it needs; further ones are ignored. `None` passes all.
      run: its function, which takes the arguments.
    """

    number: int | None
    run: Callable[..., str]


class GtpSession:
    """Answers commands one by one."""

    def __init__(self, thinker: Thinker, write: Callable[[str], None], options: GtpOptions) -> None:
        """Takes the parts of the session; `write` writes text at once."""
        self._table, self._thinker = GtpTable(thinker.game), thinker
        self._write, self._options = write, options
        self._clocks, game = GtpClocks(), thinker.game
        self._is_go = is_go(game.env)
        self._komi = float(game.env._game.komi) if self._is_go else 0.0  # pyright: ignore
        self._is_ended = False
        # What an analysis writes before its first line.
        self._head = ""
        self._actions = self._make_actions()
        if self._is_go:
            self._actions |= {
                "fixed_handicap": _Action(1, lambda number: self._handicap(parse_integer(number))),
                "place_free_handicap": _Action(1, self._place_handicap),
                "set_free_handicap": _Action(None, self._set_handicap),
                "final_status_list": _Action(1, self._table.stones),
            }
        self._analyses: dict[str, Callable[[Command, AnalysisRequest], None]] = {
            f"{program}{name}": run
            for name, run in (("analyze", self._analyze), ("genmove_analyze", self._move_analysed))
            for program in ("", "lz-", "kata-")
        }

    def _make_actions(self) -> dict[str, _Action]:
        """Returns the commands by name, without analyses."""
        table = self._table
        return {
            "protocol_version": _Action(0, lambda: "2"),
            "name": _Action(0, lambda: "dualmctx"),
            "version": _Action(0, lambda: __version__),
            "known_command": _Action(1, lambda name: str(name in self._names).lower()),
            "list_commands": _Action(0, lambda: "\n".join(self._names)),
            "quit": _Action(0, self._quit),
            "boardsize": _Action(1, self._set_size),
            "clear_board": _Action(0, self._begin),
            "komi": _Action(1, self._set_komi),
            "play": _Action(2, self._play),
            "genmove": _Action(1, lambda color: self._generate(color, plays=True)),
            "reg_genmove": _Action(1, lambda color: self._generate(color, plays=False)),
            "undo": _Action(0, lambda: table.undo() or ""),
            "showboard": _Action(0, self._show),
            "time_settings": _Action(3, self._set_time),
            "time_left": _Action(3, self._set_time_left),
            "final_score": _Action(0, self._score),
            "gogui-interrupt": _Action(0, lambda: ""),
            "gogui-analyze_commands": _Action(0, lambda: _ANALYZE_COMMANDS),
            "gogui-rules_game_id": _Action(0, lambda: table.gogui_id),
            "gogui-rules_board": _Action(0, lambda: "\n".join(table.board())),
            "gogui-rules_board_size": _Action(0, table.gogui_size),
            "gogui-rules_legal_moves": _Action(0, lambda: " ".join(table.legal_points())),
            "gogui-rules_side_to_move": _Action(0, lambda: COLORS[table.game.side()]),
            "gogui-rules_final_result": _Action(0, lambda: table.game.result(self._komi)),
        }

    @property
    def _names(self) -> list[str]:
        return [*self._actions, *self._analyses]

    def run(self) -> None:
        """Answers commands until `quit` or the end of the input.

        Raises:
          EngineError: if the search cannot be compiled.
        """
        self._thinker.wait()
        while not self._is_ended and (line := self._thinker.next_line()) is not None:
            self.answer(line)

    def answer(self, line: str) -> None:
        """Answers the command of a line, if it has one."""
        command = gtp_text.parse_line(line)
        if command is None:
            return
        try:
            if command.name in self._analyses:
                self._head = f"={command.id}\n"
                request = gtp_text.parse_analysis(command.arguments, self._table.game.side())
                self._analyses[command.name](command, request)
                self._add("")
            else:
                self._write(gtp_text.format_answer(command.id, self._answer(command)))
        except EngineError:
            raise
        except UserError as error:
            self._write(gtp_text.format_answer(command.id, shorten(str(error)), is_error=True))

    def _answer(self, command: Command) -> str:
        action = self._actions.get(command.name)
        if action is None:
            raise GtpError("unknown command")
        given = command.arguments[: action.number]
        if len(given) < (action.number or 0):
            raise GtpError(f"syntax error: {command.name} needs {action.number} arguments")
        return action.run(*given)

    def _quit(self) -> str:
        self._is_ended = True
        return ""

    # The game

    def _set_size(self, size: str) -> str:
        own = self._table.size
        if parse_integer(size) != own and own is not None:
            raise GtpError(f"unacceptable size: the network plays on a board of size {own}")
        return self._begin()

    def _begin(self) -> str:
        self._table.begin()
        self._clocks.begin()
        return ""

    def _set_komi(self, text: str) -> str:
        komi, make = gtp_text.parse_number(text), self._options.with_komi
        if komi != self._komi and make is not None:
            thinker = make(komi)
            self._thinker.close(0.0)
            self._thinker = thinker
            thinker.wait()
            self._table.move_to(thinker.game)
        self._komi = komi
        return ""

    def _handicap(self, number: int) -> str:
        """Places handicap stones on their fixed points."""
        points = gtp_text.handicap_points(self._table.size or 0, number)
        self._table.place(points)
        return " ".join(points)

    def _place_handicap(self, number: str) -> str:
        """Places handicap stones: on the fixed points, so at most as many as there are."""
        size, wanted = self._table.size or 0, parse_integer(number)
        if wanted >= size * size:
            raise GtpError(f"invalid number of stones: {wanted} on a board of size {size}")
        return self._handicap(min(wanted, gtp_text.most_handicap_points(size)))

    def _set_handicap(self, *points: str) -> str:
        """Places handicap stones on points of the client's choice."""
        if len(points) < 2:
            raise GtpError("bad vertex list: a handicap has at least two stones")
        self._table.place(points)
        return ""

    def _play(self, color: str, move: str) -> str:
        side = parse_color(color)
        if move.lower() != _RESIGN:
            self._table.play(side, move)
        return ""

    def _show(self) -> str:
        game = self._table.game
        return board_text(game.env, game.state, (None, *game.states)[-2])

    def _score(self) -> str:
        found = self._table.game.score(self._komi)
        if found is None:
            raise GtpError("cannot score: the game is not over")
        return found

    # Time

    def _set_time(self, *numbers: str) -> str:
        self._clocks = GtpClocks(*map(parse_integer, numbers))
        return ""

    def _set_time_left(self, color: str, seconds: str, stones: str) -> str:
        self._clocks.set(parse_color(color), parse_integer(seconds), parse_integer(stones))
        return ""

    # Searches

    def _generate(self, color: str, *, plays: bool) -> str:
        side = parse_color(color)
        return self._move(side, lambda: self._think(side), plays=plays)

    def _move(self, side: int, think: Callable[[], Row], *, plays: bool = True) -> str:
        """Returns the move of a search for a side, and plays it."""
        table, begin = self._table, time.monotonic()
        if table.game.is_over:
            if plays and table.has_pass:
                table.play(side, PASS)
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
            self._clocks.spend(side, time.monotonic() - begin)
        else:
            table.take_back(number)
        return name

    def _think(
        self,
        side: int,
        report: Callable[[Row], None] = lambda row: None,
        request: AnalysisRequest | None = None,
    ) -> Row:
        """Searches for a move in the time of a side; returns the last row."""
        request = request or AnalysisRequest()
        seconds = self._clocks.seconds(side, self._options.overhead)
        has_budget = seconds is None or self._options.has_budget
        simulations = self._thinker.budget if has_budget else None
        ending = Ending(deadline=None if seconds is None else time.monotonic() + seconds)

        def hear(line: str | None) -> bool:
            is_interrupt = line is not None and line.strip() == INTERRUPT
            ending.is_stopped |= is_interrupt
            return is_interrupt

        return self._thinker.search(
            self._table.game,
            Limits(simulations, is_clocked=seconds is not None),
            ending,
            hear=hear,
            report=report,
            every=request.interval,
            allowed=self._allowed(side, request),
        )

    def _add(self, line: str) -> None:
        """Writes a line of an analysis; an empty one ends it."""
        self._write(f"{self._head}{line}\n")
        self._head = ""

    def _reporter(self, command: Command, request: AnalysisRequest) -> Callable[[Row], None]:
        is_kata, show = command.name.startswith("kata"), self._table.show
        return lambda row: self._add(format_analysis(row, request, show, is_kata=is_kata))

    def _move_analysed(self, command: Command, request: AnalysisRequest) -> None:
        """Writes reports, then the move."""
        side, report = request.color, self._reporter(command, request)
        self._add(f"play {self._move(side, lambda: self._think(side, report, request))}")

    def _analyze(self, command: Command, request: AnalysisRequest) -> None:
        """Writes reports until the next line, also when the trees are full."""
        game, ending = self._table.game, Ending(waits=True)
        if game.is_over:
            raise GtpError("the game is over")

        def hear(line: str | None) -> bool:
            del line
            ending.is_stopped = True
            return False

        number = self._table.give_turn(request.color)
        try:
            self._thinker.search(
                game,
                Limits(),
                ending,
                hear=hear,
                report=self._reporter(command, request),
                every=request.interval,
                allowed=self._allowed(request.color, request),
            )
        finally:
            self._table.take_back(number)

    def _allowed(self, side: int, request: AnalysisRequest) -> tuple[int, ...] | None:
        """Returns the actions that an analysis may choose; `None` for all legal ones."""
        allowed, avoided = request.allowed[side], request.avoided[side]
        if not allowed and not avoided:
            return None
        chosen = self._table.find(allowed) if allowed else {*self._table.game.legal()}
        chosen -= self._table.find(avoided)
        if not chosen:
            raise GtpError("no legal move is allowed")
        return tuple(sorted(chosen))
