"""pgx's Go with a faster step and identical states.

The environment is `pgx.go.Go` of pgx 2.6.0 (Apache-2.0): the same name, parameters, state class and
state after every action, illegal ones included, so that saved states and trained networks stay
valid. Only the computation of a step differs:

- `games.go_rules` finds captures and legal points without comparing all points with all chains.
- `games.go_area` scores a board without a loop that the host controls. pgx scores after every move
  and reads the condition of its loop back from the device about as often as the largest distance
  from an empty point to a stone, over all games of the batch.
- Positional superko is one comparison with all previous hashes; arrays are updated by selection
  instead of scatter.

Unlike pgx's, this step can also be traced with `jax_enable_x64`.

docs/results.md has the times of both steps.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pgx.go
from jax import lax

from games import go_area, go_rules
from games.adapter import check_number, check_whole


class Go(pgx.go.Go):
    """The pgx environment: one action for each of the size² points, then the pass.

    Args:
      size: number of points along a side, from 2 to 19.
      komi: points for White, from -361 to 361.
      history_length: number of boards in an observation, from 1 to 1,000.
      max_terminal_steps: a game ends after this number of plies, from 1 to 100,000; by default
        2 size².

    Raises:
      ValueError: if a parameter is not a number in its range.
    """

    def __init__(
        self,
        *,
        size: int = 19,
        komi: float = 7.5,
        history_length: int = 8,
        max_terminal_steps: int | None = None,
    ) -> None:
        if max_terminal_steps is not None:
            max_terminal_steps = check_whole(
                "max_terminal_steps", max_terminal_steps, 1, 100_000, "the plies of a game"
            )
        super().__init__(
            size=check_whole("size", size, 2, 19, "the points along a side"),
            komi=check_number("komi", komi, 361, "the points for White"),
            history_length=check_whole(
                "history_length", history_length, 1, 1000, "the boards in an observation"
            ),
            max_terminal_steps=max_terminal_steps,
        )

    def _step(self, state: Any, action: jax.Array, key: Any) -> Any:
        del key
        x, player = self._play(state._x, jnp.asarray(action, jnp.int32)), state._player_order
        sign = 1 - 2 * x.color
        legal = go_rules.legal_points(x.board, sign, x.ko, self._game.size)
        terminated = self._game.is_terminal(x)
        return state.replace(
            current_player=player[x.color],
            legal_action_mask=jnp.append(legal, True),
            rewards=self._rewards(x, terminated)[player],
            terminated=terminated,
            _x=x,
        )

    def _play(self, x: Any, action: jax.Array) -> Any:
        """Returns the next `GameState` of pgx; `action` is a point, or size² to pass."""
        size = self._game.size
        is_pass = action >= size * size
        after = go_rules.place_stone(x.board, action, 1 - 2 * x.color, size)
        signs = jnp.sign(after.board)
        code = _hash(signs)
        is_now = jnp.arange(x.hash_history.shape[0], dtype=jnp.int32) == x.step_count
        is_repeated = jnp.any(jnp.all(x.hash_history == code, axis=-1) & ~is_now)
        captured = jnp.where(jnp.arange(2) == x.color, after.num_captured, 0)
        return x._replace(
            step_count=x.step_count + 1,
            board=after.board,
            board_history=jnp.concatenate([signs[None], x.board_history[:-1]]),
            num_captured=x.num_captured + captured,
            consecutive_pass_count=jnp.where(is_pass, x.consecutive_pass_count + 1, 0),
            ko=after.ko,
            is_psk=is_repeated & ~is_pass,
            hash_history=jnp.where(is_now[:, None], code, x.hash_history),
        )

    def _rewards(self, x: Any, terminated: jax.Array) -> jax.Array:
        """Returns float32 `[2]` by colour, zero until the game is over.

        The player who repeats a position loses; `x.color` is the other player.
        """
        black, white = go_area.count_area(x.board, self._game.size, terminated & ~x.is_psk)
        black_wins = jnp.where(x.is_psk, x.color == 0, black - self._game.komi > white)
        rewards = jnp.where(black_wins, jnp.float32([1, -1]), jnp.float32([-1, 1]))
        return jnp.where(terminated, rewards, jnp.float32(0))


def _hash(signs: jax.Array) -> jax.Array:
    """Returns pgx's Zobrist hash of a board of -1, 0 and 1, uint32 `[2]`."""
    table = np.asarray(pgx.go.go.ZOBRIST_BOARD)[:, : signs.shape[0]]
    empty, black, white = table.transpose(0, 2, 1)
    codes = jnp.where(signs == 0, empty, jnp.where(signs > 0, black, white))
    return lax.reduce(codes, np.uint32(0), lax.bitwise_xor, (1,))
