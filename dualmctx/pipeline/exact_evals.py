"""Measures policies, the value network and searches against the exact values of positions."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.evaluation.evaluations import digest, fill_batches, join, position_keys
from dualmctx.matches.movers import as_mover, jit_choose
from dualmctx.matches.players import Player
from dualmctx.models.game_model import mask_illegal
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.exact_positions import ExactPositions
from dualmctx.pipeline.parts import POLICY, policy_logits, predict_value
from dualmctx.types import GameState, Params


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


def search_keeping(player: Player, positions: ExactPositions, batch_size: int) -> float:
    """Measures how often the move of a search keeps the value, if contested.

    Args:
      player: a player that searches without noise at the root; each position has a fixed key.
      positions: the positions.
      batch_size: positions that are searched at once. With the batch size of its games, the
        program of the player is not compiled again.

    Returns:
      The share of the contested positions.
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
