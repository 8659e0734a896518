"""The game of a GTP session: its turns, its moves that are taken back, and the names of moves."""

import math

import games
from dualmctx.errors import UserError
from dualmctx.protocols import points
from dualmctx.protocols.gtp_text import COLORS, GtpError
from dualmctx.protocols.running_game import RunningGame

PASS = "pass"
"""The name of a pass."""


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
        """Plays a move of a side; raises a `GtpError` if it is illegal."""
        number = self.give_turn(side)
        try:
            self.game.play(self._read(text))
        except UserError as error:
            self.take_back(number)
            raise GtpError(f"illegal move: {error}") from None
        self._played.append(number + 1)

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
        """The number of rows and columns of a square board; `None` for other boards."""
        env = self.game.env
        is_square = env.id in ("othello", "hex", "tic_tac_toe") or env.id.startswith("go_")
        return math.isqrt(env.num_actions) if is_square else None

    def _read(self, text: str) -> int:
        """Returns the action of a legal move, by its name or by its point."""
        try:
            return self.game.read(text)
        except UserError:
            found = self._points_by_name().get(text.upper())
            if found is None:
                raise
            return found

    def _points_by_name(self) -> dict[str, int]:
        try:
            found = points.points(self.game)
        except UserError:
            return {}
        return {name.upper(): action for name, action in found.items()}

    def names(self) -> dict[int, str]:
        """Returns the names of the legal moves, by action."""
        if self.has_points:
            return {action: name for name, action in points.points(self.game).items()}
        return {action: self.game.name(action) for action in self.game.legal()}

    def show(self, name: str) -> str:
        """Returns the name of a legal move that is given in the notation of the game."""
        if not self.has_points:
            return name
        by_name = {self.game.name(action): point for action, point in self.names().items()}
        return by_name.get(name, name)

    def find(self, names: list[str]) -> set[int]:
        """Returns the legal actions with some names; other names are left out."""
        known = {name.lower(): action for action, name in self.names().items()}
        return {known[name.lower()] for name in names if name.lower() in known}
