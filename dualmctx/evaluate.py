"""Batch evaluation: what a network and a search say of many positions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.keys import element_keys
from dualmctx.model import mask_illegal
from dualmctx.types import Params, SearchFn


class Evaluations(NamedTuple):
    """What was said of `[S]` positions, as NumPy arrays; H is the number of heads.

    Attributes:
      action: `[S]` int32, the search's action.
      action_weights: `[S, A]` of the search.
      value: `[S]` the search's value, for the player to move.
      network_action: `[S, H]` int32, each head's likeliest legal action.
      network_value: `[S, H]` each head's value.
    """

    action: Any
    action_weights: Any
    value: Any
    network_action: Any
    network_value: Any


EvaluatePositions = Callable[[Params, chex.PRNGKey, Any], Evaluations]


def make_evaluate(network: Any, search_fn: SearchFn, batch_size: int) -> EvaluatePositions:
    """Makes the function that evaluates any number of positions, compiled for one batch size.

    Args:
      network: a `dualmctx.network.Network`.
      search_fn: a variant bound to the game and the network, without noise.
      batch_size: positions a call of the device; the last batch is filled up by repetition.

    Returns:
      `(params, rng_key, state) -> Evaluations` for `[S]` game states, S at least 1. It consumes
      the key, of which each position gets one of its own, so what is said of a position does not
      depend on the batch size.
    """

    @jax.jit
    def evaluate_batch(params: Params, rng_keys: chex.PRNGKey, state: Any) -> Evaluations:
        output = search_fn(params, rng_keys, state)
        heads = network.apply(params, state.observation)
        logits = [mask_illegal(head.logits, state.legal_action_mask) for head in heads]
        return Evaluations(
            action=output.action,
            action_weights=output.action_weights,
            value=output.search_tree.layers[-1].node_values[:, 0],
            network_action=jnp.stack([jnp.argmax(x, axis=-1) for x in logits], axis=-1),
            network_value=jnp.stack([head.value for head in heads], axis=-1),
        )

    def evaluate(params: Params, rng_key: chex.PRNGKey, state: Any) -> Evaluations:
        num_positions = state.current_player.shape[0]
        positions = (element_keys(rng_key, num_positions), state)
        parts = []
        for start in range(0, num_positions, batch_size):
            index = np.arange(start, start + batch_size) % num_positions
            batch = jax.tree.map(lambda x, index=index: x[index], positions)
            parts.append(jax.device_get(evaluate_batch(params, *batch)))
        joined = jax.tree.map(lambda *x: np.concatenate(x)[:num_positions], *parts)
        return Evaluations(*joined)

    return evaluate


def score_exactly(
    evaluations: Evaluations, optimal_actions: np.ndarray, values: np.ndarray
) -> dict[str, float]:
    """Scores evaluations against the exact solution of a game.

    Args:
      evaluations: of `[S]` positions, by a network whose last head is the final one.
      optimal_actions: `[S, A]` bool, the actions that keep a position's value.
      values: `[S]` exact values in {-1, 0, 1}, for the player to move.

    Returns:
      Shares in [0, 1]: `search_optimal` and `network_optimal`, of optimal actions; and
      `search_value` and `network_value`, of values that round to the exact one.
    """
    row = np.arange(len(values))

    def is_right(value: np.ndarray) -> float:
        # Halfway between two results is undecided, hence wrong.
        return float(np.mean(np.abs(value - values) < 0.5))

    return {
        "search_optimal": float(np.mean(optimal_actions[row, evaluations.action])),
        "network_optimal": float(np.mean(optimal_actions[row, evaluations.network_action[:, -1]])),
        "search_value": is_right(evaluations.value),
        "network_value": is_right(evaluations.network_value[:, -1]),
    }
