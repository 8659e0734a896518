"""Optimiser steps on the positions of a data set.

The supervised stage and the value stage differ in the parts that they train and in the scores.
"""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from dualmctx.datasets.batch_feed import BatchFeed, make_feed, uses_symmetries
from dualmctx.datasets.held_out import ScoreFns, Sums, mean_scores, weighted_sums
from dualmctx.pipeline.options import LearningOptions
from dualmctx.pipeline.parts import get_part, with_part
from dualmctx.pipeline.stage import StageState
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.learner import Learner, make_optimizer
from dualmctx.types import Environment, Params


def stage_feed(
    env: Environment,
    folder: Path,
    options: LearningOptions,
    name: str,
    seed: int,
    *,
    only_first: bool = False,
) -> BatchFeed:
    """Returns the training batches of a stage of this name; see `make_feed`."""
    return make_feed(
        env,
        folder,
        batch_size=options.batch_size,
        total=options.num_iterations * options.num_updates,
        seed=seed,
        augment=uses_symmetries(env, f"{name}.augment", options.augment),
        only_first=only_first,
        name=f"{name}.batch_size",
    )


def make_stage_optimizer(options: LearningOptions) -> optax.GradientTransformation:
    """Returns the optimiser of self-play training, with the schedule of a whole stage."""
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
"""`(params, opt_state, positions, counts) -> (params, opt_state, sums)`: takes one optimiser step
of each part; donates the first two. The sums are of the scores before the step."""


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
            sums[part] = weighted_sums(scores, counts.astype(jnp.float32))
        return *step_parts(params, opt_state, optimizers, gradients), sums

    return update


def learn(
    state: StageState, feed: BatchFeed, update: UpdateFn, num_updates: int
) -> tuple[StageState, dict[str, float]]:
    """Runs an iteration of optimiser steps; returns the state and the means of the scores."""
    # Step n learns batch n of the feed, so on a CPU a resumed stage is bit-equal.
    params, opt_state, sums = state.params, state.opt_state, []
    for batch in feed.take(int(state.iteration) * num_updates, num_updates):
        params, opt_state, found = update(params, opt_state, batch.positions, batch.counts)
        sums.append(found)
    state = state._replace(params=params, opt_state=opt_state, iteration=state.iteration + 1)
    return state, mean_scores(sums)
