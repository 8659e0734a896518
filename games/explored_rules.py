"""The rules of a small game found by its own steps, for games that only number their positions."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError

# The numbers of states expanded at once, each compiled once; the maximum number of positions.
_SMALL_CHUNK, _CHUNK, _MAX_POSITIONS = 64, 1024, 2**20


class Position(NamedTuple):
    """A position: the player to move, 0 or 1, the result if the game is over, and the moves.

    Attributes:
      mover: the player to move; 0 moves first in the game.
      result: the result for player 0, -1, 0 or 1; `None` if the game is not over.
      moves: the code of the next position for each legal action.
    """

    mover: int
    result: int | None
    moves: dict[int, int]


class _Children(NamedTuple):
    """The children of `[S]` states by each action, `[S, A]` each.

    Attributes:
      states: the states, `[S, A, ...]`.
      legal: whether the action is legal.
      codes: int32.
      movers: int32, 0 for the player who moves first in the game.
      is_over: bool.
      rewards: the reward of the last move for player 0.
    """

    states: Any
    legal: Any
    codes: Any
    movers: Any
    is_over: Any
    rewards: Any


@dataclasses.dataclass(frozen=True, eq=False)
class ExploredRules:
    """The rules of an environment with `position_code`, as `games.plain.Rules`.

    A position is its code.

    Attributes:
      env: the environment.
    """

    env: Any

    @property
    def num_actions(self) -> int:
        """A."""
        return self.env.num_actions

    @property
    def num_codes(self) -> int:
        """The number of codes that the environment declares.

        Raises:
          ValueError: if it declares none.
        """
        number = getattr(self.env, "num_codes", None)
        if not isinstance(number, int | np.integer):
            problem = "has no num_codes" if number is None else f"has num_codes {number!r}"
            raise UserError(
                f"game {self.env.id} has position_code but {problem}; give its environment the "
                "attribute num_codes, an integer above all codes, or leave out position_code"
            )
        return int(number)

    @property
    def max_plies(self) -> int:
        """An estimate: a move for each action."""
        return self.num_actions

    @functools.cached_property
    def positions(self) -> dict[int, Position]:
        """The reachable positions by code, in breadth-first order.

        Raises:
          ValueError: if the codes are not those that `HasPositionCode` describes.
        """
        return _explore(self.env)

    def start(self) -> int:
        """Returns the code of the initial position."""
        return next(iter(self.positions))

    def mover(self, position: int) -> int:
        """Returns the player to move."""
        return self.positions[position].mover

    def result(self, position: int) -> int | None:
        """Returns the result for player 0, or None if the game is not over."""
        return self.positions[position].result

    def moves(self, position: int) -> dict[int, int]:
        """Returns the next position for each legal action."""
        return self.positions[position].moves

    def code(self, position: int) -> int:
        """Returns the position itself."""
        return position

    def state_code(self, state: Any) -> jax.Array:
        """Returns the code of a state."""
        return self.env.position_code(state)


@functools.lru_cache(maxsize=8)
def explored_rules(env: Any) -> ExploredRules:
    """Returns the rules of an environment, which are explored at their first use."""
    return ExploredRules(env)


def _explore(env: Any) -> dict[int, Position]:
    """Explores the positions in breadth-first order."""
    start = env.init(jax.random.PRNGKey(0))
    first = start.current_player
    code = int(env.position_code(start))
    found = {code: Position(0, None, {})}
    codes, states = [code], jax.tree.map(lambda x: jnp.asarray(x)[None], start)
    while codes:
        new_codes, new_states = [], []
        for begin in range(0, len(codes), _CHUNK):
            part = codes[begin : begin + _CHUNK]
            children = _expand(env, _rows(states, np.arange(begin, begin + len(part))), first)
            new = _add(env, found, part, jax.device_get(children._replace(states=None)))
            new_codes += new
            new_states.append(_flat_rows(children.states, np.array(list(new.values()), int)))
        codes = new_codes
        if len(found) > _MAX_POSITIONS:
            raise UserError(
                f"game {env.id} has more than {_MAX_POSITIONS:,} positions: make its parameters "
                "smaller, or leave out position_code."
            )
        if codes:
            states = jax.tree.map(lambda *x: np.concatenate(x), *new_states)
    return found


def _rows(states: Any, rows: np.ndarray) -> Any:
    """Returns at most `_CHUNK` rows of `[S, ...]` states, padded to one of the two sizes."""
    size = _SMALL_CHUNK if len(rows) <= _SMALL_CHUNK else _CHUNK
    return jax.tree.map(lambda x: np.asarray(x)[np.resize(rows, size)], states)


def _flat_rows(states: Any, rows: np.ndarray) -> Any:
    """Returns rows of `[S, A, ...]` states as NumPy arrays, after the first two axes are joined."""
    return jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:])[rows], states)


@functools.partial(jax.jit, static_argnums=0)
def _expand(env: Any, states: Any, first: jax.Array) -> _Children:
    """Plays every action in each of `[S]` states."""
    actions = jnp.arange(env.num_actions, dtype=jnp.int32)
    play = jax.vmap(jax.vmap(env.step, (None, 0)), (0, None))
    children = play(states, actions)
    return _Children(
        states=children,
        legal=states.legal_action_mask,
        codes=jax.vmap(jax.vmap(env.position_code))(children),
        movers=children.current_player ^ first,
        is_over=children.terminated | children.truncated,
        rewards=children.rewards[..., first],
    )


def _add(env: Any, found: dict[int, Position], codes: list[int], x: _Children) -> dict[int, int]:
    """Adds the children of positions; returns the rows of new, unfinished ones, by their codes."""
    new: dict[int, int] = {}
    for row, code in enumerate(codes):
        for action in np.flatnonzero(x.legal[row]).tolist():
            child, over = int(x.codes[row, action]), bool(x.is_over[row, action])
            reward = float(x.rewards[row, action])
            if not 0 <= child < env.num_codes or (reward and not over):
                problem = f"a reward of {reward:g} before the end" if reward else f"code {child}"
                raise UserError(
                    f"game {env.id} cannot be solved: {problem}; codes must be from 0 to num_codes "
                    f"- 1 = {env.num_codes - 1}, and rewards zero before the last move."
                )
            position = Position(
                int(x.movers[row, action]), int(np.sign(reward)) if over else None, {}
            )
            known = found.setdefault(child, position)
            if known[:2] != position[:2]:
                raise UserError(
                    f"game {env.id} cannot be solved: position_code is {child} for two positions "
                    "that differ in the player to move or in the result."
                )
            if known is position and not over:
                new[child] = row * x.legal.shape[1] + action
            found[code].moves[action] = child
    return new
