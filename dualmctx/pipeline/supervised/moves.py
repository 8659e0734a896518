"""Learning to predict the moves of games, and the accuracy of the prediction.

The scores are the cross-entropy and the top-1 and top-5 accuracy.
"""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax

from dualmctx.datasets import load_dataset, read_manifest, read_shard
from dualmctx.datasets.shards import shard_paths
from dualmctx.models.game_model import mask_illegal
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.parts import (
    POLICY,
    ROLLOUT,
    LogitsFn,
    get_part,
    make_logits_fn,
    with_part,
)
from dualmctx.training.batch import TrainingBatch
from dualmctx.types import Environment, Params

POLICIES = (POLICY, ROLLOUT)
"""The parts of the network that the supervised stage trains."""
CHANCE = "chance"
"""The name of the scores of uniformly random legal moves."""
_TOP = 5
# Held-out positions that are scored at once, and the order in which they are sampled.
_BATCH_SIZE, _SEED = 1024, 0


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


class Learned(NamedTuple):
    """The arrays that an optimiser step changes.

    Attributes:
      params: the parameters of the whole network.
      opt_state: the state of the optimiser of each trained part, by its name.
      sums: sums of the scores of each trained part over the positions learned, each position with
        the parameters before its step.
    """

    params: Params
    opt_state: dict[str, Any]
    sums: dict[str, ScoreSums]


UpdateFn = Callable[[Learned, TrainingBatch, chex.Array], Learned]
"""`(learned, positions, counts) -> learned`: takes one optimiser step; donates `learned`."""


def move_loss(
    logits_fn: LogitsFn, policy: Params, positions: TrainingBatch, weights: chex.Array
) -> tuple[chex.Array, MoveScores]:
    """Computes the loss of one policy on `[M]` positions with `[M]` weights, at least 0.

    Formula: 1/M Σ_m w_m (-Σ_a π_m(a) log p_m(a)), with the moves played π, the policy p and the
    weights w. If the weights have the mean 1 over the data set, the expected gradient of a random
    batch is that of the weighted mean over the data set.

    Returns:
      The loss in nats, and the `[M]` scores.
    """
    logits = logits_fn(policy, positions.observation)
    scores = score_moves(logits, positions.legal_action_mask, positions.policy)
    return jnp.mean(weights * scores.loss), scores


def make_update(
    network: SeparateTrunks, optimizer: optax.GradientTransformation, mean_count: float
) -> UpdateFn:
    """Returns a compiled function that takes one optimiser step for both policies.

    The policies have no parameters in common, so each has an optimiser state of its own. The counts
    are divided by `mean_count`, their mean over the data set.
    """

    @functools.partial(jax.jit, donate_argnums=0)
    def update(learned: Learned, positions: TrainingBatch, counts: chex.Array) -> Learned:
        params, opt_state, sums = learned.params, dict(learned.opt_state), dict(learned.sums)
        for part in POLICIES:
            policy, weights = get_part(params, part), counts / mean_count
            loss_fn = functools.partial(move_loss, make_logits_fn(network, part))
            gradients, scores = jax.grad(loss_fn, has_aux=True)(policy, positions, weights)
            updates, opt_state[part] = optimizer.update(gradients, opt_state[part], policy)
            params = with_part(params, part, optax.apply_updates(policy, updates))
            sums[part] = sums[part].add(scores, counts.astype(jnp.float32))
        return Learned(params, opt_state, sums)

    return update


def training_keys(folder: Path) -> np.ndarray:
    """Returns the sorted keys of the positions of the training split, 8 bytes each."""
    keys = [np.unique(read_shard(path).keys) for path in shard_paths(folder, "train")]
    return np.unique(np.concatenate(keys))


def score_held_out(
    env: Environment,
    network: SeparateTrunks,
    params: Params,
    folder: Path,
    split: str,
    known: np.ndarray,
    max_positions: int | None = None,
) -> dict[str, float]:
    """Scores the policy network and the rollout policy on a held-out split.

    Openings occur in many games, so some held-out positions also occur in training. The scores are
    therefore given for all positions, and for those that do not occur in training.

    A row of a merged data set counts as many times as its position occurs, so merging does not
    change the scores, except that symmetric positions have the orientation of the first one.

    Args:
      env: the game.
      network: the network of the pipeline.
      params: its parameters.
      folder: the folder of the data set.
      split: "validation" or "test".
      known: the sorted keys of the positions that are training positions.
      max_positions: score a fixed sample of at most this many rows; `None` for all rows.

    Returns:
      `SPLIT/POLICY_SCORE`, where POLICY is policy, rollout or chance, and SCORE is loss, top1 or
      top5; `SPLIT/positions`, the sum of the counts; and the same as `SPLIT_unseen/…` for positions
      that do not occur in training. Entries without a position are left out.
    """
    names = (*POLICIES, CHANCE)
    sums = {scope: {x: no_scores() for x in names} for scope in (split, f"{split}_unseen")}
    for positions, *weights in _load(env, folder, split, known, max_positions):
        scores = _score(network, params, positions)
        for scope, weight in zip(sums, weights, strict=True):
            sums[scope] = {x: sums[scope][x].add(scores[x], weight) for x in names}
    row: dict[str, float] = {}
    for scope, found in sums.items():
        number = float(found[CHANCE].weight)
        row[f"{scope}/positions"] = number
        for name in names if number else ():
            means = found[name].means()
            row |= {f"{scope}/{name}_{score}": mean for score, mean in means.items()}
    return row


@functools.partial(jax.jit, static_argnums=0)
def _score(network: SeparateTrunks, params: Params, positions: Any) -> dict[str, Any]:
    """Returns the `[M]` scores of both policies and of chance."""
    mask, target, found = positions.legal_action_mask, positions.policy, {}
    for part in POLICIES:
        logits = make_logits_fn(network, part)(get_part(params, part), positions.observation)
        found[part] = score_moves(logits, mask, target)
    return found | {CHANCE: score_chance(mask)}


def _load(
    env: Environment, folder: Path, split: str, known: np.ndarray, max_positions: int | None
) -> Iterator[tuple[TrainingBatch, chex.Array, chex.Array]]:
    """Yields the positions of a split in batches, padded with copies of the last row.

    Yields:
      `[M]` positions; their counts, `[M]` float32, 0 in padded rows and after `max_positions`; and
      the same, but 0 in training positions too.
    """
    rows = read_manifest(folder).splits[split]["rows"]
    left = rows if max_positions is None else min(rows, max_positions)
    if not left:
        return
    for batch in load_dataset(folder, split, env, batch_size=_BATCH_SIZE, seed=_SEED):
        index = np.minimum(np.arange(_BATCH_SIZE), len(batch.keys) - 1)
        is_used = np.arange(_BATCH_SIZE) < min(len(batch.keys), left)
        weights = np.where(is_used, np.asarray(batch.counts)[index], 0).astype(np.float32)
        unseen = np.where(np.isin(batch.keys, known)[index], 0, weights)
        positions = jax.tree.map(lambda x, index=index: x[index], batch.positions)
        yield positions, jnp.asarray(weights), jnp.asarray(unseen)
        left -= len(batch.keys)
        if left <= 0:
            return
