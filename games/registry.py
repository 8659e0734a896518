"""The table of games: ours, and pgx's two-player games without chance or hidden cards."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import numbers
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pgx


@dataclasses.dataclass(frozen=True)
class _Row:
    """Where a game's class is, the parameters that its name settles, and what is in its states.

    `ranges` bounds large arrays of whole numbers in the state, both ends included.
    """

    module: str
    class_name: str
    fixed: tuple[tuple[str, Any], ...] = ()
    ranges: tuple[tuple[str, tuple[int, int]], ...] = ()


def _go(size: int) -> _Row:
    # A chain is named after its first point, counted from 1 and signed by its colour; the history
    # has signs, and twos from before the game.
    ranges = (("_x.board", (-(size**2), size**2)), ("_x.board_history", (-1, 2)))
    return _Row("pgx.go", "Go", (("size", size),), ranges)


# One side names a rung, the other one answers.
_TWO_TASKS = ("hsr",)
# Six kinds of pieces, signed by their owner.
_CHESS = (("_x.board", (-6, 6)), ("_x.board_history", (-6, 6)))


# Modules are imported when a game is asked for: pgx makes arrays when it is imported.
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
    "animal_shogi": _Row("pgx.animal_shogi", "AnimalShogi"),
    "gardner_chess": _Row("pgx.gardner_chess", "GardnerChess"),
    "chess": _Row("pgx.chess", "Chess", ranges=_CHESS),
    "shogi": _Row("pgx.shogi", "Shogi"),
}


def available() -> tuple[str, ...]:
    """Returns the names that `make` knows."""
    return tuple(_GAMES)


def make(name: str, /, **parameters: Any) -> pgx.Env:
    """Builds a game's environment.

    Args:
      name: one of `available()`; "-" counts as "_".
      **parameters: keyword arguments of that game's class: `max_take` and `pile` for nim;
        `k`, `q` and `n` for hsr; `size` for hex; `komi`, `history_length` and
        `max_terminal_steps` for go. The other games have none.

    Returns:
      A pgx environment with two players; its `state_ranges` tells, by their place in the state,
      between which values its large arrays of whole numbers stay.

    Raises:
      ValueError: if there is no such game, it has no such parameter, or the value is bad.
    """
    row = _GAMES.get(str(name).replace("-", "_"))
    if row is None:
        raise ValueError(f"no game {name!r}: choose one of {', '.join(_GAMES)}.")
    game_class = getattr(importlib.import_module(row.module), row.class_name)
    defaults = _parameters(game_class, row)
    for key, value in parameters.items():
        if key not in defaults:
            known = ", ".join(defaults) or "no parameters"
            raise ValueError(f"{name} has no parameter {key!r} (={value!r}): it takes {known}.")
        _check(key, value, defaults[key])
    env = game_class(**dict(row.fixed), **parameters)
    env.state_ranges = dict(row.ranges)
    return env


def has_asymmetric_roles(env: pgx.Env) -> bool:
    """Tells whether a player has another task on either side, as in HSR.

    There the sides are rated by themselves: who plays one of them well may play the other badly.
    """
    return env.id in _TWO_TASKS


def _parameters(game_class: Any, row: _Row) -> dict[str, Any]:
    """Returns the parameters that are open, each with its default."""
    signature = inspect.signature(game_class)
    fixed = dict(row.fixed)
    return {k: p.default for k, p in signature.parameters.items() if k not in fixed}


def _check(key: str, value: Any, default: Any) -> None:
    """Checks a value by its default's kind; pgx asserts, or fails only when a game is played.

    A float takes any finite number; a whole number or None takes a positive whole number (None
    stays allowed). What our own games ask beyond that they check themselves.
    """
    if value is None and default is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{key}={value!r}: pass a number, such as the default {default!r}.")
    if isinstance(default, float):
        if not math.isfinite(float(value)):
            raise ValueError(f"{key}={value!r}: pass a finite number, such as {default!r}.")
    elif not isinstance(value, numbers.Integral) or int(value) < 1:
        raise ValueError(f"{key}={value!r}: pass a whole number of at least 1.")
