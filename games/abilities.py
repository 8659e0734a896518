"""Optional abilities of a game: methods and attributes that its environment may have.

The games of this package have them where they apply. An environment of a user has the same service
if it has the same methods. For a game named by an import path, the module may define them instead,
as functions whose first argument is the environment (`games.own_game`). games/README.md lists what
happens without them. States are unbatched.

- `move_names()`: A different words of ASCII, without commas; upper and lower case are equal. For a
  game in which an action has the same name in all positions.
- `joined_moves`: bool, whether moves that are single digits need no separators.
- `symmetries()`: int `[S, D]` permutations of the flattened observation and `[S, A]` of the
  actions, as in `games.Symmetries`; the first one is the identity.
- `position_code(state)`: int32 `[]`, from 0 to the attribute `num_codes` - 1. It gives a small game
  an exact solution, which follows from the game's own steps; rewards must be zero before its last
  move. Two positions with the same code have the same moves and, for the player to move, the same
  result. The code does not depend on the identities of the players. `num_codes` times A is at most
  2^26, and so is `num_codes` times `max_plies`, a bound of the length of a game, if there is one.
- `from_fen(text)`: the state of a text, in which player 0 is the player who moves first in a game;
  it raises `ValueError` if the text is not a position. `to_fen(state)` is its inverse.
- `board_input(state)`: the `Cells` of legal moves, by action, of a state that is not over. An
  action without cells is entered by its name.
- `asymmetric_roles`: bool, for ratings by side. `state_ranges`: a mapping, for packed states.
- `picture()`, a method of a state: the `games.Picture` of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dualmctx.errors import UserError
from dualmctx.import_path import describe

Cell = tuple[int, int]
"""Row and column of a cell, from 0, in `Picture.rows`."""


class Cells(NamedTuple):
    """The cells of a move.

    Attributes:
      start: the cell to choose first, such as the square of a chess piece; `None` if there is none.
      targets: the cells of which one is chosen (next); none if the move is entered by its name.
      shown: the cell on which numbers of the move are drawn; `None` if there is none.
    """

    start: Cell | None = None
    targets: tuple[Cell, ...] = ()
    shown: Cell | None = None


def ability(
    env: Any, name: str, refusal: type[ValueError] = UserError
) -> Callable[..., Any] | None:
    """Returns an optional method of a game, or `None` if it lacks it.

    Args:
      env: any environment.
      name: the name of the method.
      refusal: the exception by which the method refuses its arguments.

    Returns:
      The method. It raises `UserError` only: with the message of a refusal, or with a description
      of any other exception.
    """
    method = getattr(env, name, None)
    if not callable(method):
        return None

    def call(*arguments: Any) -> Any:
        try:
            return method(*arguments)
        except refusal as error:
            raise UserError(str(error)) from error
        except Exception as error:
            raise UserError(f"{name} of game {env.id} raised {describe(error)}") from error

    return call
