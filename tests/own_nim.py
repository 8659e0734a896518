"""A game of a user that has positions as text."""

from typing import Any

import jax
import numpy as np

from games.nim import Nim


class NimWithPositions(Nim):
    """Nim with positions as text: the number of stones and a letter."""

    def from_fen(self, text: str) -> Any:
        if not text.endswith("p") or not text[:-1].isdigit():
            raise ValueError("a pile is written as 12p")
        state = self.init(jax.random.PRNGKey(0))
        x = state._x._replace(pile=np.int32(int(text[:-1])))
        return state.replace(_x=x, current_player=np.int32(0))
