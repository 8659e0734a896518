"""Exact solutions of the small games, by retrograde analysis in plain Python."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from games import plain, retrograde

if TYPE_CHECKING:
    import pgx

_MAX_CELLS = 2**26  # entries in the largest array of a solution: 64 MB of booleans


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """All positions of a game with their values; row 0 is the start.

    S counts the reachable positions in which somebody has to move, in the order of their
    shortest distance from the start; positions that differ only in who is who (equal piles in
    Nim) are one. A counts actions, C codes. The arrays are read-only NumPy arrays.

    Attributes:
      histories: `[S, D]` int32, the actions of a shortest game that leads there, then -1.
      values: `[S]` int8, -1, 0 or 1 under perfect play, from the view of the player to move.
      optimal_actions: `[S, A]` bool, the moves that keep the value.
      legal_actions: `[S, A]` bool.
      on_optimal_path: `[S]` bool, reachable while both players play only optimal moves.
      one_sided: `[S]` bool, reachable while at least one of the two does.
      num_states: reachable positions, terminal ones included.
      num_terminal: reachable positions in which the game is over.
      codes: `[S]` int32, each position's row in the tables that follow.
      code_values: `[C]` int8, as `values`; terminal positions too; 0 where nothing is reachable.
      code_optimal: `[C, A]` bool, as `optimal_actions`; else false.
      code_fn: from an unbatched pgx state to its code, int32 `[]`; works under jit and vmap.
        Meaningless for a state that an illegal action has ended.
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
    code_fn: Callable[[Any], jax.Array]


def solve(env: pgx.Env) -> Solution:
    """Solves a small game exactly.

    Values come from the end backwards: v(s) = ±1 or 0 where the game is over, else the best
    over the moves for whoever is to move. Repeated calls for the same rules are free.

    Args:
      env: connect2, nim, hsr or tic_tac_toe, as `games.make` hands it out; its parameters
        are taken from it.

    Returns:
      The solution.

    Raises:
      ValueError: for any other game, or when the tables would be too large.
    """
    if env.id not in _SOLVABLE:
        raise ValueError(f"no solver for {env.id!r}: pass one of {', '.join(_SOLVABLE)}.")
    rules = _SOLVABLE[env.id](env)
    cells = _num_cells(rules)
    if cells > _MAX_CELLS:
        raise ValueError(
            f"{env.id} with {rules} needs {cells:,} table entries, more than {_MAX_CELLS:,}: "
            "make its parameters smaller."
        )
    return _solve_rules(rules)


def is_solvable(env: pgx.Env) -> bool:
    """Returns whether `solve` accepts the environment."""
    return env.id in _SOLVABLE and _num_cells(_SOLVABLE[env.id](env)) <= _MAX_CELLS


_SOLVABLE: dict[str, Callable[[Any], plain.Rules]] = {
    "connect2": lambda env: plain.CONNECT2,
    "nim": lambda env: plain.Nim(pile=env.game.pile, max_take=env.game.max_take),
    "hsr": lambda env: plain.HSR(k=env.game.k, q=env.game.q, n=env.game.n),
    "tic_tac_toe": lambda env: plain.TIC_TAC_TOE,
}


def _num_cells(rules: plain.Rules) -> int:
    return rules.num_codes * max(rules.num_actions, rules.max_plies)


@functools.lru_cache(maxsize=8)
def _solve_rules(rules: plain.Rules) -> Solution:
    graph = retrograde.explore(rules)
    first = retrograde.first_player_values(rules, graph)
    codes = [rules.code(position) for position in graph.positions]
    code_values, code_legal, code_optimal = _tables(rules, graph, first, codes)
    on_path, one_sided = _optimally_reached(rules, graph, first)

    # The first row with a code stands for all that share it.
    row_of = {code: row for row, code in reversed(list(enumerate(codes)))}
    to_move = sorted(row for row in row_of.values() if graph.children[row])
    kept = np.array([codes[row] for row in to_move], np.int32)
    return Solution(
        histories=_padded([graph.histories[row] for row in to_move]),
        values=_frozen(code_values[kept]),
        optimal_actions=_frozen(code_optimal[kept]),
        legal_actions=_frozen(code_legal[kept]),
        on_optimal_path=_frozen(np.isin(kept, [codes[row] for row in on_path])),
        one_sided=_frozen(np.isin(kept, [codes[row] for row in one_sided])),
        num_states=len(row_of),
        num_terminal=len(row_of) - len(to_move),
        codes=_frozen(kept),
        code_values=_frozen(code_values),
        code_optimal=_frozen(code_optimal),
        code_fn=_code_fn(rules),
    )


def _tables(
    rules: plain.Rules, graph: retrograde.Graph, first: list[int], codes: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns values for the mover `[C]`, legal and optimal moves `[C, A]`, by code."""
    values = np.zeros(rules.num_codes, np.int8)
    legal = np.zeros((rules.num_codes, rules.num_actions), bool)
    optimal = np.zeros_like(legal)
    for row, children in enumerate(graph.children):
        mover = rules.mover(graph.positions[row])
        values[codes[row]] = -first[row] if mover else first[row]
        for action, child in children.items():
            legal[codes[row], action] = True
            optimal[codes[row], action] = first[row] == first[child]
    return values, legal, optimal


def _optimally_reached(
    rules: plain.Rules, graph: retrograde.Graph, first: list[int]
) -> tuple[set[int], set[int]]:
    """Returns the rows reached by optimal moves of both players, and of at least one."""

    def kept_by(players: tuple[int, ...]) -> set[int]:
        def allowed(row: int, child: int) -> bool:
            free = rules.mover(graph.positions[row]) not in players
            return free or first[row] == first[child]

        return retrograde.reached(graph, allowed)

    return kept_by((0, 1)), kept_by((0,)) | kept_by((1,))


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False  # solutions are shared between callers
    return array


def _padded(histories: list[tuple[int, ...]]) -> np.ndarray:
    padded = np.full((len(histories), max(map(len, histories))), -1, np.int32)
    for row, history in enumerate(histories):
        padded[row, : len(history)] = history
    return _frozen(padded)


def _code_fn(rules: plain.Rules) -> Callable[[Any], jax.Array]:
    """The JAX counterpart of `rules.code`, over pgx states."""
    if isinstance(rules, plain.Nim):
        return lambda state: jnp.asarray(state._x.pile, jnp.int32)
    if isinstance(rules, plain.HSR):
        q0, n0 = rules.q, rules.n

        def hsr_code(state: Any) -> jax.Array:
            k, q, n, m = state._x
            return jnp.asarray(((k * (q0 + 1) + q) * (n0 + 1) + n) * n0 + m, jnp.int32)

        return hsr_code
    powers = 3 ** np.arange(rules.num_actions, dtype=np.int32)
    return lambda state: ((state._x.board + 1) * powers).sum().astype(jnp.int32)
