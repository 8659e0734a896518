"""Parses and formats moves in the notation of each game, one by one or many positions at once."""

from __future__ import annotations

import functools
import math
import reprlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dualmctx.errors import UserError
from games import san, uci
from games.chess_states import to_position
from games.fen import is_chess, start_position
from games.move_names import SplitFn, names_of
from games.positions import PAWN, Position

if TYPE_CHECKING:
    import pgx


class _Notation(NamedTuple):
    """The notation of a game; `line` is its context of previous moves, None if it needs none.

    Attributes:
      begin: `(start) -> line`, from a state, a `Position`, or None for the start of a game.
      read: `(line, text) -> action`; raises a ValueError with the reason if there is no such move.
      show: `(line, action) -> text`; raises likewise.
      play: `(line, action) -> line`.
      num_actions: A.
      split: splits text without separators, see `MoveNames`.
    """

    begin: Callable[[Any], Any]
    read: Callable[[Any, str], int]
    show: Callable[[Any, int], str]
    play: Callable[[Any, int], Any]
    num_actions: int
    split: SplitFn | None = None


def parse_moves(env: pgx.Env, moves: Any, start: Any = None) -> list[int]:
    """Parses moves in the notation of the game.

    Connect Four: columns, 1 to 7. Tic-tac-toe and Connect2: cells, from 1, row by row. Othello and
    Hex: squares, a1 at the top left, "pass" and "swap". Go: vertices as in GTP, without column I
    and with row 1 at the bottom, and "pass". Nim: the number of stones taken. HSR: the rung,
    "break", "no-break". Chess and gardner_chess: UCI or SAN, with or without move numbers. A user's
    game: its `move_names`, see
    `games.abilities`. All others: the number of the action.

    Args:
      env: any pgx environment.
      moves: text with commas or spaces between moves, or a list of moves. For Connect Four,
        tic-tac-toe, Connect2 and games with `joined_moves` the text may be digits without
        separators; for Othello, squares without separators and without forced passes. A move in a
        list may also be an int, the number of the action.
      start: for chess, the position from which the moves start: an unbatched state or a
        `Position`; the initial position if None. Ignored for other games.

    Returns:
      The actions. Their legality is not checked; see `replay_checked`.

    Raises:
      ValueError: if a move is not in the notation of the game, or `start` is not a state of it.
    """
    notation = _notation(env)
    if is_chess(env) and isinstance(moves, str):
        moves = moves.replace(",", " ").split()
    moves = split_moves(moves, notation.split)
    if is_chess(env) and not all(map(san.is_uci, moves)):
        moves = list(san.to_uci(env.id, _position(env, start), moves))
    line, actions = notation.begin(start), []
    for number, move in enumerate(moves, start=1):
        try:
            actions.append(_read(notation, line, move))
        except UserError as error:
            raise UserError(f"move {number}, {reprlib.repr(move)}, is {error}.") from None
        line = notation.play(line, actions[-1])
    return actions


def parse_move(env: pgx.Env, move: Any, start: Any = None) -> int:
    """Parses one move in the position `start`; see `parse_moves`."""
    actions = parse_moves(env, [move], start)
    if not actions:
        raise UserError(f"move 1, {reprlib.repr(move)}, is not a move but a number or nothing.")
    return actions[0]


def format_moves(env: pgx.Env, start: Any, actions: Sequence[int]) -> list[str]:
    """Formats a sequence of moves; the inverse of `parse_moves`.

    Args:
      env: any pgx environment.
      start: for chess, the position from which the moves start, as in `parse_moves`.
      actions: numbers of the actions.

    Returns:
      The text of each move.

    Raises:
      ValueError: if an action does not exist, or `start` is not a state of the game.
    """
    notation = _notation(env)
    line, texts = notation.begin(start), []
    for number, action in enumerate(actions, start=1):
        try:
            action = _check_action(notation, action)
            texts.append(notation.show(line, action))
        except UserError as error:
            raise UserError(f"move {number}, {reprlib.repr(action)}, is {error}.") from None
        line = notation.play(line, action)
    return texts


def format_action(env: pgx.Env, state: Any, action: int) -> str:
    """Formats one action in a position; see `format_moves`."""
    return format_moves(env, state, [action])[0]


def split_moves(moves: Any, split: SplitFn | None) -> Sequence[Any]:
    """Splits text into moves; a list or tuple is returned unchanged.

    Args:
      moves: text with commas or spaces between moves, or a list of moves.
      split: splits text without separators, see `split_joined`.

    Raises:
      ValueError: if `moves` is neither.
    """
    if isinstance(moves, list | tuple):
        return moves
    if not isinstance(moves, str):
        raise UserError(f"moves={reprlib.repr(moves)}: pass a list of moves, or text.")
    if split is not None and (found := split(moves)) is not None:
        return found
    return moves.replace(", ", ",").split(",") if "," in moves else moves.split()


@functools.lru_cache(maxsize=64)
def action_names(env: pgx.Env) -> np.ndarray:
    """Returns `[A]` names of a game in which an action has the same name in all positions."""
    return np.array(names_of(env, num_actions(env)).names(num_actions(env)), object)


@functools.lru_cache(maxsize=64)
def split_joined(env: pgx.Env) -> SplitFn | None:
    """Returns how text without separators is split into moves; `None` if moves need separators."""
    return None if is_chess(env) else names_of(env, num_actions(env)).split


@functools.lru_cache(maxsize=64)
def num_actions(env: pgx.Env) -> int:
    """Returns A; unlike the property of pgx, it computes nothing, and traces a game once."""
    return jax.eval_shape(env.init, jax.random.PRNGKey(0)).legal_action_mask.shape[0]


def _read(notation: _Notation, line: Any, move: Any) -> int:
    if not isinstance(move, str):
        return _check_action(notation, move)
    return notation.read(line, "-".join(move.split()))  # accepts "no break" for "no-break"


def _check_action(notation: _Notation, action: Any) -> int:
    """Checks the number of an action and returns it as a Python int."""
    last = notation.num_actions - 1
    is_integer = isinstance(action, int | np.integer) and not isinstance(action, bool)
    if not is_integer or not 0 <= action <= last:
        raise UserError(f"not an action: pass text, or a number from 0 to {last}")
    return int(action)


@functools.lru_cache(maxsize=64)
def _notation(env: pgx.Env) -> _Notation:
    if is_chess(env):
        return _uci(env)
    names = action_names(env)
    actions = {name.lower(): action for action, name in enumerate(names)}

    def read(line: None, text: str) -> int:
        del line
        action = actions.get(text.lower()) if text.isascii() else None
        if action is None:
            raise UserError(
                f"not a move of {env.id}: write one of {names[0]}, {names[1]} … {names[-1]}"
            )
        return action

    return _Notation(
        begin=lambda start: None,
        read=read,
        show=lambda line, action: names[action],
        play=lambda line, action: None,
        num_actions=len(names),
        split=split_joined(env),
    )


def _position(env: pgx.Env, start: Any) -> Position:
    """Returns the position of a state, a `Position` or None for the start of a game."""
    if start is None:
        return start_position(env)
    return start if isinstance(start, Position) else to_position(env, start)


def _uci(env: pgx.Env) -> _Notation:
    initial = uci.begin(start_position(env))

    def begin(start: Any) -> uci.Line:
        return initial if start is None else uci.begin(_position(env, start))

    return _Notation(
        begin=begin,
        read=functools.partial(uci.read, env.id),
        show=functools.partial(uci.show, env.id),
        play=functools.partial(uci.play, env.id),
        num_actions=num_actions(env),
    )


class MoveContexts(NamedTuple):
    """The parts of S positions of chess or Gardner's chess on which the names of moves depend.

    Attributes:
      pawns: `[S, squares]` bool, whether a pawn of either colour is on a square.
      colors: `[S]` int32, the colour to move, 0 White, 1 Black.
    """

    pawns: np.ndarray
    colors: np.ndarray


def move_contexts(env: pgx.Env, states: Any) -> MoveContexts | None:
    """Reads the contexts of moves from `[S]` states; `None` if the game needs no context.

    Only the board and the colour are fetched from the device.
    """
    if not is_chess(env):
        return None
    is_gardner = env.id == "gardner_chess"
    fields = (states._board, states._turn) if is_gardner else (states._x.board, states._x.color)
    boards, colors = jax.device_get(fields)
    size = math.isqrt(boards.shape[1])
    pawns = (np.abs(boards) == PAWN).reshape(-1, size, size)
    # On Black's turn pgx stores the board with the ranks reversed.
    pawns = np.where(colors[:, None, None] == 1, pawns[:, :, ::-1], pawns)
    return MoveContexts(pawns.reshape(len(colors), -1), colors)


def format_actions(
    env: pgx.Env, contexts: MoveContexts | None, rows: np.ndarray, actions: np.ndarray
) -> list[str]:
    """Formats M actions, each of them in a position of its own.

    Args:
      env: any pgx environment.
      contexts: the contexts of S positions.
      rows: `[M]` int, the index of the position in which the action is played.
      actions: `[M]` int, the actions, which exist.

    Returns:
      M texts, as those of `format_action`.
    """
    if contexts is None:
        return action_names(env)[actions].tolist()
    return uci.show_batch(env.id, contexts.pawns, contexts.colors, rows, actions).tolist()


def format_lines(env: pgx.Env, contexts: MoveContexts | None, lines: np.ndarray) -> list[list[str]]:
    """Formats a sequence of moves from each position.

    Args:
      env: any pgx environment.
      contexts: the contexts of S positions.
      lines: `[S, D]` int, actions, padded with -1.

    Returns:
      S lists of texts, as those of `format_moves`.
    """
    is_move = lines >= 0
    if contexts is not None:
        return [
            _show_line(env, uci.Line(frozenset(np.flatnonzero(pawns).tolist()), int(color)), line)
            for pawns, color, line in zip(*contexts, lines.tolist(), strict=True)
        ]
    texts = action_names(env)[lines[is_move]].tolist()
    ends = np.cumsum(is_move.sum(axis=1)).tolist()
    return [texts[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _show_line(env: pgx.Env, context: uci.Line, line: list[int]) -> list[str]:
    texts = []
    for action in line:
        if action < 0:
            break
        texts.append(uci.show(env.id, context, action))
        context = uci.play(env.id, context, action)
    return texts
