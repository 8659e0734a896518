"""Positions with exact values, and measures of networks and searches on them.

Small games are solved by `games.solve`. Connect Four is labelled by bitbully, if it is installed.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.checks import check_count
from dualmctx.evaluation.evaluations import digest, fill_batches, join, position_keys
from dualmctx.matches.openings import Opening, find_openings, open_openings
from dualmctx.matches.players import Player, as_mover, jit_choose
from dualmctx.models.game_model import mask_illegal
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.parts import (
    POLICY,
    VALUE,
    LogitsFn,
    get_part,
    make_logits_fn,
    make_value_fn,
)
from dualmctx.types import Environment, GameState, Params

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
    """

    states: Any
    keeping: np.ndarray
    values: np.ndarray

    @property
    def is_contested(self) -> np.ndarray:
        """`[S]` bool, whether some legal move loses value."""
        return (self.states.legal_action_mask & ~self.keeping).any(axis=1)

    def select(self, rows: Any) -> "ExactPositions":
        """Returns the positions of a mask or a slice of the rows."""
        return jax.tree.map(lambda x: x[rows], self)


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


@functools.lru_cache(maxsize=8)
def _draw_solved(env: Environment, number: int, seed: int) -> ExactPositions:
    """Draws positions of a solved game."""
    solution = games.solve(env)
    rows = np.random.default_rng(seed).permutation(len(solution.values))
    is_contested = np.any(solution.legal_actions[rows] & ~solution.optimal_actions[rows], axis=1)
    rows = rows[: _enough(is_contested, number)]
    states = jax.device_get(games.replay(env, solution.histories[rows]))
    values = solution.values[rows].astype(np.float32)
    return ExactPositions(states, solution.optimal_actions[rows], values)


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
        parts.append(label_connect_four(open_openings(env, chosen).states_on_host))
        num_contested += parts[-1].is_contested.sum()
        done += len(chosen)
    positions = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    return positions.select(slice(_enough(positions.is_contested, number)))


def label_connect_four(states: GameState) -> ExactPositions:
    """Labels `[S]` positions of Connect Four, in which the game is not over, by bitbully."""
    env, host = games.make("connect_four"), jax.device_get(states)
    keeping = np.zeros(host.legal_action_mask.shape, bool)
    values = np.zeros(len(keeping), np.float32)
    for row in range(len(keeping)):
        exact = games.exact_values(env, jax.tree.map(lambda x, row=row: x[row], host))
        assert exact is not None, "bitbully knows all positions"
        values[row] = exact.value
        keeping[row, [move for move, value in exact.moves.items() if value == exact.value]] = True
    return ExactPositions(host, keeping, values)


def _enough(is_contested: np.ndarray, number: int) -> int:
    """Returns the length of the shortest beginning with `number` contested positions, or all."""
    return int(np.searchsorted(np.cumsum(is_contested), number)) + 1


def keeping_share(
    network: SeparateTrunks, params: Params, positions: ExactPositions, part: str = POLICY
) -> dict[str, float]:
    """Measures how often the most likely legal move of a policy keeps the value, if contested.

    Returns:
      Shares of the contested positions: of the policy as `exact/policy_keeping` or
      `exact/rollout_keeping`, and the expected share of uniformly random moves as
      `exact/chance_keeping`.
    """
    logits_fn, legal = make_logits_fn(network, part), positions.states.legal_action_mask
    observation = positions.states.observation
    actions = _likeliest_actions(logits_fn, get_part(params, part), observation, legal)
    by_chance = positions.keeping.sum(axis=1) / legal.sum(axis=1)
    return {
        f"exact/{part}_keeping": _share(positions, np.asarray(actions)),
        "exact/chance_keeping": float(np.mean(by_chance[positions.is_contested])),
    }


@functools.partial(jax.jit, static_argnums=0)
def _likeliest_actions(
    logits_fn: LogitsFn, policy: Params, observation: jax.Array, legal: jax.Array
) -> jax.Array:
    return jnp.argmax(mask_illegal(logits_fn(policy, observation), legal), axis=-1)


def value_error(
    network: SeparateTrunks, params: Params, positions: ExactPositions
) -> dict[str, float]:
    """Measures the value network against the values under perfect play, in all positions.

    A value network learns the results of games between imperfect players. Its error is therefore
    not expected to reach 0.

    Returns:
      Mean squared errors in [0, 4]: of the value network as `exact/value_loss`, and of the best
      constant as `exact/constant_loss`.
    """
    value_fn = jax.jit(make_value_fn(network))
    values = np.asarray(value_fn(get_part(params, VALUE), positions.states.observation))
    return {
        "exact/value_loss": float(np.mean((values - positions.values) ** 2)),
        "exact/constant_loss": float(np.var(positions.values)),
    }


def search_keeping(player: Player, positions: ExactPositions, batch_size: int) -> float:
    """Measures how often the move of a search keeps the value, if contested.

    Args:
      player: a player that searches without noise at the root; each position has a fixed key.
      positions: the positions.
      batch_size: positions that are searched at once. With the batch size of its games, the
        program of the player is not compiled again.
    """
    contested = positions.select(positions.is_contested)
    return _share(contested, choose_moves(player, contested.states, batch_size))


def choose_moves(player: Player, states: GameState, batch_size: int) -> np.ndarray:
    """Returns the `[S]` moves of a player that computes on the device, in `[S]` states.

    Each position has a fixed key. A move is -1 if the output of the network is not finite.
    """
    number = len(states.current_player)
    mover: Any = player.mover
    choose = jit_choose(mover)
    params = jax.tree.map(jnp.asarray, player.params)
    actions = []
    for batch in fill_batches((digest(range(number)), states), batch_size):
        digests, states = jax.tree.map(jnp.asarray, batch)
        keys = _position_keys(jax.random.PRNGKey(0), digests)
        memory = as_mover(mover).start(params, states)
        actions.append(choose(params, keys, states, memory)[0])
    return join(actions, number)


_position_keys = jax.jit(position_keys)


def _share(positions: ExactPositions, actions: np.ndarray) -> float:
    contested = np.flatnonzero(positions.is_contested)
    chosen = actions[contested]
    # A failed move is -1.
    return float(np.mean((chosen >= 0) & positions.keeping[contested, chosen]))
