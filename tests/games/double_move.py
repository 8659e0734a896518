"""A test game in which a player may move twice in a row, and its solution.

One pile; a move takes one or two stones; the player who takes the last stone wins. A player who
leaves a positive multiple of three moves again. A search that flips the sign of the value at every
ply misjudges the piles 4, 6, 10, 12 …
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from games import adapter, nim


class Game(nim.Game):
    """The rules; action a takes a + 1 stones."""

    def step(self, x: nim.GameState, action: jax.Array) -> nim.GameState:
        pile = x.pile - action - 1
        again = (pile > 0) & (pile % 3 == 0)
        return nim.GameState(color=jnp.where(again, x.color, 1 - x.color), pile=pile)


@adapter.state_class
class State(adapter.State):
    """The fields of `pgx.State`, and the position `_x`."""

    name = "double_move"


class DoubleMoveNim(adapter.RulesEnv):
    """The pgx environment: 2 actions, observation bool `[pile + 1]`, the stones left."""

    state = State

    def __init__(self, *, pile: int = 8) -> None:
        super().__init__(Game(max_take=2, pile=pile))


def solve_double_move(pile: int) -> dict[int, tuple[int, frozenset[int]]]:
    """Solves every pile from 1 to `pile`.

    Returns:
      For each pile the value for the player to move, -1 or 1, and the actions that keep it.
    """
    solved: dict[int, tuple[int, frozenset[int]]] = {}
    for stones in range(1, pile + 1):
        value_of = {}
        for action in range(min(2, stones)):
            left = stones - action - 1
            if left == 0:
                value_of[action] = 1
            else:
                value_of[action] = solved[left][0] * (1 if left % 3 == 0 else -1)
        best = max(value_of.values())
        solved[stones] = best, frozenset(a for a, value in value_of.items() if value == best)
    return solved
