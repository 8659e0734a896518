"""Accuracy of the policies on held-out positions of a data set, with and without those of training.

Openings occur in many games, so some held-out positions also occur in training. The scores are
therefore given for all positions, and for those that do not occur in training.
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.datasets import DatasetBatch, load_dataset, read_manifest, read_shard
from dualmctx.datasets.shards import shard_path
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.parts import policy_logits
from dualmctx.pipeline.supervised.accuracy import no_scores, score_chance, score_moves
from dualmctx.pipeline.supervised.move_learning import POLICIES
from dualmctx.types import Environment, Params

CHANCE = "chance"
"""The name of the scores of uniformly random legal moves."""
_BATCH_SIZE = 1024
# The order in which held-out positions are sampled.
_SEED = 0


class _Batch(NamedTuple):
    """A padded batch; `weights` and `unseen_weights` are 0 in padded rows, `[M]` float32."""

    positions: Any
    weights: chex.Array
    unseen_weights: chex.Array


def training_keys(folder: Path) -> np.ndarray:
    """Returns the sorted keys of the positions of the training split, 8 bytes each."""
    number = read_manifest(folder).splits["train"]["shards"]
    keys = [np.unique(read_shard(shard_path(folder, "train", x)).keys) for x in range(number)]
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
    scopes = {split: "weights", f"{split}_unseen": "unseen_weights"}
    sums = {scope: {name: no_scores() for name in names} for scope in scopes}
    for batch in _load(env, folder, split, known, max_positions):
        scores = _score(network, params, batch.positions)
        for scope, field in scopes.items():
            weights = getattr(batch, field)
            sums[scope] = {x: sums[scope][x].add(scores[x], weights) for x in names}
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
    mask, target = positions.legal_action_mask, positions.policy
    logits = {x: policy_logits(network, params, positions.observation, x) for x in POLICIES}
    scores = {x: score_moves(logits[x], mask, target) for x in POLICIES}
    return scores | {CHANCE: score_chance(mask)}


def _load(
    env: Environment, folder: Path, split: str, known: np.ndarray, max_positions: int | None
) -> Iterator[_Batch]:
    """Yields the positions of a split in padded batches; none if the split is empty."""
    rows = read_manifest(folder).splits[split]["rows"]
    left = rows if max_positions is None else min(rows, max_positions)
    if not left:
        return
    batches = load_dataset(folder, split, env, batch_size=_BATCH_SIZE, seed=_SEED)
    for batch in batches:
        yield _pad(batch, left, known)
        left -= len(batch.keys)
        if left <= 0:
            return


def _pad(batch: DatasetBatch, number: int, known: np.ndarray) -> _Batch:
    """Pads a batch with copies of its last row; at most the first `number` rows have weights."""
    rows = np.minimum(np.arange(_BATCH_SIZE), len(batch.keys) - 1)
    is_used = np.arange(_BATCH_SIZE) < min(len(batch.keys), number)
    weights = np.where(is_used, np.asarray(batch.counts)[rows], 0).astype(np.float32)
    is_known = np.isin(batch.keys, known)[rows]
    positions = jax.tree.map(lambda x: x[rows], batch.positions)
    return _Batch(positions, jnp.asarray(weights), jnp.asarray(np.where(is_known, 0, weights)))
