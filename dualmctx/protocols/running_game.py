"""A game that is played move by move on the host: its positions, its board as text, its score."""

from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.types import Environment
from games.go_area import count_area
from games.pictures import picture, winning_side
from games.records import is_go

COLORS = ("black", "white")
"""The names of the sides; the side that begins is black."""
_area = jax.jit(count_area, static_argnums=1)


class RunningGame:
    """The positions of a game from its start to the last move, which can be taken back.

    Attributes:
      env: the game.
      fen: the position in which the moves begin, as text; `None` for the start of the game.
      actions: the moves.
      states: the unbatched states, as NumPy arrays, from the first position to the last one.
    """

    def __init__(self, env: Environment) -> None:
        """Begins a game at its start."""
        self.env, self._step = env, jax.jit(env.step)
        self.begin()

    def begin(self, fen: str | None = None) -> None:
        """Begins a new game; raises a UserError if the FEN is invalid, and then keeps the old."""
        opened = games.open_position(self.env, (), fen)
        self.fen = fen
        self.actions: list[int] = []
        self.states = [opened.state]
        self._first_player = opened.first_player

    def compile(self) -> None:
        """Compiles the programs of a move and, in chess, of a FEN, before a clock runs."""
        self._step(self.states[0], int(np.argmax(self.states[0].legal_action_mask)))
        if games.is_chess(self.env):
            fen = games.write_fen(games.to_position(self.env, self.states[0]))
            games.open_position(self.env, (), fen)

    @property
    def state(self) -> Any:
        """The state after the last move."""
        return self.states[-1]

    @property
    def is_over(self) -> bool:
        """Whether the game is over."""
        return bool(self.state.terminated or self.state.truncated)

    @property
    def winner(self) -> int | None:
        """The side that has won, 0 for the side that begins; `None` before the end or if drawn."""
        return winning_side(self.state, self._first_player) if self.is_over else None

    def side(self, index: int = -1) -> int:
        """Returns the side to move in a state: 0 for the side that begins, 1 for the other."""
        return int(self.states[index].current_player != self._first_player)

    def legal(self) -> list[int]:
        """Returns the legal actions; none if the game is over."""
        return [] if self.is_over else np.flatnonzero(self.state.legal_action_mask).tolist()

    def name(self, action: int) -> str:
        """Returns the name of a move in the last position."""
        return games.format_action(self.env, self.state, action)

    def read(self, text: str) -> int:
        """Returns the action of a legal move; raises a `UserError` if the text is none."""
        action = games.parse_move(self.env, text, self.state)
        if action not in self.legal():
            raise UserError(f"{text[:40]!r} is illegal in this position")
        return action

    def play(self, action: int) -> None:
        """Plays a legal move."""
        self.states.append(jax.device_get(self._step(self.state, action)))
        self.actions.append(action)

    def undo(self, number: int = 1) -> None:
        """Takes back the last moves, at least one; there are as many."""
        del self.actions[-number:], self.states[-number:]

    def score(self, komi: float = 0.0) -> str | None:
        """Returns the score as in the Go Text Protocol, such as 0, B+3.5 or W+12.

        In Go it is the difference of the areas, with all stones on the board alive, less the komi;
        in Othello that of the discs. In other games the winner has 1 more; `None` before the end.
        """
        if is_go(self.env) or self.env.id == "othello":
            rows = picture(self.state).rows
            stones = np.array([{"x": 1, "o": -1}.get(x, 0) for row in rows for x in row], np.int32)
            lead = float(stones.sum())
            if is_go(self.env):
                black, white = np.asarray(_area(stones, len(rows), True))
                lead = float(black) - float(white) - komi
        elif self.is_over:
            lead = {0: 1.0, 1: -1.0, None: 0.0}[self.winner]
        else:
            return None
        return "0" if lead == 0 else f"{'BW'[lead < 0]}+{abs(lead):g}"

    def result(self, komi: float = 0.0) -> str:
        """Returns a sentence about the end of the game, with the score."""
        if not self.is_over:
            return "The game is not over."
        if self.winner is None:
            return "The game is drawn."
        return f"{COLORS[self.winner].capitalize()} has won ({self.score(komi)})."


def board_text(env: Environment, state: Any, before: Any) -> str:
    """Returns the caption and the board for a terminal.

    Args:
      env: the game.
      state: the unbatched state.
      before: the state before the last move, which is then marked; `None` marks nothing.
    """
    if env.id == "hex":
        return _hex_board(state, before)
    try:
        return games.to_text(state, before)
    except UserError as error:
        # A game of the user may have no picture.
        return f"{env.id}: {error}"


def _hex_board(state: Any, before: Any) -> str:
    """Each row begins half a cell further to the right than the one above, below the letters."""
    drawn = picture(state, before)
    lines = [drawn.caption, f"    {' '.join('abcdefghijklmnopqrstuvwxyz'[: len(drawn.rows)])}"]
    for y, row in enumerate(drawn.rows):
        first, blanks = y + 4, y // 2
        line = list(f"{y + 1:>{first - 1}} {' '.join(row[blanks:])} ")
        for x in (x for marked_row, x in drawn.marked if marked_row == y):
            middle = first + 2 * (x - blanks)
            line[middle - 1], line[middle + 1] = "[]"
        lines.append("".join(line).rstrip())
    return "\n".join(lines)
