"""Measures policies, the value network and searches against the exact values of positions."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.evaluation.evaluations import EvaluatePositions, make_evaluate
from dualmctx.models.game_model import make_search_fn, mask_illegal
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.exact_positions import ExactPositions
from dualmctx.pipeline.parts import POLICY, policy_logits, predict_value
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork

_MAX_BATCH = 512  # positions that are searched at once


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
    contested = positions.select(positions.is_contested)
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
