"""A game in the terminal: its moves, and the positions that follow from them."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.questions import Question
from dualmctx.types import Environment
from dualmctx.web.positions import open_position
from games import GamePosition
from games.pictures import player_names

_NUM_LISTED = 20
_PREFIX = re.compile("^move 1, .*?, is ")


@dataclasses.dataclass(frozen=True)
class Game:
    """The moves of a game.

    Attributes:
      env: the game.
      fen: the position in which the moves begin; `None` for the start of the game.
      actions: the moves.
      resigned: the side that has resigned, 0 or 1; `None` if neither has.
    """

    env: Environment
    fen: str | None = None
    actions: tuple[int, ...] = ()
    resigned: int | None = None

    @property
    def question(self) -> Question:
        """The position as a request."""
        return Question(0, 0, list(self.actions), self.fen)

    def open(self) -> GamePosition:
        """Returns the position after the moves."""
        return open_position(self.env, self.question)

    def play(self, action: int) -> "Game":
        """Returns the game after a legal move."""
        return dataclasses.replace(self, actions=(*self.actions, action))

    def names(self) -> list[str]:
        """Returns the moves in the notation of the game."""
        start = None if self.fen is None else games.read_fen(self.env, self.fen)
        return games.format_moves(self.env, start, self.actions)


def undo(game: Game, people: Sequence[int]) -> Game:
    """Takes moves back until a person is to move, and at least one.

    Args:
      game: the game; a resignation is taken back, too.
      people: the sides that people play. If empty, one move is taken back.

    Raises:
      ValueError: if no move of a person has been made.
    """
    if game.resigned is not None:
        return dataclasses.replace(game, resigned=None)
    while game.actions:
        game = dataclasses.replace(game, actions=game.actions[:-1])
        if not people or game.open().side in people:
            return game
    raise UserError("There is no move of yours to take back.")


def winner(opened: GamePosition) -> int | None:
    """Returns the side that has won a finished game; `None` for a draw."""
    rewards = np.asarray(opened.state.rewards)
    if not rewards.any():
        return None
    is_mover = int(rewards.argmax()) == int(opened.state.current_player)
    return opened.side if is_mover else 1 - opened.side


def result(game: Game, opened: GamePosition) -> str:
    """Returns the result, one of `dualmctx.evaluation.write_record.RESULTS`."""
    if game.resigned is not None:
        return ("0-1", "1-0")[game.resigned]
    if not opened.is_over:
        return "*"
    won = winner(opened)
    return "1/2-1/2" if won is None else ("1-0", "0-1")[won]


def legal_names(env: Environment, opened: GamePosition) -> dict[int, str]:
    """Returns the names of the legal moves, by action; empty if the game is over."""
    if opened.is_over:
        return {}
    legal = np.flatnonzero(np.asarray(opened.state.legal_action_mask)).tolist()
    return {action: games.name_action(env, opened.state, action) for action in legal}


def read_move(env: Environment, opened: GamePosition, text: str) -> int:
    """Returns the action of a legal move.

    Raises:
      ValueError: if the text is no move, is ambiguous, or the move is illegal; the message says
        which moves are legal if there are few.
    """
    start = opened.state if games.is_chess(env) else None
    try:
        actions = games.parse_moves(env, [text], start)
    except UserError as error:
        raise UserError(_PREFIX.sub("", str(error))) from None
    names = legal_names(env, opened)
    if actions and actions[0] in names:
        return actions[0]
    listed = list(names.values())
    rest = f"; type moves for the {len(listed)} legal moves"
    if len(listed) <= _NUM_LISTED:
        rest = f"; legal moves: {' '.join(listed)}"
    raise UserError(f"illegal here{rest}")


def read_sides(env: Environment, text: str) -> tuple[int, ...]:
    """Returns the sides that people play: from first, second, both, none or the name of a side.

    Raises:
      ValueError: if the text names no side.
    """
    sides = {"first": (0,), "second": (1,), "both": (0, 1), "none": ()}
    players = player_names(env.id)
    for side, name in enumerate(players):
        words = re.findall("[a-z]+", name.lower())
        sides |= {word: (side,) for word in words if word not in ("first", "second", "player")}
    if text.lower() not in sides:
        raise UserError(f"side {text!r}: choose one of {', '.join(sides)}.")
    return sides[text.lower()]
