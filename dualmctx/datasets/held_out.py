"""Scores of predictors on the held-out positions of a data set."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax

from dualmctx.datasets.loading import first_rows, load_dataset
from dualmctx.datasets.manifest import read_manifest
from dualmctx.datasets.shards import Shard, read_shard, shard_paths
from dualmctx.models.game_model import mask_illegal
from dualmctx.training.batch import TrainingBatch
from dualmctx.types import Environment, Params

TOP = 5
"""The number of likeliest moves that the score `top5` counts."""
# Positions that are scored at once.
_BATCH_SIZE = 1024
# Size of the observations that are rebuilt for a sample.
_SAMPLE_BYTES = 2**24

ScoreFn = Callable[[Params, TrainingBatch], dict[str, chex.Array]]
"""`(params, positions) -> scores`: takes the parameters of the whole network and `[M]` positions;
returns `[M]` scores by name. The score `loss` is the one that training minimises."""
ScoreFns = Mapping[str, ScoreFn]
"""Predictors by name, such as the part of the network that predicts."""
Sums = dict[str, dict[str, Any]]
"""By predictor and score, sums over positions; and the sum of the weights, as `weight`."""


def score_moves(
    logits: chex.Array, legal_action_mask: chex.Array, target: chex.Array
) -> dict[str, chex.Array]:
    """Scores the predictions of `[M]` positions.

    Formula: the loss is -Σ_a π(a) log p(a), where π is the target and p the softmax over the legal
    actions. Of equal logits, the lowest action is the most likely one.

    Args:
      logits: `[M, A]`, of all actions.
      legal_action_mask: `[M, A]` bool.
      target: `[M, A]` shares of the moves that were played, 0 for illegal ones, such as a one-hot
        row for a single move. Each row sums to 1.

    Returns:
      `[M]` each: `loss`, the cross-entropy in nats; `top1` and `top5`, the share of the target on
      the most likely legal move and on the five most likely ones.

    Source: Silver et al. 2016, "Supervised learning of policy networks"; the accuracy is the share
    of positions in which the most likely move is the one that was played.
    """
    masked = mask_illegal(logits, legal_action_mask)
    _, best = jax.lax.top_k(masked, min(TOP, logits.shape[-1]))
    hits = jnp.take_along_axis(target, best, axis=-1)
    loss = optax.losses.softmax_cross_entropy(masked, target)
    return {"loss": loss, "top1": hits[:, 0], "top5": jnp.sum(hits, axis=-1)}


def weighted_sums(scores: dict[str, chex.Array], weights: chex.Array) -> dict[str, chex.Array]:
    """Returns the sums over `[M]` positions of weighted scores, and of the weights."""
    sums = {name: jnp.sum(weights * x) for name, x in scores.items()}
    return sums | {"weight": jnp.sum(weights)}


def mean_scores(sums: Sequence[Sums]) -> dict[str, float]:
    """Returns the weighted means over batches as `PREDICTOR_SCORE`; empty without a position."""
    if not sums:
        return {}
    found = jax.tree.map(lambda *x: sum(map(float, x)), *jax.device_get(sums))
    return {
        f"{predictor}_{name}": x / scores["weight"]
        for predictor, scores in found.items()
        for name, x in scores.items()
        if name != "weight" and scores["weight"]
    }


def learned_shards(folder: Path, *, only_first: bool = False) -> Iterator[Shard]:
    """Yields the shards for training; `only_first` leaves the first position of each game."""
    for path in shard_paths(folder, "train"):
        shard = read_shard(path)
        yield shard.with_positions(first_rows(shard)) if only_first else shard


def learned_keys(folder: Path, *, only_first: bool = False) -> np.ndarray:
    """Returns the sorted keys of the positions for training, 8 bytes each."""
    shards = learned_shards(folder, only_first=only_first)
    return np.unique(np.concatenate([np.unique(shard.keys) for shard in shards]))


class HeldOut(NamedTuple):
    """Positions that are scored.

    Attributes:
      env: the game.
      folder: the folder of the data set.
      split: "train", "validation" or "test".
      known: the sorted keys of the positions that are learned; `None` to score no positions apart.
      only_first: whether to score only the first position of each game.
      limit: score a fixed sample of at most this many rows; `None` for all rows.
    """

    env: Environment
    folder: Path
    split: str
    known: np.ndarray | None = None
    only_first: bool = False
    limit: int | None = None


def make_scorer(score_fns: ScoreFns) -> Callable[[Params, HeldOut, str], dict[str, float]]:
    """Returns a function that scores the predictors on positions of a data set.

    Openings occur in many games, so some held-out positions also occur in training. The scores are
    therefore given for all positions, and for those that do not occur in training.

    A row of a merged data set counts as many times as its position occurs, so merging does not
    change the scores, except that symmetric positions have the orientation of the first one.

    Returns:
      `(params, held_out, scope) -> entries`: `SCOPE/PREDICTOR_SCORE`; `SCOPE/positions`, the sum of
      the counts; and, if the known positions are given, the same as `SCOPE_unseen/…` for the
      others. Entries without a position are left out.
    """

    @jax.jit
    def score(params: Params, positions: TrainingBatch, weights: tuple[Any, ...]) -> list[Sums]:
        scores = {name: score_fn(params, positions) for name, score_fn in score_fns.items()}
        return [{x: weighted_sums(y, weight) for x, y in scores.items()} for weight in weights]

    def score_all(params: Params, held_out: HeldOut, scope: str) -> dict[str, float]:
        scopes = [scope] if held_out.known is None else [scope, f"{scope}_unseen"]
        sums = [score(params, *batch) for batch in _load(held_out)]
        row: dict[str, float] = {}
        for number, name in enumerate(scopes):
            found = [batch[number] for batch in sums]
            weights = [next(iter(x.values()))["weight"] for x in found]
            row[f"{name}/positions"] = float(sum(weights))
            row |= {f"{name}/{entry}": x for entry, x in mean_scores(found).items()}
        return row

    return score_all


def _load(held_out: HeldOut) -> Iterator[tuple[TrainingBatch, tuple[np.ndarray, ...]]]:
    """Yields positions in batches of equal size, padded with copies of the last row.

    Yields:
      `[M]` positions; and their weights: the counts, `[M]` float32, 0 in padded rows and after the
      limit, and, if the known positions are given, the same with 0 in these too.
    """
    env, folder, split, known, only_first, limit = held_out
    statistics = read_manifest(folder).splits[split]
    rows = statistics["games" if only_first else "rows"]
    left = rows if limit is None else min(rows, limit)
    if not left:
        return
    options: Any = {"one_per_game": "first" if only_first else False, "batch_size": _BATCH_SIZE}
    if limit is not None:
        # A sample needs only a part of the games.
        options["buffer_bytes"] = _SAMPLE_BYTES
    for batch in load_dataset(folder, split, env, **options):
        index = np.minimum(np.arange(_BATCH_SIZE), len(batch.keys) - 1)
        is_used = np.arange(_BATCH_SIZE) < min(len(batch.keys), left)
        weights = np.where(is_used, np.asarray(batch.counts)[index], 0).astype(np.float32)
        positions = jax.tree.map(lambda x, index=index: x[index], batch.positions)
        if known is None:
            yield positions, (weights,)
        else:
            unseen = np.where(np.isin(batch.keys, known)[index], 0, weights).astype(np.float32)
            yield positions, (weights, unseen)
        left -= len(batch.keys)
        if left <= 0:
            return
