"""Exact solutions of small games, by retrograde analysis, and players.

A game numbers its positions (`games.abilities`) and is explored by its own steps.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError
from games.exploration import Node, explore, first_player_values, num_codes, position_code
from games.histories import pad_histories
from games.notation import num_actions

if TYPE_CHECKING:
    import pgx


_MAX_CELLS = 2**26  # maximum number of entries of an array in a solution: 64 MB of booleans


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """The positions of a game with their values; row 0 is the initial position.

    S is the number of reachable non-terminal positions, sorted by their distance from the initial
    position. Positions that differ only in the identity of the player to move (equal piles in Nim)
    count once. A is the number of actions, C the number of codes. The arrays are read-only NumPy
    arrays.

    Attributes:
      histories: `[S, D]` int32, the actions of a shortest game to the position, padded with -1.
      values: `[S]` int8, -1, 0 or 1 under perfect play, from the view of the player to move.
      optimal_actions: `[S, A]` bool, the actions that preserve the value.
      legal_actions: `[S, A]` bool.
      on_optimal_path: `[S]` bool, reachable if both players play only optimal actions.
      one_sided: `[S]` bool, reachable if at least one player plays only optimal actions.
      num_states: number of reachable positions, including terminal ones.
      num_terminal: number of reachable terminal positions.
      codes: `[S]` int32, the code of each position, its index in `code_values` and `code_optimal`.
      code_values: `[C]` int8, as `values`, also for terminal positions; 0 for unused codes.
      code_optimal: `[C, A]` bool, as `optimal_actions`; false for other codes.
      code_action_values: `[C, A]` int8, the value after each action for the player who makes it; 0
        for actions that are not legal and for other codes.
      code_fn: maps an unbatched pgx state to its code, int32 `[]`; works under jit and vmap.
        Undefined for a state that was terminated by an illegal action.
    """

    histories: np.ndarray
    values: np.ndarray
    optimal_actions: np.ndarray
    legal_actions: np.ndarray
    on_optimal_path: np.ndarray
    one_sided: np.ndarray
    num_states: int
    num_terminal: int
    codes: np.ndarray
    code_values: np.ndarray
    code_optimal: np.ndarray
    code_action_values: np.ndarray
    code_fn: Callable[[Any], jax.Array]


def solve(env: pgx.Env) -> Solution:
    """Solves a small game exactly.

    The value of a terminal position is its result; the value of any other position is the best
    value of its children for the player to move. Solutions are cached.

    Args:
      env: connect2, nim, hsr or tic_tac_toe, built by `games.make`; or a user's game that
        numbers its positions.

    Returns:
      The solution for the parameters of `env`.

    Raises:
      ValueError: if the game is not supported, or the tables would be too large; for a user's game
        also if the codes of its positions are not those that the ability describes.
    """
    if position_code(env) is None:
        raise UserError(
            f"no solver for {env.id!r}: pass one of {', '.join(_SOLVABLE)}, or a game with "
            "position_code (games/README.md)."
        )
    cells = _count_cells(env)
    if cells > _MAX_CELLS:
        raise UserError(
            f"{env.id} needs {cells:,} table entries, more than {_MAX_CELLS:,}: make its "
            "parameters smaller."
        )
    return _solve(env)


def is_solvable(env: pgx.Env) -> bool:
    """Returns whether `solve` supports the environment."""
    return position_code(env) is not None and _count_cells(env) <= _MAX_CELLS


_SOLVABLE = ("connect2", "nim", "hsr", "tic_tac_toe")


def _count_cells(env: Any) -> int:
    plies = getattr(env, "max_plies", 0)
    return num_codes(env) * max(num_actions(env), plies if isinstance(plies, int) else 0)


@functools.lru_cache(maxsize=8)
def _solve(env: Any) -> Solution:
    graph = explore(env)
    first_values, codes = first_player_values(graph), [node.code for node in graph]
    tables = _make_tables(graph, first_values, (num_codes(env), num_actions(env)))
    code_values, code_legal, code_optimal, code_action_values = tables
    on_path = _reached_by(graph, first_values, (0, 1))
    one_sided = _reached_by(graph, first_values, (0,)) | _reached_by(graph, first_values, (1,))
    code_fn: Any = position_code(env)

    # The first row with a code represents all rows with that code.
    row_of = {code: row for row, code in reversed(list(enumerate(codes)))}
    to_move = sorted(row for row in row_of.values() if graph[row].children)
    position_codes = np.array([codes[row] for row in to_move], np.int32)
    return Solution(
        histories=_freeze(pad_histories([graph[row].history for row in to_move])),
        values=_freeze(code_values[position_codes]),
        optimal_actions=_freeze(code_optimal[position_codes]),
        legal_actions=_freeze(code_legal[position_codes]),
        on_optimal_path=_freeze(np.isin(position_codes, [codes[row] for row in on_path])),
        one_sided=_freeze(np.isin(position_codes, [codes[row] for row in one_sided])),
        num_states=len(row_of),
        num_terminal=len(row_of) - len(to_move),
        codes=_freeze(position_codes),
        code_values=_freeze(code_values),
        code_optimal=_freeze(code_optimal),
        code_action_values=_freeze(code_action_values),
        code_fn=lambda state: jnp.asarray(code_fn(state), jnp.int32),
    )


def _make_tables(
    graph: list[Node], first: list[int], shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns values `[C]`, legal and optimal actions and their values `[C, A]`, for the mover."""
    values, action_values = np.zeros(shape[0], np.int8), np.zeros(shape, np.int8)
    legal, optimal = np.zeros(shape, bool), np.zeros(shape, bool)
    for node, value in zip(graph, first, strict=True):
        sign = -1 if node.mover else 1
        values[node.code] = sign * value
        for action, child in node.children.items():
            legal[node.code, action] = True
            optimal[node.code, action] = value == first[child]
            action_values[node.code, action] = sign * first[child]
    return values, legal, optimal, action_values


def _reached_by(graph: list[Node], first: list[int], careful: tuple[int, ...]) -> set[int]:
    """Returns the rows that are reached if the careful players play optimally."""
    order, seen = [0], {0}
    for row in order:  # the list grows during the loop
        is_careful = graph[row].mover in careful
        for child in graph[row].children.values():
            if child not in seen and (not is_careful or first[row] == first[child]):
                seen.add(child)
                order.append(child)
    return seen


def _freeze(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False  # callers share solutions
    return array


Player = Callable[[jax.Array, Any], jax.Array]


def random_player() -> Player:
    """Returns a player that samples uniformly from the legal actions.

    The player is a pure function `(rng_key, state) -> action` of an unbatched pgx state. It
    consumes the key and returns int32 `[]`. Use `jax.vmap` for batches.
    """

    def act(rng_key: jax.Array, state: Any) -> jax.Array:
        return _sample_uniform(rng_key, state.legal_action_mask)

    return act


def perfect_player(env: pgx.Env) -> Player:
    """Returns a player that samples uniformly from the optimal actions.

    Args:
      env: a game that `games.solve` supports.

    Returns:
      A pure function `(rng_key, state) -> action` of an unbatched pgx state of `env`. It consumes
      the key and returns int32 `[]`. If the game is over, the action is arbitrary.

    Raises:
      ValueError: see `games.solve`.
    """
    solution = solve(env)

    def act(rng_key: jax.Array, state: Any) -> jax.Array:
        optimal = jnp.asarray(solution.code_optimal)[solution.code_fn(state)]
        return _sample_uniform(rng_key, jnp.where(optimal.any(), optimal, state.legal_action_mask))

    return act


def _sample_uniform(rng_key: jax.Array, mask: jax.Array) -> jax.Array:
    """Samples one of the true entries of an `[A]` mask."""
    logits = jnp.where(mask, 0.0, -jnp.inf)
    return jax.random.categorical(rng_key, logits).astype(jnp.int32)
