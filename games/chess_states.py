"""States of chess and Gardner's chess from a FEN, and the FEN of a state.

pgx has functions for this that leave the start of the game in the history of the state: networks
would see it as the position before, and a return to it would count as a repetition.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from games.fen import read_fen, write_fen
from games.positions import Position

if TYPE_CHECKING:
    import pgx


def from_fen(env: pgx.Env, fen: str) -> Any:
    """Makes the state of a FEN.

    Args:
      env: chess or gardner_chess.
      fen: all six fields.

    Returns:
      The state, unbatched, as after moves that led there: with the count of plies that the number
      of the move tells, but an empty history. Player 0 is White.

    Raises:
      ValueError: as `read_fen`.
    """
    return jax.tree.map(lambda leaf: leaf[0], set_up(env, [read_fen(env, fen)]))


def to_fen(env: pgx.Env, state: Any) -> str:
    """Writes the FEN of an unbatched state; raises as `position_of`."""
    return write_fen(position_of(env, state))


def set_up(env: pgx.Env, positions: Sequence[Position]) -> Any:
    """Makes a batch of states.

    Args:
      env: chess or gardner_chess.
      positions: S of them, as `read_fen` returns them, at least 1.

    Returns:
      `[S]` states, as `from_fen`. Compiled once for each power of two that S is filled up to.

    Raises:
      ValueError: if the game is neither of the two or there are no positions.
    """
    if env.id not in _SET_UP or not positions:
        raise ValueError(
            f"{len(positions)} positions of {env.id}: pass at least one, of chess or gardner_chess."
        )
    number = len(positions)
    size = 1 << (number - 1).bit_length()
    filled = [positions[i % number] for i in range(size)]
    boards = np.array([position.board for position in filled], np.int32)
    rights = np.array([[right in position.castling for right in "QKqk"] for position in filled])
    numbers = np.array([(p.color, p.en_passant, p.halfmoves, p.fullmoves) for p in filled])
    states = _set_up(env, boards, rights.reshape(-1, 2, 2), numbers.astype(np.int32))
    return jax.tree.map(lambda leaf: leaf[:number], states)


def position_of(env: pgx.Env, state: Any) -> Position:
    """Returns what a FEN says of a state.

    Args:
      env: chess or gardner_chess.
      state: unbatched, of `env`.

    Returns:
      The position, in numbers of the host.

    Raises:
      ValueError: if the game is neither of the two or the state is batched.
    """
    if env.id not in _SET_UP or np.ndim(state.current_player):
        shape = np.shape(state.current_player)
        raise ValueError(
            f"a state of {env.id} of shape {shape}: pass a single one, of chess or gardner_chess."
        )
    if env.id == "gardner_chess":
        fields = state._board, state._turn, np.zeros((2, 2)), -1
        counts = state._halfmove_count, state._fullmove_count
    else:
        x = state._x
        fields = x.board, x.color, x.castling_rights, x.en_passant
        counts = x.halfmove_count, x.fullmove_count
    board, color, rights, en_passant, *counts = jax.device_get((*fields, *counts))
    # pgx shows a position to Black with the ranks reversed, the colours and the rights exchanged.
    if color:
        size = math.isqrt(board.size)
        board, rights = -board.reshape(size, size)[:, ::-1].ravel(), rights[::-1]
        en_passant += (size - 1 - 2 * (en_passant % size)) * (en_passant >= 0)
    (queen, king), (black_queen, black_king) = rights
    left = zip("KQkq", (king, queen, black_king, black_queen), strict=True)
    castling = "".join(name for name, right in left if right)
    return Position(tuple(board.tolist()), int(color), castling, int(en_passant), *map(int, counts))


@functools.partial(jax.jit, static_argnums=0)
def _set_up(env: pgx.Env, boards: jax.Array, rights: jax.Array, numbers: jax.Array) -> Any:
    def one(board: jax.Array, rights: jax.Array, numbers: jax.Array) -> Any:
        color, _, _, fullmoves = numbers
        plies = 2 * (fullmoves - 1) + color
        state = _SET_UP[env.id](board, rights, numbers, plies)
        # As pgx does it after a move.
        mask = state.legal_action_mask | state.terminated
        state = state.replace(_step_count=plies, legal_action_mask=mask)
        return state.replace(observation=env.observe(state))

    return jax.vmap(one)(boards, rights, numbers)


def _chess(board: Any, rights: Any, numbers: Any, plies: Any) -> Any:
    from pgx import chess
    from pgx._src.games import chess as rules  # the rules of pgx's chess are nowhere else

    color, en_passant, halfmoves, fullmoves = numbers
    start = rules.GameState()
    x = start._replace(
        board=board,
        castling_rights=rights,
        en_passant=en_passant,
        halfmove_count=halfmoves,
        fullmove_count=fullmoves,
        hash_history=jnp.zeros_like(start.hash_history),
        board_history=jnp.zeros_like(start.board_history),
        step_count=plies,
    )
    x = rules._update_history(_as_seen_by(color, x, rules._flip))
    x = x._replace(legal_action_mask=rules._legal_action_mask(x))
    return chess.State(
        current_player=color,
        _player_order=jnp.arange(2, dtype=jnp.int32),
        _x=x,
        legal_action_mask=x.legal_action_mask,
        terminated=rules.Game().is_terminal(x),
        rewards=rules.Game().rewards(x),
    )


def _gardner_chess(board: Any, rights: Any, numbers: Any, plies: Any) -> Any:
    from pgx import gardner_chess as rules

    del rights, plies
    color, _, halfmoves, fullmoves = numbers
    start = rules.State()
    state = start.replace(
        _board=board,
        _halfmove_count=halfmoves,
        _fullmove_count=fullmoves,
        _hash_history=jnp.zeros_like(start._hash_history),
        _board_history=jnp.zeros_like(start._board_history),
    )
    state = _as_seen_by(color, state, rules._flip)
    state = state.replace(
        _possible_piece_positions=rules._possible_piece_positions(state),
        _zobrist_hash=rules._zobrist_hash(state),
    )
    state = rules._update_history(state)
    state = state.replace(legal_action_mask=rules._legal_action_mask(state))
    return rules._check_termination(state)


def _as_seen_by(color: Any, state: Any, flip: Callable[[Any], Any]) -> Any:
    """Turns a state of White's, laid out as White sees it, into the same of Black's."""
    return jax.tree.map(lambda white, black: jnp.where(color, black, white), state, flip(state))


_SET_UP = {"chess": _chess, "gardner_chess": _gardner_chess}
