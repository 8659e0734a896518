"""pgx's Hex, for boards of any size.

pgx 2.6.0 accepts a `size` but starts every game on an 11 by 11 board, so that `init` fails for any
other size. Only the initial state is replaced here; the rules are pgx's.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pgx.hex

from games import adapter


@adapter.state_class
class State(pgx.hex.State):
    """pgx's Hex state, rendered at its own board size."""


class Hex(pgx.hex.Hex):
    """The pgx environment: one action for each of the size² cells, then the swap.

    Args:
      size: number of cells along a side, from 2 to 100.

    Raises:
      ValueError: if `size` is not an integer in this range.
    """

    def __init__(self, *, size: int = 11) -> None:
        super().__init__(size=adapter.check_whole("size", size, 2, 100, "the cells along a side"))

    def _init(self, key: jax.Array) -> State:
        cells = self.size**2
        first = jax.random.bernoulli(key).astype(jnp.int32)
        order = jnp.stack([first, 1 - first])
        x = self._game.init()._replace(board=jnp.zeros(cells, jnp.int32))
        return State(
            current_player=first,
            legal_action_mask=jnp.arange(cells + 1) < cells,
            _player_order=order,
            _x=x,
        )
