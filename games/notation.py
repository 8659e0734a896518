"""Parses and formats moves in the notation of each game, one by one or many positions at once."""

from __future__ import annotations

import collections
import functools
import math
import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dualmctx.errors import UserError
from games import san, uci
from games.abilities import ability
from games.fen import is_chess, start_position, to_position
from games.positions import PAWN, Position
from games.records import SplitFn, record_of, split_digits

if TYPE_CHECKING:
    import pgx


def parse_moves(env: pgx.Env, moves: Any, start: Any = None) -> list[int]:
    """Parses moves in the notation of the game, which games/README.md describes.

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
    if is_chess(env) and isinstance(moves, str):
        moves = moves.replace(",", " ").split()
    moves = split_moves(moves, split_joined(env))
    if is_chess(env) and not all(map(san.is_uci, moves)):
        moves = list(san.to_uci(env.id, _position(env, start), moves))
    line, actions = _begin(env, start), []
    for number, move in enumerate(moves, start=1):
        try:
            actions.append(_read(env, line, move))
        except UserError as error:
            raise UserError(f"move {number}, {reprlib.repr(move)}, is {error}.") from None
        line = uci.play(env.id, line, actions[-1]) if line else None
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
    line, texts = _begin(env, start), []
    for number, action in enumerate(actions, start=1):
        try:
            action = uci.check_action(action, num_actions(env))
            texts.append(uci.show(env.id, line, action) if line else action_names(env)[action])
        except UserError as error:
            raise UserError(f"move {number}, {reprlib.repr(action)}, is {error}.") from None
        line = uci.play(env.id, line, action) if line else None
    return texts


def format_action(env: pgx.Env, state: Any, action: int) -> str:
    """Formats one action in a position; see `format_moves`."""
    return format_moves(env, state, [action])[0]


def split_moves(moves: Any, split: SplitFn | None) -> Sequence[Any]:
    """Splits text into moves, by `split` if it has no separators; a list or tuple is unchanged.

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
    own, number = ability(env, "move_names"), num_actions(env)
    if own is None:
        return np.array(record_of(env.id).names(number), object)
    names = list(own())
    _check_names(env.id, names, number)
    return np.array(names, object)


def _check_names(game: str, names: list[Any], number: int) -> None:
    problem = ""
    if len(names) != number:
        problem = f"{len(names)} names for {number} actions"
    for name in names:
        if not isinstance(name, str) or not name or set(name) & set(" ,\t\n") or not name.isascii():
            problem = f"the name {name!r}; a name is ASCII text without spaces and commas"
    counts = collections.Counter(str(name).lower() for name in names)
    repeated = [name for name in names if counts[str(name).lower()] > 1]
    if repeated and not problem:
        problem = f"the name {repeated[0]!r} twice; upper and lower case count as equal"
    if problem:
        raise UserError(f"move_names of game {game} returns {problem}.")


def split_joined(env: pgx.Env) -> SplitFn | None:
    """Returns how text without separators is split into moves; `None` if moves need separators."""
    if ability(env, "move_names") is None:
        return record_of(env.id).split
    return split_digits if getattr(env, "joined_moves", False) else None


@functools.lru_cache(maxsize=64)
def num_actions(env: pgx.Env) -> int:
    """Returns A; unlike the property of pgx, it computes nothing, and traces a game once."""
    return jax.eval_shape(env.init, jax.random.PRNGKey(0)).legal_action_mask.shape[0]


@functools.lru_cache(maxsize=64)
def _actions_by_name(env: pgx.Env) -> dict[str, int]:
    return {name.lower(): action for action, name in enumerate(action_names(env))}


def _begin(env: pgx.Env, start: Any) -> uci.Line | None:
    """Returns the context of the first move; `None` if names do not depend on the position."""
    if not is_chess(env):
        return None
    if isinstance(start, uci.Line):
        return start
    return _initial_line(env) if start is None else uci.begin(_position(env, start))


@functools.lru_cache(maxsize=64)
def _initial_line(env: pgx.Env) -> uci.Line:
    return uci.begin(start_position(env))


def _read(env: pgx.Env, line: uci.Line | None, move: Any) -> int:
    if not isinstance(move, str):
        return uci.check_action(move, num_actions(env))
    text = "-".join(move.split())  # accepts "no break" for "no-break"
    if line:
        return uci.read(env.id, line, text)
    action = _actions_by_name(env).get(text.lower()) if text.isascii() else None
    if action is None:
        names = action_names(env)
        examples = f"write one of {names[0]}, {names[1]} … {names[-1]}"
        raise UserError(f"not a move of {env.id}: {examples}")
    return action


def _position(env: pgx.Env, start: Any) -> Position:
    """Returns the position of a state, a `Position` or None for the start of a game."""
    if start is None:
        return start_position(env)
    return start if isinstance(start, Position) else to_position(env, start)


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
        begins = (
            uci.Line(frozenset(np.flatnonzero(pawns).tolist()), int(color))
            for pawns, color in zip(*contexts, strict=True)
        )
        moves = [[action for action in line if action >= 0] for line in lines.tolist()]
        return [format_moves(env, *pair) for pair in zip(begins, moves, strict=True)]
    texts = action_names(env)[lines[is_move]].tolist()
    ends = np.cumsum(is_move.sum(axis=1)).tolist()
    return [texts[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
