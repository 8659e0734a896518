"""The positions of a small game, found by its own steps, and their values, found backwards."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError
from games.abilities import ability
from games.records import record_of

# The number of states expanded at once; the maximum number of positions, and of moves in all their
# histories.
_CHUNK, _MAX_POSITIONS, _MAX_MOVES = 256, 2**20, 2**26


class Node(NamedTuple):
    """A reachable position: a code and the player to move, 0, who moves first in the game, or 1.

    The nodes of a game are a list in breadth-first order, from the initial position on. `result` is
    that of player 0, -1, 0 or 1, and `None` if the game is not over; `history` has the actions of a
    shortest game that leads to the position, `children` the row of the list by action.
    """

    code: int
    mover: int
    result: int | None
    history: tuple[int, ...]
    children: dict[int, int]


def position_code(env: Any) -> Callable[[Any], Any] | None:
    """Returns the function from an unbatched state to its code; `None` if the game has none."""
    return ability(env, "position_code") or record_of(env.id).position_code


def num_codes(env: Any) -> int:
    """Returns the number of codes that a game with codes declares; it must declare one."""
    number = getattr(env, "num_codes", record_of(env.id).num_codes or None)
    if not isinstance(number, int | np.integer):
        problem = "has no num_codes" if number is None else f"has num_codes {number!r}"
        raise UserError(
            f"game {env.id} has position_code but {problem}; give its environment the attribute "
            "num_codes, an integer above all codes, or leave out position_code"
        )
    return int(number)


class _Children(NamedTuple):
    """The children of `[S]` states by each action, `[S, A]` each.

    `movers` is 0 where the player to move is the one who moves first in the game; `rewards` are
    those of the last move for that player.
    """

    states: Any
    legal: Any
    codes: Any
    movers: Any
    is_over: Any
    rewards: Any


@functools.lru_cache(maxsize=8)
def explore(env: Any) -> list[Node]:
    """Enumerates the reachable positions of a game with position codes.

    Raises:
      ValueError: if there are too many, or the codes are wrong (`games.abilities`).
    """
    start = env.init(jax.random.PRNGKey(0))
    first, explorer = start.current_player, _Explorer(env)
    code: Any = position_code(env)
    first_code = int(code(start))
    explorer.check(first_code, 0.0, False)
    rows = [explorer.add_row(first_code, 0, None, ())]
    states = jax.tree.map(lambda x: jnp.asarray(x)[None], start)
    while rows:
        new_rows, new_states = [], []
        for begin in range(0, len(rows), _CHUNK):
            part = rows[begin : begin + _CHUNK]
            # Padded, so that one program is compiled.
            places = np.resize(np.arange(begin, begin + len(part)), _CHUNK)
            chunk = jax.tree.map(lambda x, i=places: np.asarray(x)[i], states)
            children = _expand(env, chunk, first)
            new = explorer.add(part, jax.device_get(children._replace(states=None)))
            new_rows += new
            new_states.append(_pick_flat(children.states, np.array(list(new.values()), int)))
        rows = new_rows
        if rows:
            states = jax.tree.map(lambda *x: np.concatenate(x), *new_states)
    return explorer.graph


class _Explorer:
    """Collects the positions of a game."""

    def __init__(self, env: Any) -> None:
        self.env, self.num_codes = env, num_codes(env)
        self.graph: list[Node] = []
        self.rows: dict[tuple[int, int], int] = {}
        self.ends: dict[int, tuple[bool, int]] = {}
        self.num_moves = 0

    def add_row(self, code: int, mover: int, result: int | None, history: tuple[int, ...]) -> int:
        """Adds a position; checks that its code means the same for both players."""
        end = result is None, (result or 0) * (1 - 2 * mover)
        if self.ends.setdefault(code, end) != end:
            raise UserError(
                f"game {self.env.id} cannot be solved: position_code is {code} for two positions "
                "that differ in the result."
            )
        row = self.rows[code, mover] = len(self.rows)
        self.graph.append(Node(code, mover, result, history, {}))
        return row

    def add(self, rows: list[int], x: _Children) -> dict[int, int]:
        """Adds the children of rows; returns new unfinished rows, and their places in `[S A]`."""
        new: dict[int, int] = {}
        for place, row in enumerate(rows):
            for action in np.flatnonzero(x.legal[place]).tolist():
                at = place, action
                code, mover = int(x.codes[at]), int(x.movers[at])
                self.check(code, float(x.rewards[at]), bool(x.is_over[at]))
                result = int(np.sign(x.rewards[at])) if x.is_over[at] else None
                child = self.rows.get((code, mover))
                if child is None or self.graph[child].result != result:
                    history = (*self.graph[row].history, action)
                    child = self.add_row(code, mover, result, history)
                    self.check_size(len(history))
                    if result is None:
                        new[child] = place * x.legal.shape[1] + action
                self.graph[row].children[action] = child
        return new

    def check(self, code: int, reward: float, is_over: bool) -> None:
        if not 0 <= code < self.num_codes or (reward and not is_over):
            problem = f"a reward of {reward:g} before the end" if reward else f"code {code}"
            raise UserError(
                f"game {self.env.id} cannot be solved: {problem}; codes must be from 0 to "
                f"num_codes - 1 = {self.num_codes - 1}, and rewards zero before the last move."
            )

    def check_size(self, num_moves: int) -> None:
        self.num_moves += num_moves
        if len(self.rows) > _MAX_POSITIONS or self.num_moves > _MAX_MOVES:
            raise UserError(
                f"game {self.env.id} has more than {_MAX_POSITIONS:,} positions, or too long "
                "games: make its parameters smaller, or leave out position_code."
            )


def _pick_flat(states: Any, rows: np.ndarray) -> Any:
    """Returns rows of `[S, A, ...]` states as NumPy arrays, after the first two axes are joined."""
    return jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:])[rows], states)


@functools.partial(jax.jit, static_argnums=0)
def _expand(env: Any, states: Any, first: jax.Array) -> _Children:
    """Plays every action in each of `[S]` states."""
    code_fn: Any = position_code(env)
    actions = jnp.arange(states.legal_action_mask.shape[1], dtype=jnp.int32)
    children = jax.vmap(jax.vmap(env.step, (None, 0)), (0, None))(states, actions)
    return _Children(
        states=children,
        legal=states.legal_action_mask,
        codes=jax.vmap(jax.vmap(code_fn))(children),
        movers=children.current_player ^ first,
        is_over=children.terminated | children.truncated,
        rewards=children.rewards[..., first],
    )


def first_player_values(graph: list[Node]) -> list[int]:
    """Returns for each row the result for player 0 under perfect play, found backwards.

    The value of a position is known as soon as the values of all its children are known.

    Raises:
      ValueError: if a position can occur twice in a game, so that its value is not known.
    """
    parents = collections.defaultdict(list)
    for row, node in enumerate(graph):
        for child in node.children.values():
            parents[child].append(row)
    open_children = [len(node.children) for node in graph]
    values = [node.result or 0 for node in graph]
    settled = [row for row, count in enumerate(open_children) if count == 0]
    for child in settled:  # the list grows during the loop
        for row in parents[child]:
            open_children[row] -= 1
            if open_children[row] == 0:
                best = min if graph[row].mover else max
                values[row] = best(values[c] for c in graph[row].children.values())
                settled.append(row)
    if len(settled) < len(values):
        raise UserError(
            "positions repeat within a game, so it cannot be solved: count the plies in "
            "position_code and in the observation, or remove position_code"
        )
    return values
