"""Learning from the positions of a data set: optimiser steps and scores.

The supervised stage and the value stage differ in the parts that they train and in the scores.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax

from dualmctx.datasets import load_dataset, read_manifest
from dualmctx.datasets.loading import first_rows
from dualmctx.datasets.shards import Shard, read_shard, shard_paths
from dualmctx.pipeline.batch_feed import BatchFeed
from dualmctx.pipeline.options import LearningOptions
from dualmctx.pipeline.parts import get_part, with_part
from dualmctx.pipeline.stage import StageState
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.learner import Learner, make_optimizer
from dualmctx.types import Environment, Params

# Positions that are scored at once, and the seed of the order in which they are sampled.
_BATCH_SIZE, _SEED = 1024, 0
# Size of the observations that are rebuilt for a sample.
_SAMPLE_BYTES = 2**24

ScoreFn = Callable[[Params, TrainingBatch], dict[str, chex.Array]]
"""`(params, positions) -> scores`: takes the parameters of the whole network and `[M]` positions;
returns `[M]` scores by name. The score `loss` is the one that training minimises."""
ScoreFns = Mapping[str, ScoreFn]
"""Predictors by name, such as the part of the network that predicts."""
Sums = dict[str, dict[str, Any]]
"""By predictor and score, sums over positions; and the sum of the weights, as `weight`."""


def make_stage_optimizer(options: LearningOptions) -> optax.GradientTransformation:
    """Returns the optimiser of self-play training, with the schedule of a whole stage.

    It is AdamW with clipped gradients, a linear warm-up and a cosine decay over all
    `num_iterations * num_updates` steps.
    """
    learner = Learner(
        learning_rate=options.learning_rate,
        warmup_steps=options.warmup_steps,
        weight_decay=options.weight_decay,
    )
    return make_optimizer(learner, options.num_iterations * options.num_updates)


Optimizers = Mapping[str, optax.GradientTransformation]
"""An optimiser for each part of the network that is trained."""


def init_state(
    params: Params, optimizers: Optimizers, rng_key: chex.PRNGKey, extra: Any = ()
) -> StageState:
    """Returns the state before the first iteration; each trained part has an optimiser state."""
    opt_state = {part: x.init(get_part(params, part)) for part, x in optimizers.items()}
    return StageState(params, opt_state, extra, rng_key, jnp.int32(0))


def step_parts(
    params: Params, opt_state: Any, optimizers: Optimizers, gradients: Mapping[str, Params]
) -> tuple[Params, Any]:
    """Takes an optimiser step of each trained part; returns all parameters and the states."""
    states = {}
    for part, optimizer in optimizers.items():
        own = get_part(params, part)
        updates, states[part] = optimizer.update(gradients[part], opt_state[part], own)
        params = with_part(params, part, optax.apply_updates(own, updates))
    return params, states


UpdateFn = Callable[[Params, Any, TrainingBatch, chex.Array], tuple[Params, Any, Sums]]
"""`(params, opt_state, positions, counts) -> (params, opt_state, sums)`: takes one optimiser step;
donates the first two. The sums are of the scores before the step."""


def make_update(score_fns: ScoreFns, optimizers: Optimizers, mean_count: float = 1.0) -> UpdateFn:
    """Returns a compiled function that takes one optimiser step for each part.

    Formula: 1/M Σ_m c_m / c̄ l_m is minimised, with the loss l and the counts c of the positions,
    and c̄ = `mean_count`, their mean over the data set. The expected gradient of a random batch is
    then that of the weighted mean over the data set. The parts have no parameters in common, so
    each has an optimiser state of its own.

    Args:
      score_fns: the scores of each part of the network that is trained.
      optimizers: the optimiser of each of them.
      mean_count: the mean count.
    """

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def update(params: Params, opt_state: Any, positions: TrainingBatch, counts: Any) -> Any:
        gradients, sums, weights = {}, {}, counts / mean_count

        def loss(own: Params, part: str) -> tuple[chex.Array, Any]:
            scores = score_fns[part](with_part(params, part, own), positions)
            return jnp.mean(weights * scores["loss"]), scores

        for part in score_fns:
            gradients[part], scores = jax.grad(loss, has_aux=True)(get_part(params, part), part)
            sums[part] = _weighted_sums(scores, counts.astype(jnp.float32))
        return *step_parts(params, opt_state, optimizers, gradients), sums

    return update


def _weighted_sums(scores: dict[str, chex.Array], weights: chex.Array) -> dict[str, chex.Array]:
    sums = {name: jnp.sum(weights * x) for name, x in scores.items()}
    return sums | {"weight": jnp.sum(weights)}


def mean_scores(sums: Sequence[Sums]) -> dict[str, float]:
    """Returns the weighted means over batches as `PREDICTOR_SCORE`; empty without a position."""
    found = jax.tree.map(lambda *x: sum(map(float, x)), *jax.device_get(sums))
    return {
        f"{predictor}_{name}": x / scores["weight"]
        for predictor, scores in found.items()
        for name, x in scores.items()
        if name != "weight" and scores["weight"]
    }


def learn(
    state: StageState, feed: BatchFeed, update: UpdateFn, num_updates: int
) -> tuple[StageState, dict[str, float]]:
    """Runs an iteration of optimiser steps; returns the state and the means of the scores.

    Step n learns batch n of the feed. On a CPU, a resumed stage is therefore bit-equal to an
    uninterrupted one.
    """
    params, opt_state, sums = state.params, state.opt_state, []
    for batch in feed.take(int(state.iteration) * num_updates, num_updates):
        params, opt_state, found = update(params, opt_state, batch.positions, batch.counts)
        sums.append(found)
    state = state._replace(params=params, opt_state=opt_state, iteration=state.iteration + 1)
    return state, mean_scores(sums)


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
        return [{x: _weighted_sums(y, weight) for x, y in scores.items()} for weight in weights]

    def score_all(params: Params, held_out: HeldOut, scope: str) -> dict[str, float]:
        scopes = [scope] if held_out.known is None else [scope, f"{scope}_unseen"]
        sums = [score(params, *batch) for batch in _load(held_out)]
        row: dict[str, float] = {}
        for number, name in enumerate(scopes):
            found = [batch[number] for batch in sums]
            weights = [next(iter(x.values()))["weight"] for x in found]
            row[f"{name}/positions"] = float(sum(weights))
            means = mean_scores(found) if found else {}
            row |= {f"{name}/{entry}": x for entry, x in means.items()}
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
    options: Any = {"one_per_game": "first" if only_first else False}
    if limit is not None:
        # A sample needs only a part of the games.
        options["buffer_bytes"] = _SAMPLE_BYTES
    for batch in load_dataset(folder, split, env, batch_size=_BATCH_SIZE, seed=_SEED, **options):
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
