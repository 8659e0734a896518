"""The game of a GTP session: its turns, and the names of its moves.

GoGui (gogui-rules_* commands) draws a square board with black and white stones, whose points have
the names of the Go Text Protocol: letters without I, and row 1 at the bottom. Points of Othello and
Hex have the names of their own notation, so their first row is the lowest one on that board.
"""

from collections.abc import Sequence

import games
from dualmctx.errors import UserError
from dualmctx.programs.gtp import board_size
from dualmctx.protocols.gtp_text import COLUMNS, GtpError
from dualmctx.protocols.running_game import COLORS, RunningGame
from games.pictures import picture
from games.records import is_go

PASS = "pass"
"""The name of a pass."""
_BLACK = COLORS.index("black")
# Games in whose notation row 1 is at the top; without I, their columns have the same letters.
_FROM_TOP, _MAX_COLUMNS = ("othello", "hex"), COLUMNS.index("J")


class GtpTable:
    """A game in which commands name the side that moves.

    If the other side is to move, it passes, where the rules allow that. So a client need not send
    the passes of Othello.

    Attributes:
      game: the game.
      has_points: whether moves are named by the points of a board of stones; otherwise they have
        the notation of the game.
    """

    def __init__(self, game: RunningGame) -> None:
        """Takes the game."""
        self.game, self.has_points = game, False
        # The number of moves of each command that has played.
        self._played: list[int] = []

    def begin(self) -> None:
        """Begins a new game."""
        self.game.begin()
        self._played.clear()

    def move_to(self, game: RunningGame) -> None:
        """Plays the moves of the game in another one of the same kind, which replaces it."""
        for action in self.game.actions:
            game.play(action)
        self.game = game

    def play(self, side: int, text: str) -> None:
        """Plays a move of a side; raises a `GtpError` if it is illegal.

        A pass after the end is no move of the game, but a command that is taken back.
        """
        if self.game.is_over and self.has_pass and text.lower() == PASS:
            self._played.append(0)
            return
        number = self.give_turn(side)
        try:
            self.game.play(self._read(text))
        except UserError as error:
            self.take_back(number)
            raise GtpError(f"illegal move: {error}") from None
        self._played.append(number + 1)

    def place(self, points: Sequence[str]) -> None:
        """Plays handicap stones of black, between which white passes; they cannot be undone.

        Raises:
          GtpError: if the game has begun, or a stone cannot be placed. The board is then as before.
        """
        if self.game.actions:
            raise GtpError("board not empty")
        for point in points:
            try:
                if point.lower() == PASS:
                    raise GtpError("a pass is no stone")
                self.play(_BLACK, point)
            except GtpError as error:
                self.begin()
                raise GtpError(f"bad vertex list: {point[:20]!r}: {error}") from None
        self._played.clear()

    def play_found(self, action: int, number: int) -> None:
        """Plays a legal move after `give_turn`, which has returned a number of passes."""
        self.game.play(action)
        self._played.append(number + 1)

    def undo(self) -> None:
        """Takes back the last command that has played; raises a `GtpError` if there is none."""
        if not self._played:
            raise GtpError("cannot undo")
        self.take_back(self._played.pop())

    def give_turn(self, side: int) -> int:
        """Lets the other side pass if it is to move; returns the number of passes, 0 or 1.

        Raises:
          GtpError: if it cannot pass.
        """
        game = self.game
        if game.side() == side or game.is_over:
            return 0
        legal = {game.name(action).lower(): action for action in game.legal()}
        if PASS not in legal:
            raise GtpError(f"illegal move: it is the turn of {COLORS[1 - side]}")
        game.play(legal[PASS])
        if game.is_over or game.side() != side:
            self.take_back(1)
            raise GtpError(f"illegal move: {COLORS[side]} has no turn after a pass")
        return 1

    def take_back(self, number: int) -> None:
        """Takes back some passes of `give_turn`, or moves."""
        if number:
            self.game.undo(number)

    @property
    def has_pass(self) -> bool:
        """Whether the game has passes."""
        try:
            games.parse_move(self.game.env, PASS)
        except UserError:
            return False
        return True

    @property
    def size(self) -> int | None:
        """The size of a square board; `None` for other boards."""
        return board_size(self.game.env)

    def _read(self, text: str) -> int:
        """Returns the action of a legal move, by its name or by its point."""
        try:
            return self.game.read(text)
        except UserError as error:
            try:
                points = {name.upper(): action for action, name in self._points().items()}
                return points[text.upper()]
            except (UserError, KeyError):
                raise error from None

    def names(self) -> dict[int, str]:
        """Returns the names of the legal moves, by action."""
        if self.has_points:
            return self._points()
        return {action: self.game.name(action) for action in self.game.legal()}

    def show(self, line: Sequence[str]) -> list[str]:
        """Returns the names of the moves of a line, which are given in the notation of the game."""
        found = list[str]()
        if not self.has_points:
            return [*line]
        try:
            for name in line:
                action = self.game.read(name)
                found.append(self._points()[action])
                self.game.play(action)
        finally:
            self.take_back(len(found))
        return found

    def find(self, names: list[str]) -> set[int]:
        """Returns the legal actions with some names; other names are left out."""
        known = {name.lower(): action for action, name in self.names().items()}
        return {known[name.lower()] for name in names if name.lower() in known}

    @property
    def gogui_id(self) -> str:
        """The name of the game for GoGui: a capital, then small letters and digits."""
        env = self.game.env
        return "Go" if is_go(env) else env.id.replace("_", "").capitalize()

    def gogui_size(self) -> str:
        """Returns the size of the square board, and its shape if that is not a square."""
        shape = " hex" if self.game.env.id == "hex" else ""
        return f"{len(self.board())}{shape}"

    def board(self) -> list[str]:
        """Returns the rows of the square board, the highest one first: X, O and . for no stone.

        From now on, moves are named by points.

        Raises:
          UserError: if the position has no picture of stones only, or the board of a game with a
            notation of its own has more columns than both notations name alike.
        """
        rows = self._rows()
        size = max(len(rows), len(rows[0]))
        self.has_points = True
        return ["." * size] * (size - len(rows)) + [row.ljust(size, ".") for row in rows]

    def stones(self, status: str) -> str:
        """Returns the points of the stones of Go with a status; all stones on the board are alive.

        Raises:
          GtpError: if the status is not one of the draft, section 4.3.3.
        """
        if status not in ("alive", "seki", "dead"):
            raise GtpError(f"syntax error: {status[:20]!r} is not alive, seki or dead")
        rows = self._rows() if status == "alive" else []
        return " ".join(
            f"{COLUMNS[column]}{len(rows) - number}"
            for number, row in enumerate(rows)
            for column, cell in enumerate(row)
            if cell != "."
        )

    def legal_points(self) -> list[str]:
        """Returns the names of the legal moves; from now on, moves are named by points.

        Raises:
          UserError: as `board`; or if a move is not the choice of one point.
        """
        points = self._points()
        self.has_points = True
        return [*points.values()]

    def _points(self) -> dict[int, str]:
        """Returns the points of the legal actions; other moves, such as pass, keep their names."""
        env, height, found = self.game.env, len(self._rows()), dict[int, str]()
        entries = games.entries(env, self.game.state)
        for x in entries:
            if x.shown is None:
                found[x.action] = x.name
            elif env.id in _FROM_TOP:
                found[x.action] = x.name.upper()
            else:
                found[x.action] = f"{COLUMNS[x.shown[1]]}{height - x.shown[0]}"
        is_unclear = len({*found.values()}) < len(entries)
        if is_unclear or any(entry.start is not None for entry in entries):
            raise UserError(f"the moves of {env.id} are not points of a board")
        return found

    def _rows(self) -> list[str]:
        """Returns the rows of the picture, the highest one first; they have the same length."""
        env = self.game.env
        cells = [[x for x in row if x] for row in picture(self.game.state).rows]
        unknown = {x for row in cells for x in row} - {*"xXoO."}
        largest = _MAX_COLUMNS if env.id in _FROM_TOP else len(COLUMNS)
        if unknown or not cells or len({*map(len, cells)}) > 1 or len(cells[0]) > largest:
            raise UserError(f"{env.id} has no board of black and white stones with such columns")
        rows = ["".join(row).upper() for row in cells]
        return rows[::-1] if env.id in _FROM_TOP else rows
