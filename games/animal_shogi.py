"""pgx's animal shogi with a right count of repetitions.

The environment is `pgx.animal_shogi.AnimalShogi` of pgx 2.6.0 (Apache-2.0): the same name, actions,
observation and state class. A position that occurs for the third time is a draw. pgx misses some of
these and could find others that are none: a move without a capture changes its hash of the hand, a
captured piece leaves the hash of another square, and two hashes count as equal if one of their two
words is equal. Here the two words are a code of the position, so that they are equal for equal
positions only.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pgx.animal_shogi as rules
from jax import lax

# The squares of the last rank, as the player who has moved sees it.
_LAST_RANK = np.array([0, 4, 8])
# A word has six squares of 11 contents, and three numbers of pieces in hand, each at most 2.
_WEIGHTS = np.array([*(11**i for i in range(6)), *(11**6 * 3**i for i in range(3))], np.uint32)


class AnimalShogi(rules.AnimalShogi):
    """The pgx environment; it has no parameters."""

    def _init(self, key: jax.Array) -> Any:
        state = super()._init(key)
        code = _code(state)
        history = state._hash_history.at[0].set(code)
        return state.replace(_zobrist_hash=code, _hash_history=history)

    def _step(self, state: Any, action: jax.Array, key: Any) -> Any:
        del key
        move = rules.Action._from_label(action)
        state = lax.cond(move.is_drop, rules._step_drop, rules._step_move, state, move)
        has_reached_end = (state._board[_LAST_RANK] == rules.KING).any()
        # The history of boards and hands, as pgx has it before it turns the board.
        boards = jnp.roll(state._board_history, 8).at[0].set(state._board)
        hands = jnp.roll(state._hand_history, 8).at[0].set(state._hand.flatten())
        state = rules._flip(state.replace(_board_history=boards, _hand_history=hands))
        code = _code(state)
        codes = state._hash_history.at[state._step_count].set(code)
        repetitions = (codes == code).all(axis=1).sum(dtype=jnp.int32) - 1
        legal = rules._legal_action_mask(state)
        has_won = has_reached_end | ~legal.any()  # the player who has moved
        sign = 1 - 2 * (jnp.arange(2) == state.current_player)
        is_late = state._step_count >= rules.MAX_TERMINATION_STEPS
        return state.replace(
            legal_action_mask=legal,
            terminated=has_won | (repetitions >= 2) | is_late,
            rewards=jnp.where(has_won, sign, 0).astype(jnp.float32),
            _zobrist_hash=code,
            _hash_history=codes,
            _rep_history=jnp.roll(state._rep_history, 1).at[0].set(repetitions),
        )


def _code(state: Any) -> jax.Array:
    """Returns uint32 `[2]`, different for different positions, and zero for none."""
    digits = jnp.concatenate([state._board.reshape(2, 6) + 1, state._hand], axis=1)
    words = (digits.astype(jnp.uint32) * _WEIGHTS).sum(axis=1, dtype=jnp.uint32)
    return words * 2 + state._turn.astype(jnp.uint32)
