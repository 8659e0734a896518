"""The registry of games: those of this package, pgx's two-player games, and those of users."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import reprlib
from typing import TYPE_CHECKING, Any

from dualmctx.errors import UserError
from dualmctx.import_path import is_import_path
from games.own_game import ENTRY_POINTS, entry_points, make_own_game

if TYPE_CHECKING:
    import pgx


@dataclasses.dataclass(frozen=True)
class _Row:
    """A registered game.

    Attributes:
      module: the module of the class, imported when the game is first used.
      class_name: the name of the class.
      fixed: parameters that follow from the name of the game.
      ranges: inclusive bounds of the values of large integer arrays in the state, by path.
    """

    module: str
    class_name: str
    fixed: tuple[tuple[str, Any], ...] = ()
    ranges: tuple[tuple[str, tuple[int, int]], ...] = ()


def _go(size: int) -> _Row:
    # pgx labels a chain by its first point, counted from 1 and signed by its colour. The history
    # holds signs, and 2 for boards before the start of the game.
    ranges = (("_x.board", (-(size**2), size**2)), ("_x.board_history", (-1, 2)))
    return _Row("games.go", "Go", (("size", size),), ranges)


# Six kinds of pieces, signed by their owner.
_CHESS = (("_x.board", (-6, 6)), ("_x.board_history", (-6, 6)))


# Modules are imported on first use, because pgx creates arrays on import.
_GAMES = {
    "connect2": _Row("games.connect2", "Connect2"),
    "nim": _Row("games.nim", "Nim"),
    "hsr": _Row("games.hsr", "HSR"),
    "tic_tac_toe": _Row("pgx.tic_tac_toe", "TicTacToe"),
    "connect_four": _Row("pgx.connect_four", "ConnectFour"),
    "othello": _Row("pgx.othello", "Othello"),
    "hex": _Row("games.hex", "Hex"),
    "go_9x9": _go(9),
    "go_19x19": _go(19),
    "animal_shogi": _Row("games.animal_shogi", "AnimalShogi"),
    "gardner_chess": _Row("pgx.gardner_chess", "GardnerChess"),
    "chess": _Row("games.chess", "Chess", ranges=_CHESS),
    "shogi": _Row("pgx.shogi", "Shogi"),
}


def available() -> tuple[str, ...]:
    """Returns the names that `make` accepts, also those of installed packages.

    Other games are named by import paths, which are not listed.
    """
    return (*_GAMES, *(name for name in entry_points() if name not in _GAMES))


def make(name: str, /, **parameters: Any) -> pgx.Env:
    """Builds the environment of a game.

    Args:
      name: one of `available()`, where "-" and "_" are equivalent; or the import path of a game of
        your own, `package.module:factory`. The factory is a function or class that returns a
        `dualmctx.types.Environment`. Its module may be in the current folder.
      **parameters: keyword arguments of the class or factory of the game: `max_take` and `pile` for
        nim; `k`, `q` and `n` for hsr; `size` for hex; `komi`, `history_length` and
        `max_terminal_steps` for go. The other games of this package have no parameters.

    Returns:
      A pgx environment with two players, or an `OwnGame`, which wraps a user's environment. Its
      `state_ranges` maps the paths of large integer arrays in the state to the inclusive bounds of
      their values.

    Raises:
      ValueError: if the game or the parameter does not exist, or the value is invalid; for games
        outside this package, also if the module cannot be imported or the factory raises.
    """
    if is_import_path(name):
        return make_own_game(name, name, parameters)
    known = str(name).replace("-", "_")
    row = _GAMES.get(known)
    if row is None:
        return _make_installed(name, known, parameters)
    game_class = getattr(importlib.import_module(row.module), row.class_name)
    defaults = _parameters(game_class, row)
    for key in parameters:
        if key not in defaults:
            names = ", ".join(defaults) or "no parameters"
            raise UserError(f"{name} has no parameter {reprlib.repr(key)}: it takes {names}.")
    env = game_class(**dict(row.fixed), **parameters)
    env.state_ranges = dict(row.ranges)
    return env


def _make_installed(name: Any, known: str, parameters: dict[str, Any]) -> Any:
    """Builds a game that an installed package names by an entry point."""
    point = entry_points().get(known)
    if point is None:
        raise UserError(
            f"no game {name!r}: choose one of {', '.join(available())}, or name a game of your own "
            "as package.module:factory. If another package has this game (entry-point group "
            f"{ENTRY_POINTS}), install that package."
        )
    try:
        return make_own_game(known, f"{point.module}:{point.attr}", parameters)
    except UserError as error:
        package = point.dist.name if point.dist else "unknown"
        raise UserError(f"{error} (game {name!r} of the installed package {package})") from error


def has_asymmetric_roles(env: pgx.Env) -> bool:
    """Returns whether the two sides have different roles, as in HSR.

    Such games are rated separately by side, because a player may be strong on one side and weak on
    the other. The environment says so by its attribute `asymmetric_roles`.
    """
    return bool(getattr(env, "asymmetric_roles", False))


def with_defaults(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a game with the defaults of those that are not given.

    The defaults of games outside this package are not known; only given parameters are returned.
    """
    row = _GAMES.get(name.replace("-", "_"))
    if row is None:
        return parameters
    game_class = getattr(importlib.import_module(row.module), row.class_name)
    return _parameters(game_class, row) | parameters


def _parameters(game_class: Any, row: _Row) -> dict[str, Any]:
    """Returns the parameters that the caller may set, with their defaults."""
    signature = inspect.signature(game_class)
    fixed = dict(row.fixed)
    return {k: p.default for k, p in signature.parameters.items() if k not in fixed}
