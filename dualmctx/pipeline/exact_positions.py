"""Positions with exact values; `exact_evals` measures networks on them.

Small games are solved by `games.solve`. Connect Four is labelled by bitbully, if it is installed.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.checks import check_count
from dualmctx.errors import UserError
from dualmctx.matches.openings import Opening, find_openings, open_openings
from dualmctx.types import Environment, GameState

# Random plies before a position of Connect Four. After fewer plies its solver takes seconds; few
# games last longer.
_PLIES = range(8, 37)
# The largest number of positions that are labelled at once.
_ROWS = 64


class ExactPositions(NamedTuple):
    """S positions with their values under perfect play, as NumPy arrays.

    Attributes:
      states: `[S]` states; no game is over.
      keeping: `[S, A]` bool, the legal moves that keep the value of the position.
      values: `[S]` float32, -1, 0 or 1, from the view of the player to move.
      source: "solved" or "bitbully".
    """

    states: Any
    keeping: np.ndarray
    values: np.ndarray
    source: str

    @property
    def is_contested(self) -> np.ndarray:
        """`[S]` bool, whether some legal move loses value."""
        return (self.states.legal_action_mask & ~self.keeping).any(axis=1)

    def select(self, rows: Any) -> "ExactPositions":
        """Returns the positions of an index, a mask or a slice of the rows."""
        chosen = (_rows(self.states, rows), self.keeping[rows], self.values[rows])
        return ExactPositions(*chosen, self.source)


def exact_positions(env: Environment, number: int = 500, seed: int = 0) -> ExactPositions | None:
    """Draws and labels positions until enough of them are contested.

    A position is contested if some legal move loses value. In a solved game, positions are drawn
    uniformly from all positions. In Connect Four, they are distinct positions after 8 to 36
    uniformly random moves. The result is cached.

    Args:
      env: a game, as `games.make` returns it.
      number: the number of contested positions, at least 1; a small game may have fewer.
      seed: the same seed gives the same positions.

    Returns:
      The contested positions and those that were drawn with them, in which any move keeps the
      value. `None` if the game has no exact values, or no contested position.

    Raises:
      ValueError: if the number is below 1, or if the solution of a game of your own fails.
    """
    check_count("number", number, 1)
    source = games.exact_source(env)
    if source is None:
        return None
    is_solved = source == "solved"
    chosen = _draw_solved(env, number, seed) if is_solved else _draw_connect_four(number, seed)
    return chosen if chosen.is_contested.any() else None


def label_positions(env: Environment, states: GameState) -> ExactPositions:
    """Labels `[S]` positions, S at least 1, in which the game is not over.

    Raises:
      ValueError: if the game has no exact values.
    """
    source = games.exact_source(env)
    if source is None:
        raise UserError(f"{env.id} has no exact values; use a game that games.solve supports")
    host = jax.device_get(states)
    if source == "solved":
        solution = games.solve(env)
        codes = np.asarray(jax.jit(jax.vmap(solution.code_fn))(states))
        values = solution.code_values[codes].astype(np.float32)
        return ExactPositions(host, solution.code_optimal[codes], values, source)
    keeping = np.zeros(host.legal_action_mask.shape, bool)
    values = np.zeros(len(keeping), np.float32)
    for row in range(len(keeping)):
        exact = games.exact_values(env, _rows(host, row))
        assert exact is not None, "bitbully knows all positions"
        values[row] = exact.value
        keeping[row, [move for move, value in exact.moves.items() if value == exact.value]] = True
    return ExactPositions(host, keeping, values, source)


@functools.lru_cache(maxsize=8)
def _draw_solved(env: Environment, number: int, seed: int) -> ExactPositions:
    """Draws positions of a solved game."""
    solution = games.solve(env)
    rows = np.random.default_rng(seed).permutation(len(solution.values))
    is_contested = np.any(solution.legal_actions[rows] & ~solution.optimal_actions[rows], axis=1)
    rows = rows[: _enough(is_contested, number)]
    states = jax.device_get(games.replay(env, solution.histories[rows]))
    values = solution.values[rows].astype(np.float32)
    return ExactPositions(states, solution.optimal_actions[rows], values, "solved")


@functools.lru_cache(maxsize=8)
def _draw_connect_four(number: int, seed: int) -> ExactPositions:
    """Draws distinct positions after random moves; labels them once for all stages."""
    env = games.make("connect_four")
    openings: list[Opening] = []
    parts: list[ExactPositions] = []
    done = num_contested = 0
    while num_contested < number:
        if done == len(openings):
            openings = find_openings(env, 2 * (done or number), plies=_PLIES, seed=seed)
        chosen = openings[done : done + _ROWS]
        parts.append(label_positions(env, open_openings(env, chosen).states_on_host))
        num_contested += parts[-1].is_contested.sum()
        done += len(chosen)
    joined: Any = jax.tree.map(lambda *x: np.concatenate(x), *(part[:3] for part in parts))
    positions = ExactPositions(*joined, source=parts[0].source)
    return positions.select(slice(_enough(positions.is_contested, number)))


def _enough(is_contested: np.ndarray, number: int) -> int:
    """Returns the length of the shortest beginning with `number` contested positions, or all."""
    return int(np.searchsorted(np.cumsum(is_contested), number)) + 1


def _rows(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda x: x[index], tree)
