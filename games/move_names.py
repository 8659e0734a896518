"""Names of actions, for games in which an action has the same name in all positions."""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from typing import NamedTuple


class MoveNames(NamedTuple):
    """The notation of a game in which each action has one name in all positions.

    Attributes:
      names: `(num_actions) -> names`, one name for each action.
      joined: whether all names are single digits, so that moves need no separator.
    """

    names: Callable[[int], list[str]]
    joined: bool = False


def move_names(game: str) -> MoveNames:
    """Returns the notation of a game, by the name of its environment; by default the numbers."""
    return _MOVE_NAMES.get("go" if game.startswith("go_") else game, MoveNames(_numbers))


def _numbers(num_actions: int) -> list[str]:
    return [str(action) for action in range(num_actions)]


def _from_one(num_actions: int) -> list[str]:
    return [str(action + 1) for action in range(num_actions)]


def _hsr(num_actions: int) -> list[str]:
    return [*_from_one(num_actions - 2), "break", "no-break"]


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
    "connect2": MoveNames(_from_one, joined=True),
    "nim": MoveNames(_from_one),
    "hsr": MoveNames(_hsr),
    "tic_tac_toe": MoveNames(_from_one, joined=True),
    "connect_four": MoveNames(_from_one, joined=True),
    "othello": MoveNames(_othello),
    "hex": MoveNames(_hex),
    "go": MoveNames(_go),
}
