"""Names of actions, for games in which an action has the same name in all positions.

A game may have its own (`games.abilities.HasMoveNames`). A table covers pgx's games.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dualmctx.errors import UserError
from games.abilities import ability
from games.othello_text import split_transcript

SplitFn = Callable[[str], Sequence[str] | None]


class MoveNames(NamedTuple):
    """The notation of a game in which each action has one name in all positions.

    Attributes:
      names: `(num_actions) -> names`, one name for each action.
      split: splits text in which moves have no separator; it returns `None` for other text. `None`
        if moves always need one.
    """

    names: Callable[[int], list[str]]
    split: SplitFn | None = None


def names_of(env: Any, num_actions: int) -> MoveNames:
    """Returns the notation of a game: its own, or that of the table, or numbers.

    Args:
      env: any environment.
      num_actions: A.

    Raises:
      ValueError: if the game's own names are not A different words.
    """
    own = ability(env, "move_names")
    if own is None:
        return move_names(env.id)
    names = list(own())
    _check(env.id, names, num_actions)
    return MoveNames(
        lambda num_actions: names, split_digits if getattr(env, "joined_moves", False) else None
    )


def split_digits(text: str) -> str | None:
    """Splits moves whose names are single digits."""
    return text if text.isdigit() else None


def _check(game: str, names: list[Any], num_actions: int) -> None:
    problem = ""
    if len(names) != num_actions:
        problem = f"{len(names)} names for {num_actions} actions"
    for name in names:
        if not isinstance(name, str) or not name or set(name) & set(" ,\t\n") or not name.isascii():
            problem = f"the name {name!r}; a name is ASCII text without spaces and commas"
    lower = [str(name).lower() for name in names]
    repeated = [name for name in names if lower.count(str(name).lower()) > 1]
    if repeated and not problem:
        problem = f"the name {repeated[0]!r} twice; upper and lower case count as equal"
    if problem:
        raise UserError(f"move_names of game {game} returns {problem}.")


def move_names(game: str) -> MoveNames:
    """Returns the notation of a game of pgx, by its name; by default the numbers."""
    return _MOVE_NAMES.get("go" if game.startswith("go_") else game, MoveNames(_numbers))


def _numbers(num_actions: int) -> list[str]:
    return [str(action) for action in range(num_actions)]


def numbers_from_one(num_actions: int) -> list[str]:
    """Returns the names 1 … A."""
    return [str(action + 1) for action in range(num_actions)]


def _othello(num_actions: int) -> list[str]:
    return [*_squares(math.isqrt(num_actions)), "pass"]


def _hex(num_actions: int) -> list[str]:
    return [*_squares(math.isqrt(num_actions)), "swap"]


def _squares(side: int) -> list[str]:
    """Names squares row by row from the top left, a1; column aa follows column z."""
    letters = string.ascii_lowercase
    columns = [letters[x // 26 - 1] * (x >= 26) + letters[x % 26] for x in range(side)]
    return [f"{column}{row + 1}" for row in range(side) for column in columns]


def _go(num_actions: int) -> list[str]:
    """Names points row by row from the top left. Source: Go Text Protocol 2, section 2.11."""
    side = math.isqrt(num_actions)
    columns = string.ascii_uppercase.replace("I", "")[:side]
    return [*(f"{column}{row}" for row in range(side, 0, -1) for column in columns), "pass"]


_MOVE_NAMES = {
    "tic_tac_toe": MoveNames(numbers_from_one, split_digits),
    "connect_four": MoveNames(numbers_from_one, split_digits),
    "othello": MoveNames(_othello, split_transcript),
    "hex": MoveNames(_hex),
    "go": MoveNames(_go),
}
