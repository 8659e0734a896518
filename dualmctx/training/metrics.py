"""The metrics of an iteration: numbers of games by result, and losses."""

from typing import Any

import chex
import jax.numpy as jnp

from dualmctx.training.learner import Losses
from dualmctx.training.selfplay import Trajectory


def count_games(trajectory: Trajectory) -> dict[str, chex.Array]:
    """Counts the games that ended within `[T, B]` moves.

    Returns:
      Scalars: `games`, the number of games that ended; among them, `truncated`, `draws` and
      `wins_by_mover` (games won by the player who moved last), and `resign_tests` and
      `resign_errors`, see `SelfPlay.play_on_fraction`.
    """
    has_result = trajectory.is_end & ~trajectory.is_truncated
    return {
        "games": jnp.sum(trajectory.is_end),
        "truncated": jnp.sum(trajectory.is_truncated),
        "draws": jnp.sum(has_result & (trajectory.reward == 0)),
        "wins_by_mover": jnp.sum(has_result & (trajectory.reward > 0)),
        "resign_tests": jnp.sum(trajectory.is_resign_test),
        "resign_errors": jnp.sum(trajectory.is_resign_error),
    }


def make_metrics(counts: dict[str, Any], losses: Losses) -> dict[str, float]:
    """Returns the metrics of an iteration from the counts of `count_games` and the losses."""
    metrics: dict[str, float] = {name: int(count) for name, count in counts.items()}
    metrics["target_entropy"] = float(losses.target_entropy)
    for head in range(len(losses.policy)):
        metrics[f"policy_loss_{head}"] = float(losses.policy[head])
        metrics[f"value_loss_{head}"] = float(losses.value[head])
    return metrics
