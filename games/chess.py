"""pgx's chess with the ends of games that python-chess finds.

The environment is `pgx.chess.Chess` of pgx 2.6.0 (Apache-2.0): the same name, actions, observation
and state class. A game ends without a claim at the third repetition of a position, as
`Board.is_repetition(3)` of python-chess, and after 50 moves of each side without a capture or a
pawn's move. Two faults of pgx delay the end at a repetition:

- The hash of the initial position is a constant of another version of JAX, so that the initial
  position does not count. Here it is computed.
- An en passant square counts as a part of the position after every double step of a pawn. Here it
  counts only if an en passant capture is legal, which a pinned pawn cannot make.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pgx.chess
from pgx._src.games import chess as rules  # pgx has no public module with its chess rules

# A capture en passant moves up and to the left or to the right: the differences to its target.
_LEFT, _RIGHT = 7, -9


class Game(rules.Game):
    """The rules of pgx, with another hash of a position. The state has its hash in row 0."""

    def init(self) -> Any:
        """Returns the initial position."""
        start = rules.GameState()
        code = rules._zobrist_hash(start)
        return start._replace(hash_history=start.hash_history.at[0].set(code))

    def step(self, state: Any, action: jax.Array) -> Any:
        """Returns the position after an action, int32 `[]`."""
        moved = rules._flip(rules._apply_move(state, rules.Action._from_label(action)))
        return _complete(moved)._replace(step_count=state.step_count + 1)

    def is_terminal(self, state: Any) -> jax.Array:
        """Returns bool `[]`, whether the game is over."""
        times = (state.hash_history == state.hash_history[0]).all(axis=1).sum()
        return (
            ~state.legal_action_mask.any()
            | (state.halfmove_count >= 100)
            | rules.has_insufficient_pieces(state)
            | (times >= 3)
            | (state.step_count >= rules.MAX_TERMINATION_STEPS)
        )


class Chess(pgx.chess.Chess):
    """The pgx environment; it has no parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.game = Game()

    def _init(self, key: jax.Array) -> Any:
        return super()._init(key).replace(_x=self.game.init())


def begin(state: Any) -> Any:
    """Returns a `GameState` of pgx, in the layout of the mover, as the first one of a game."""
    empty = {x: jnp.zeros_like(getattr(state, x)) for x in ("hash_history", "board_history")}
    return _complete(state._replace(**empty))


def _complete(state: Any) -> Any:
    """Finds the legal moves of a position and puts it into the history."""
    state = state._replace(legal_action_mask=rules._legal_action_mask(state))
    usable = jnp.where(_can_capture_en_passant(state), state.en_passant, -1)
    after = rules._update_history(state._replace(en_passant=usable))
    return after._replace(en_passant=state.en_passant)


def _can_capture_en_passant(state: Any) -> jax.Array:
    """Returns bool `[]`, whether an en passant capture is among the legal moves."""
    start = state.en_passant + jnp.int32([_LEFT, _RIGHT])
    is_pawn = (start >= 0) & (start < 64) & (state.board[start] == rules.PAWN)
    label = jax.vmap(lambda x: rules.Action(from_=x, to=state.en_passant)._to_label())(start)
    return (state.en_passant >= 0) & (is_pawn & state.legal_action_mask[label]).any()
