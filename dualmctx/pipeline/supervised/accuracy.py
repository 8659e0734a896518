"""How well policies predict the moves of games: cross-entropy, top-1 and top-5 accuracy."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from dualmctx.models.game_model import mask_illegal

_TOP = 5


class MoveScores(NamedTuple):
    """Scores of the prediction of moves: `[M]` for positions, or scalars for their mean.

    Attributes:
      loss: cross-entropy in nats, at least 0.
      top1: share of the target on the most likely legal move, in [0, 1].
      top5: share of the target on the five most likely legal moves, in [0, 1].
    """

    loss: chex.Array
    top1: chex.Array
    top5: chex.Array


def score_moves(
    logits: chex.Array, legal_action_mask: chex.Array, target: chex.Array
) -> MoveScores:
    """Scores the predictions of `[M]` positions.

    Formula: the loss is -Σ_a π(a) log p(a), where π is the target and p the softmax over the legal
    actions. Of equal logits, the lowest action is the most likely one.

    Args:
      logits: `[M, A]`, of all actions.
      legal_action_mask: `[M, A]` bool.
      target: `[M, A]` shares of the moves that were played, 0 for illegal ones, such as a one-hot
        row for a single move. Each row sums to 1.

    Source: Silver et al. 2016, "Supervised learning of policy networks"; the accuracy is the share
    of positions in which the most likely move is the one that was played.
    """
    masked = mask_illegal(logits, legal_action_mask)
    _, best = jax.lax.top_k(masked, min(_TOP, logits.shape[-1]))
    hits = jnp.take_along_axis(target, best, axis=-1)
    loss = optax.losses.softmax_cross_entropy(masked, target)
    return MoveScores(loss, hits[:, 0], jnp.sum(hits, axis=-1))


def score_chance(legal_action_mask: chex.Array) -> MoveScores:
    """Returns the expected scores of uniformly random legal moves in `[M]` positions.

    They do not depend on the moves that were played: with n legal moves the loss is log n, and the
    accuracies are 1/n and min(5, n)/n.
    """
    number = jnp.sum(legal_action_mask, axis=-1).astype(jnp.float32)
    return MoveScores(jnp.log(number), 1 / number, jnp.minimum(_TOP, number) / number)


class ScoreSums(NamedTuple):
    """Weighted sums of scores, from which means over several batches follow.

    Attributes:
      weight: scalar, sum of the weights of the positions.
      scores: scalars, sums of the weighted scores.
    """

    weight: chex.Array
    scores: MoveScores

    def add(self, scores: MoveScores, weights: chex.Array) -> "ScoreSums":
        """Returns the sums with `[M]` further positions of `[M]` weights."""
        sums = jax.tree.map(lambda total, x: total + jnp.sum(weights * x), self.scores, scores)
        return ScoreSums(self.weight + jnp.sum(weights), sums)

    def means(self) -> dict[str, float]:
        """Returns the weighted means by name; the sum of the weights must be positive."""
        return {
            name: float(x) / float(self.weight)
            for name, x in jax.device_get(self.scores)._asdict().items()
        }


def no_scores() -> ScoreSums:
    """Returns the sums over no positions, in separate arrays, so that all may be donated."""
    return ScoreSums(jnp.zeros(()), MoveScores(jnp.zeros(()), jnp.zeros(()), jnp.zeros(())))
