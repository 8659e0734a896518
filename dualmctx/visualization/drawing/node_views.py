"""Names of moves and pictures of positions for the nodes of a search tree."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.visualization.drawing.search_tree import SearchTree
from games import Picture
from games.histories import pad_histories
from games.pictures import mark_last_move, picture

# Boards are drawn by default up to this number of cells, with at most this text in a cell.
_MAX_CELLS, _MAX_TEXT = 49, 2


def choose_state(state: Any, index: int) -> Any:
    """Returns one state on the host, from a state or a batch of states.

    Args:
      state: a state of a game, with or without a batch axis.
      index: the element of the batch; ignored without a batch axis.

    Raises:
      ValueError: if `state` is not a state of a game, or the batch does not have the element.
    """
    if not hasattr(state, "current_player"):
        raise UserError(
            f"state is of type {type(state).__name__}; pass the state of the game that was searched"
        )
    state = jax.device_get(state)
    shape = np.shape(state.current_player)
    if len(shape) == 0:
        return state
    if len(shape) != 1 or index >= shape[0]:
        raise UserError(
            f"state has the batch shape {shape}, and index is {index}; pass the states that were "
            "searched"
        )
    return jax.tree.map(lambda x: np.asarray(x)[index], state)


def name_moves(env: Any, state: Any, tree: SearchTree) -> dict[int, str]:
    """Names the moves that lead to the nodes.

    Args:
      env: the game; `None` names a move by the number of its action.
      state: the unbatched state at the root, or `None`. Chess needs it; without it, moves of chess
        are named by numbers.
      tree: a search tree.

    Returns:
      The text of each move in the notation of the game, by the index of the node.

    Raises:
      ValueError: if the game does not have an action of the tree.
    """
    is_chess = env is not None and games.is_chess(env)
    moves = [index for index in tree.nodes if index]
    if env is None or (is_chess and state is None):
        return {index: str(tree.nodes[index].action) for index in moves}
    start = games.to_position(env, state) if is_chess else None
    try:
        if not is_chess:
            texts = games.format_moves(env, None, [tree.nodes[index].action for index in moves])
            return dict(zip(moves, texts, strict=True))
        return {index: games.format_moves(env, start, tree.path(index))[-1] for index in moves}
    except UserError as error:
        raise UserError(f"env is {env.id}, which is not the game of the tree: {error}") from None


def replay_positions(env: Any, state: Any, histories: Sequence[Sequence[int]]) -> Any:
    """Returns the states after some moves, `[S]` on the host.

    Args:
      env: the game.
      state: an unbatched state.
      histories: the actions that lead from the state to each of S positions.

    Raises:
      ValueError: if an action is illegal.
    """
    padded = pad_histories(histories)
    starts = jax.tree.map(lambda x: np.broadcast_to(x, (len(histories), *np.shape(x))), state)
    states, first_bad = jax.device_get(games.replay_checked(env, padded, starts))
    if (first_bad >= 0).any():
        row = int(np.argmax(first_bad >= 0))
        raise UserError(
            f"state is not the position that was searched: action {padded[row, first_bad[row]]} is "
            "illegal there"
        )
    return states


def draw_position(states: Any, row: int) -> Picture:
    """Returns the picture of one of `[S]` states; raises a ValueError if it cannot be drawn."""
    return picture(jax.tree.map(lambda x: x[row], states))


def draw_positions(states: Any, histories: Sequence[Sequence[int]]) -> list[Picture]:
    """Returns the pictures of `[S]` states.

    Args:
      states: the states of `replay_positions`.
      histories: the actions that lead to each. Where the history without its last action is among
        them too, the picture marks the cells that the last move changed.

    Raises:
      ValueError: if states of the game cannot be drawn.
    """
    drawn = {tuple(moves): draw_position(states, row) for row, moves in enumerate(histories)}
    return [
        mark_last_move(drawn[tuple(moves)], drawn.get(tuple(moves[:-1])) if moves else None)
        for moves in histories
    ]


def is_small(board: Picture) -> bool:
    """Returns whether a board is small enough to be drawn in every node."""
    cells = [cell for row in board.rows for cell in row]
    return len(cells) <= _MAX_CELLS and max(map(len, cells), default=0) <= _MAX_TEXT
