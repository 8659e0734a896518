"""The value stage: regression of the value network on one position per game.

Minimises the mean of (z − v(s))², where z is the result of a game of the reinforced policy from the
position s on. For comparison, the network can learn all positions of fewer games in place of one
per game: as many positions, and tested on the same held-out games.

Source: Silver et al. 2016 (AlphaGo), "Reinforcement learning of value networks" and Methods, "Value
network: regression". There, all positions of each game gave errors of 0.19 in training and 0.37 in
the test, and one position per game 0.226 and 0.234. Deviations: docs/variants.md.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import games
from dualmctx.datasets.manifest import read_manifest
from dualmctx.errors import UserError
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.config import ValueConfig
from dualmctx.pipeline.exact_evals import value_error
from dualmctx.pipeline.exact_positions import exact_positions
from dualmctx.pipeline.optimizer import make_stage_optimizer
from dualmctx.pipeline.parts import VALUE, check_parts, get_part, make_value_fn, with_part
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.pipeline.value.errors import measure_errors
from dualmctx.pipeline.value.positions import ALL, ONE, ValueData, load_value_data
from dualmctx.pipeline.value.regression import LearnFn, make_learn
from dualmctx.pipeline.value.report import describe, plot, summarize, table
from dualmctx.pipeline.value.stage_games import play_stage_games
from dualmctx.types import Environment, PolicyValueNetwork

GAMES_FOLDER = "games"
"""The data set of the games, in the folder of the stage."""
_ABOUT = {ONE: "one position per game", ALL: "all positions of fewer games"}


def make_stage(
    env: Environment, network: PolicyValueNetwork, config: ValueConfig, inputs: Inputs, folder: Path
) -> Stage:
    """Makes the stage; see `dualmctx.pipeline.stage.MakeStage`.

    The network of the stage has the rollout policy and the policy network of `inputs.supervised`,
    and the value network that the stage trains, which begins with random parameters.

    Raises:
      ValueError: if the network does not have three parts, or `augment` is set for a game without
        symmetries.
    """
    network, options = check_parts(network), config.value
    data_folder = folder / GAMES_FOLDER
    optimizer, value_fn = make_stage_optimizer(options), make_value_fn(network)
    symmetries = _symmetries(env, options.augment)
    learn = make_learn(value_fn, optimizer, options.num_updates, options.batch_size, symmetries)

    @functools.cache
    def load() -> ValueData:
        return load_value_data(
            env, data_folder, options.positions, options.max_positions, config.seed
        )

    def prepare(say: Callable[[str], None]) -> None:
        play_stage_games(env, network, config, inputs, data_folder, say)
        load()
        if games.exact_source(env) is None:
            say("the game has no exact values: the error against perfect play is left out")

    def init() -> StageState:
        assert inputs.supervised is not None
        rng_key, init_key = jax.random.split(jax.random.PRNGKey(config.seed))
        part = get_part(network.init(init_key, jnp.zeros((1, *env.observation_shape))), VALUE)
        return StageState(
            params=with_part(inputs.supervised.params, VALUE, part),
            opt_state=optimizer.init(part),
            extra=(),
            rng_key=rng_key,
            iteration=jnp.int32(0),
        )

    return Stage(
        name="value",
        num_iterations=options.num_iterations,
        init=init,
        iterate=_make_iterate(learn, load),
        evaluate=_make_evaluate(env, network, load, options.max_positions),
        eval_every=options.eval_every,
        describe=one_line(describe),
        plot=plot,
        summarize=lambda state, rows: summarize(
            rows, read_manifest(data_folder), load(), options.positions
        ),
        table=table,
        about=f"regression on {_ABOUT[options.positions]}",
        prepare=prepare,
    )


def _make_iterate(
    learn: LearnFn, load: Callable[[], ValueData]
) -> Callable[[StageState], tuple[StageState, dict[str, float]]]:
    """Returns an iteration: optimiser steps of the value network."""

    @functools.cache
    def training_positions() -> tuple[Any, ...]:
        train = load().train
        return jnp.asarray(train.observation), jnp.asarray(train.value)

    def iterate(state: StageState) -> tuple[StageState, dict[str, float]]:
        rng_key, key = jax.random.split(state.rng_key)
        part, opt_state, loss = learn(
            get_part(state.params, VALUE), state.opt_state, key, training_positions()
        )
        after = StageState(
            params=with_part(state.params, VALUE, part),
            opt_state=opt_state,
            extra=(),
            rng_key=rng_key,
            iteration=state.iteration + 1,
        )
        return after, {"value_loss": float(loss)}

    return iterate


def _make_evaluate(
    env: Environment,
    network: SeparateTrunks,
    load: Callable[[], ValueData],
    max_positions: int,
) -> Callable[[StageState], dict[str, float]]:
    """Returns the evals: errors against the results of games, and against perfect play."""
    value_fn = make_value_fn(network)

    def evaluate(state: StageState) -> dict[str, float]:
        row = measure_errors(value_fn, get_part(state.params, VALUE), load(), max_positions)
        exact = exact_positions(env)
        return row if exact is None else row | value_error(network, state.params, exact)

    return evaluate


def _symmetries(env: Environment, augment: bool | None) -> Any:
    """Returns the `[S, D]` permutations of the observation, or `None` without augmentation.

    Raises:
      ValueError: if `augment` is true, but the game has no symmetries.
    """
    table = games.symmetries(env).observation
    if augment and len(table) < 2:
        raise UserError(
            "value.augment is True, but the game has no symmetries; leave value.augment out"
        )
    return None if augment is False or len(table) < 2 else table
