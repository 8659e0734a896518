"""Formats the moves of many positions at once; `games.notation` formats those of one position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from games import uci
from games.fen import is_chess
from games.notation import action_names
from games.positions import PAWN

if TYPE_CHECKING:
    import pgx


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
