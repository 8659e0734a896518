"""Positions with exact values, by which the stages of the pipeline measure their networks.

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
from dualmctx.evaluation.evaluations import EvaluatePositions, make_evaluate
from dualmctx.models.game_model import make_search_fn, mask_illegal
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.parts import POLICY, policy_logits, predict_value
from dualmctx.pipeline.random_positions import random_positions
from dualmctx.types import Environment, GameState, Params, Policy, PolicyValueNetwork

_MAX_BATCH = 512  # positions that are searched at once


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


@functools.lru_cache(maxsize=8)
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
    chosen = _draw_solved(env, number, seed) if source == "solved" else _draw(env, number, seed)
    return chosen if chosen.is_contested.any() else None


def label_positions(env: Environment, states: GameState) -> ExactPositions:
    """Labels `[S]` positions, S at least 1, in which the game is not over.

    Raises:
      ValueError: if the game has no exact values.
    """
    source = games.exact_source(env)
    if source is None:
        raise ValueError(f"{env.id} has no exact values; use a game that games.solve supports")
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


def keeping_share(
    network: SeparateTrunks, params: Params, positions: ExactPositions, part: str = POLICY
) -> dict[str, float]:
    """Measures how often the most likely legal move of a policy keeps the value, if contested.

    Args:
      network: the network of the pipeline.
      params: its parameters.
      positions: the positions.
      part: `POLICY` or `ROLLOUT`.

    Returns:
      Shares of the contested positions: of the policy as `exact/policy_keeping` or
      `exact/rollout_keeping`, and of uniformly random moves as `exact/random_keeping`.
    """
    legal = positions.states.legal_action_mask
    actions = _likely_actions(network, part, params, positions.states.observation, legal)
    return {
        f"exact/{part}_keeping": _share(positions, np.asarray(actions)),
        "exact/random_keeping": random_keeping(positions),
    }


def random_keeping(positions: ExactPositions) -> float:
    """Returns the expected share of contested positions in which a random move keeps the value."""
    legal = positions.states.legal_action_mask
    shares = positions.keeping.sum(axis=1) / legal.sum(axis=1)
    return float(np.mean(shares[positions.is_contested]))


def value_error(
    network: SeparateTrunks, params: Params, positions: ExactPositions
) -> dict[str, float]:
    """Measures the value network against the values under perfect play, in all positions.

    A value network learns the results of games between imperfect players. Its error is therefore
    not expected to reach 0.

    Args:
      network: the network of the pipeline.
      params: its parameters.
      positions: the positions.

    Returns:
      Mean squared errors in [0, 4]: of the value network as `exact/value_error`, and of the best
      constant as `exact/constant_error`.
    """
    values = np.asarray(_values(network, params, positions.states.observation))
    return {
        "exact/value_error": float(np.mean((values - positions.values) ** 2)),
        "exact/constant_error": float(np.var(positions.values)),
    }


def search_keeping(
    env: Environment,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy,
    positions: ExactPositions,
    **model_options: Any,
) -> dict[str, float]:
    """Measures how often the move of a search keeps the value, if contested.

    Args:
      env: the game.
      network: any network of the game.
      params: its parameters.
      policy: a search variant; it searches without noise at the root, with a fixed random key.
      positions: the positions.
      **model_options: options of `make_model`, such as `compact_states`.

    Returns:
      The share of the contested positions, as `exact/search_keeping`.
    """
    options = tuple(sorted(model_options.items()))
    contested = _chosen(positions, positions.is_contested)
    batch_size = min(_MAX_BATCH, len(contested.values))
    evaluate = _searcher(env, network, policy.for_evaluation(), batch_size, options)
    found = evaluate(params, jax.random.PRNGKey(0), contested.states)
    return {"exact/search_keeping": _share(contested, found.action)}


@functools.lru_cache(maxsize=8)
def _searcher(
    env: Environment, network: PolicyValueNetwork, policy: Policy, batch_size: int, options: tuple
) -> EvaluatePositions:
    return make_evaluate(network, make_search_fn(env, network, policy, **dict(options)), batch_size)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _likely_actions(
    network: SeparateTrunks, part: str, params: Params, observation: jax.Array, legal: jax.Array
) -> jax.Array:
    logits = policy_logits(network, params, observation, part)
    return jnp.argmax(mask_illegal(logits, legal), axis=-1)


@functools.partial(jax.jit, static_argnums=0)
def _values(network: SeparateTrunks, params: Params, observation: jax.Array) -> jax.Array:
    return predict_value(network, params, observation)


def _share(positions: ExactPositions, actions: np.ndarray) -> float:
    contested = np.flatnonzero(positions.is_contested)
    return float(np.mean(positions.keeping[contested, actions[contested]]))


def _draw_solved(env: Environment, number: int, seed: int) -> ExactPositions:
    """Draws positions of a solved game."""
    solution = games.solve(env)
    rows = np.random.default_rng(seed).permutation(len(solution.values))
    is_contested = np.any(solution.legal_actions[rows] & ~solution.optimal_actions[rows], axis=1)
    rows = rows[: _enough(is_contested, number)]
    states = jax.device_get(games.replay(env, solution.histories[rows]))
    values = solution.values[rows].astype(np.float32)
    return ExactPositions(states, solution.optimal_actions[rows], values, "solved")


def _draw(env: Environment, number: int, seed: int) -> ExactPositions:
    """Draws distinct positions after random moves."""
    parts: list[ExactPositions] = []
    num_contested = 0
    for states in random_positions(env, seed):
        parts.append(label_positions(env, states))
        num_contested += parts[-1].is_contested.sum()
        if num_contested >= number:
            break
    joined: Any = jax.tree.map(lambda *x: np.concatenate(x), *(part[:3] for part in parts))
    positions = ExactPositions(*joined, source=parts[0].source)
    return _chosen(positions, slice(_enough(positions.is_contested, number)))


def _enough(is_contested: np.ndarray, number: int) -> int:
    """Returns the length of the shortest beginning with `number` contested positions, or all."""
    return int(np.searchsorted(np.cumsum(is_contested), number)) + 1


def _chosen(positions: ExactPositions, rows: Any) -> ExactPositions:
    chosen = (_rows(positions.states, rows), positions.keeping[rows], positions.values[rows])
    return ExactPositions(*chosen, positions.source)


def _rows(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda x: x[index], tree)
