"""Moves as text, each game in its own notation, both ways."""

from __future__ import annotations

import functools
import math
import reprlib
import string
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from games import uci
from games.chess_states import position_of
from games.fen import is_chess, start_position
from games.positions import Position

if TYPE_CHECKING:
    import pgx


class _Notation(NamedTuple):
    """A game's notation; `line` is what it needs to know of the moves before, maybe nothing.

    Attributes:
      begin: `(start) -> line`, from a state, a `Position`, or None for the start of a game.
      read: `(line, text) -> action`; raises a ValueError with a reason.
      show: `(line, action) -> text`; likewise.
      play: `(line, action) -> line`.
      num_actions: A.
      joined: whether digits may be run together.
    """

    begin: Callable[[Any], Any]
    read: Callable[[Any, str], int]
    show: Callable[[Any, int], str]
    play: Callable[[Any, int], Any]
    num_actions: int
    joined: bool = False


def parse_moves(env: pgx.Env, moves: Any, start: Any = None) -> list[int]:
    """Reads moves in the game's own notation.

    Connect Four: columns, 1 to 7. Tic-tac-toe and Connect2: cells, from 1, row by row. Othello and
    Hex: squares, a1 at the top left, "pass" and "swap". Go: as GTP has it, without a column I and
    with row 1 at the bottom, "pass". Nim: the stones taken. HSR: the rung, "break", "no-break".
    Chess and gardner_chess: UCI. All others: the number of the action.

    Args:
      env: any pgx environment.
      moves: text with commas or spaces between moves, or a list of moves. In the games of cells and
        columns digits may be run together. A move in a list may be an int, the action's number.
      start: chess only: where the moves begin, an unbatched state or a `Position`; the start of a
        game if None.

    Returns:
      The actions. They are moves of the game; `replay_checked` tells whether they are legal.

    Raises:
      ValueError: in one line, if a move is not in the game's notation, or `start` is no state.
    """
    notation = _notation(env)
    line, actions = notation.begin(start), []
    for number, move in enumerate(_split(moves, notation.joined), start=1):
        try:
            actions.append(_read(notation, line, move))
        except ValueError as error:
            raise ValueError(f"move {number}, {reprlib.repr(move)}, is {error}.") from None
        line = notation.play(line, actions[-1])
    return actions


def parse_move(env: pgx.Env, move: Any, start: Any = None) -> int:
    """Reads one move, in the position `start`; otherwise as `parse_moves`."""
    return parse_moves(env, [move], start)[0]


def format_moves(env: pgx.Env, start: Any, actions: Sequence[int]) -> list[str]:
    """Writes moves that follow each other, as `parse_moves` reads them.

    Args:
      env: any pgx environment.
      start: chess only: where they begin, as in `parse_moves`.
      actions: of the game, as ints.

    Returns:
      A text for each.

    Raises:
      ValueError: in one line, if there is no such action, or `start` is no state of the game.
    """
    notation = _notation(env)
    line, texts = notation.begin(start), []
    for number, action in enumerate(actions, start=1):
        try:
            action = _checked(notation, action)
            texts.append(notation.show(line, action))
        except ValueError as error:
            raise ValueError(f"move {number}, {reprlib.repr(action)}, is {error}.") from None
        line = notation.play(line, action)
    return texts


def format_action(env: pgx.Env, state: Any, action: int) -> str:
    """Writes one action in a position; otherwise as `format_moves`."""
    return format_moves(env, state, [action])[0]


def _split(moves: Any, joined: bool) -> Sequence[Any]:
    if isinstance(moves, list | tuple):
        return moves
    if not isinstance(moves, str):
        raise ValueError(f"moves={reprlib.repr(moves)}: pass a list of moves, or text.")
    if joined and moves.isdigit():
        return list(moves)
    return moves.split(",") if "," in moves else moves.split()


def _read(notation: _Notation, line: Any, move: Any) -> int:
    if not isinstance(move, str):
        return _checked(notation, move)
    return notation.read(line, "-".join(move.split()))  # "no break" as "no-break"


def _checked(notation: _Notation, action: Any) -> int:
    """Checks an action's number."""
    last = notation.num_actions - 1
    whole = isinstance(action, int | np.integer) and not isinstance(action, bool)
    if not whole or not 0 <= action <= last:
        raise ValueError(f"no action: pass text, or a number from 0 to {last}")
    return int(action)


@functools.lru_cache(maxsize=64)
def _notation(env: pgx.Env) -> _Notation:
    num_actions = jax.eval_shape(env.init, jax.random.PRNGKey(0)).legal_action_mask.shape[0]
    if is_chess(env):
        return _uci(env, num_actions)
    row = _ROWS.get("go" if env.id.startswith("go_") else env.id, _Row(_numbers))
    names = row.names(num_actions)
    actions = {name.lower(): action for action, name in enumerate(names)}

    def read(line: None, text: str) -> int:
        del line
        action = actions.get(text.lower()) if text.isascii() else None
        if action is None:
            raise ValueError(f"no move of {env.id}: they are {names[0]}, {names[1]} … {names[-1]}")
        return action

    return _Notation(
        begin=lambda start: None,
        read=read,
        show=lambda line, action: names[action],
        play=lambda line, action: None,
        num_actions=num_actions,
        joined=row.joined,
    )


def _uci(env: pgx.Env, num_actions: int) -> _Notation:
    def begin(start: Any) -> uci.Line:
        if start is None:
            return uci.begin(start_position(env))
        return uci.begin(start if isinstance(start, Position) else position_of(env, start))

    return _Notation(
        begin=begin,
        read=functools.partial(uci.read, env.id),
        show=functools.partial(uci.show, env.id),
        play=functools.partial(uci.play, env.id),
        num_actions=num_actions,
    )


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
    """Names squares row by row from the top left, a1; after column z comes aa."""
    letters = string.ascii_lowercase
    columns = [letters[x // 26 - 1] * (x >= 26) + letters[x % 26] for x in range(side)]
    return [f"{column}{row + 1}" for row in range(side) for column in columns]


def _go(num_actions: int) -> list[str]:
    """Names points row by row from the top left; source: Go Text Protocol, version 2, 2.11."""
    side = math.isqrt(num_actions)
    columns = string.ascii_uppercase.replace("I", "")[:side]
    return [*(f"{column}{row}" for row in range(side, 0, -1) for column in columns), "pass"]


class _Row(NamedTuple):
    """How a game without an own module names its actions, from their number."""

    names: Callable[[int], list[str]]
    joined: bool = False


_ROWS = {
    "connect2": _Row(_from_one, joined=True),
    "nim": _Row(_from_one),
    "hsr": _Row(_hsr),
    "tic_tac_toe": _Row(_from_one, joined=True),
    "connect_four": _Row(_from_one, joined=True),
    "othello": _Row(_othello),
    "hex": _Row(_hex),
    "go": _Row(_go),
}
