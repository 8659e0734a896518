"""Optional abilities of a game: methods and attributes that its environment may have.

The games of this package have them where they apply. An environment of a user has the same service
if it has the same methods. For a game named by an import path, the module may define them instead,
as functions whose first argument is the environment (`games.own_game`). games/README.md lists what
happens without them.

Besides the methods of `Abilities`, an environment may have `joined_moves` (bool: moves that are
single digits need no separators), `asymmetric_roles` (bool: ratings by side) and `state_ranges` (a
mapping, for packed states); and a state `picture()`, which returns a `games.Picture`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dualmctx.errors import UserError
from dualmctx.import_path import describe

if TYPE_CHECKING:
    import jax
    import numpy as np


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


class Abilities(Protocol):
    """The optional methods of an environment; it may have any of them."""

    def move_names(self) -> Sequence[str]:
        """Returns A different words of ASCII, without commas; upper and lower case are equal.

        For a game in which an action has the same name in all positions.
        """
        ...

    def symmetries(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns `[S, D]` permutations of the flattened observation and `[S, A]` of the actions.

        The first one is the identity. Entry i of the new observation is entry `observation[s, i]`
        of the old one; new action b is old action `action[s, b]`. See `games.symmetries`.
        """
        ...

    @property
    def num_codes(self) -> int:
        """The number of position codes; times A it must be at most 2^26."""
        ...

    @property
    def max_plies(self) -> int:
        """A bound of the length of a game, which limits its exact solution as A does."""
        ...

    def position_code(self, state: Any) -> jax.Array:
        """Returns the code of an unbatched state, int32 `[]`, from 0 to `num_codes` - 1.

        It gives a small game an exact solution, which follows from the game's own steps; rewards
        must be zero before its last move. Two positions with the same code have the same moves and,
        for the player to move, the same result. The code does not depend on the identities of the
        players.
        """
        ...

    def from_fen(self, text: str) -> Any:
        """Returns the unbatched state of a line of text; player 0 moves first in a game.

        The text has no white space around it.

        Raises:
          ValueError: if the text is not a position of the game.
        """
        ...

    def to_fen(self, state: Any) -> str:
        """Returns the text of an unbatched state, in one line."""
        ...

    def board_input(self, state: Any) -> Mapping[int, Cells]:
        """Returns the cells of legal moves, by action, on the picture of a state.

        The state is unbatched and not over. A cell is a pair of a row and a column of
        `Picture.rows`, from 0. An action without cells is entered by its name.
        """
        ...


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
