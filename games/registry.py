"""The registry of games: those of this package, pgx's two-player games, and those of users."""

from __future__ import annotations

import functools
import importlib
import inspect
import reprlib
from typing import TYPE_CHECKING, Any

from dualmctx.errors import UserError
from dualmctx.import_path import is_import_path
from games.own_game import ENTRY_POINTS, entry_points, make_own_game
from games.records import GAMES, record_of

if TYPE_CHECKING:
    import pgx


def available() -> tuple[str, ...]:
    """Returns the names that `make` accepts, also those of installed packages.

    Other games are named by import paths, which are not listed.
    """
    return (*GAMES, *entry_points())


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
      A pgx environment with two players, the same object for equal arguments; or an `OwnGame`,
      which wraps a user's environment. Its `state_ranges` maps the paths of large integer arrays in
      the state to the inclusive bounds of their values.

    Raises:
      ValueError: if the game or the parameter does not exist, or the value is invalid; for games
        outside this package, also if the module cannot be imported or the factory raises.
    """
    if is_import_path(name):
        return make_own_game(name, name, parameters)
    known = str(name).replace("-", "_")
    if known not in GAMES:
        return _make_installed(name, known, parameters)
    defaults = with_defaults(known, {})
    given = defaults | parameters
    for key in parameters:
        if key not in defaults:
            names = ", ".join(defaults) or "no parameters"
            raise UserError(f"{name} has no parameter {reprlib.repr(key)}: it takes {names}.")
    try:
        return _make_known(known, **given)
    except TypeError:  # a value without a hash, which the game refuses
        return _make_known.__wrapped__(known, **given)


# Equal games are one object, because programs are compiled and solutions found for each object.
@functools.lru_cache(maxsize=64, typed=True)
def _make_known(name: str, **parameters: Any) -> pgx.Env:
    record = GAMES[name]
    env = _class_of(record.path)(**record.fixed, **parameters)
    env.state_ranges = record.ranges
    return env


@functools.cache
def _class_of(path: str) -> Any:
    """Returns the class of an environment, one of pgx with shapes that are traced."""
    from games.adapter import TracedShapes  # imports pgx

    module, name = path.split(":")
    known = getattr(importlib.import_module(module), name)
    if issubclass(known, TracedShapes):
        return known
    return type(name, (TracedShapes, known), {"__doc__": known.__doc__, "__module__": module})


def _make_installed(name: Any, known: str, parameters: dict[str, Any]) -> Any:
    """Builds a game that an installed package names by an entry point."""
    point = entry_points().get(known)
    if point is None:
        hint = (
            "Other sizes of Go are not here; name a game of another package by its path."
            if record_of(known).path
            else f"If another package has this game (entry-point group {ENTRY_POINTS}), install "
            "that package."
        )
        raise UserError(
            f"no game {name!r}: choose one of {', '.join(available())}, or name a game of your own "
            f"as package.module:factory. {hint}"
        )
    try:
        # Only a path that the user names is searched in the current folder.
        path = f"{point.module}:{point.attr}"
        return make_own_game(known, path, parameters, in_folder=False)
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
    record = GAMES.get(name.replace("-", "_"))
    if record is None:
        return parameters
    signature = inspect.signature(_class_of(record.path))
    own = {k: p.default for k, p in signature.parameters.items() if k not in record.fixed}
    return own | parameters
