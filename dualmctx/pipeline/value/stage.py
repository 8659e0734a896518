"""The value stage: regression of the value network on one position per game.

Minimises the mean of (z − v(s))², where z is the result of a game of the reinforced policy from the
position s on. For comparison, the network can learn all positions of fewer games in place of one
per game: as many positions, and tested on the same held-out games.

Source: Silver et al. 2016 (AlphaGo), "Reinforcement learning of value networks" and Methods, "Value
network: regression". There, all positions of each game gave errors of 0.19 in training and 0.37 in
the test, and one position per game 0.226 and 0.234. Deviations:
docs/pipeline-reference.md.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import games
from dualmctx.datasets.manifest import Manifest, read_manifest
from dualmctx.errors import UserError
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.pipeline.config import ValueConfig
from dualmctx.pipeline.exact import exact_positions, value_error
from dualmctx.pipeline.parts import (
    POLICY,
    VALUE,
    check_parts,
    get_part,
    initial_params,
    make_logits_fn,
    make_value_fn,
    with_part,
)
from dualmctx.pipeline.stage import Inputs, StageState, make_stage_optimizer
from dualmctx.pipeline.value.games import Policies, make_value_games
from dualmctx.pipeline.value.positions import (
    ALL,
    ONE,
    ValueData,
    load_value_data,
    make_learn,
    measure_errors,
)
from dualmctx.pipeline.value.report import count_games, describe, plot, summarize, table
from dualmctx.runs.progress import SECONDS_BETWEEN_LINES
from dualmctx.runs.saved_network import digest_of
from dualmctx.types import Environment, PolicyValueNetwork

GAMES_FOLDER = "games"
"""The data set of the games, in the folder of the stage."""
_ABOUT = {ONE: "one position per game", ALL: "all positions of fewer games"}


def make_stage(
    env: Environment, network: PolicyValueNetwork, config: ValueConfig, inputs: Inputs, folder: Path
) -> Stage:
    """Makes the stage; see `dualmctx.pipeline.stage.MakeStage`.

    The policy of `inputs.supervised` plays the first moves of the games, and that of
    `inputs.init_from` the others. The network of the stage has the rollout policy and the policy
    network of `inputs.supervised`, and the value network that the stage trains, which begins with
    random parameters.

    Raises:
      UserError: if the network does not have three parts, or `augment` is set for a game without
        symmetries.
    """
    network, options = check_parts(network), config.value
    data_folder = folder / GAMES_FOLDER
    optimizer, value_fn = make_stage_optimizer(options), make_value_fn(network)
    symmetries = _symmetries(env, options.augment)
    learn = make_learn(value_fn, optimizer, options.num_updates, options.batch_size, symmetries)
    assert inputs.supervised is not None
    assert inputs.init_from is not None
    start, later = inputs.supervised.params, inputs.init_from.params
    parts = get_part(start, POLICY), get_part(later, POLICY)
    policies = Policies(make_logits_fn(network), *parts)

    @functools.cache
    def load() -> ValueData:
        return load_value_data(
            env, data_folder, options.positions, options.max_positions, config.seed
        )

    @functools.cache
    def training_positions() -> tuple[Any, ...]:
        train = load().train
        return jnp.asarray(train.observation), jnp.asarray(train.value)

    def prepare(say: Callable[[str], None]) -> None:
        digests = {x: digest_of(getattr(policies, x)) for x in ("supervised", "reinforced")}
        show = _show_games(say)
        say(_describe_games(make_value_games(env, policies, config, data_folder, digests, show)))
        load()
        if games.exact_source(env) is None:
            say("the game has no exact values: the error against perfect play is left out")

    def init() -> StageState:
        rng_key, init_key = jax.random.split(jax.random.PRNGKey(config.seed))
        part = get_part(initial_params(network, env, init_key), VALUE)
        params = with_part(start, VALUE, part)
        return StageState(params, optimizer.init(part), (), rng_key, jnp.int32(0))

    def iterate(state: StageState) -> tuple[StageState, dict[str, float]]:
        rng_key, key = jax.random.split(state.rng_key)
        part = get_part(state.params, VALUE)
        part, opt_state, loss = learn(part, state.opt_state, key, training_positions())
        params = with_part(state.params, VALUE, part)
        after = StageState(params, opt_state, (), rng_key, state.iteration + 1)
        return after, {"value_loss": float(loss)}

    def evaluate(state: StageState) -> dict[str, float]:
        part = get_part(state.params, VALUE)
        row = measure_errors(value_fn, part, load(), options.max_positions)
        exact = exact_positions(env)
        return row | (value_error(network, state.params, exact) if exact else {})

    return Stage(
        name="value",
        num_iterations=options.num_iterations,
        init=init,
        iterate=iterate,
        evaluate=evaluate,
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


def _symmetries(env: Environment, augment: bool | None) -> Any:
    """Returns the `[S, D]` permutations of the observation, or `None` without augmentation.

    Raises:
      UserError: if `augment` is true, but the game has no symmetries.
    """
    table = games.symmetries(env).observation
    if augment and len(table) < 2:
        raise UserError(
            "value.augment is True, but the game has no symmetries; leave value.augment out"
        )
    return None if augment is False or len(table) < 2 else table


def _show_games(say: Callable[[str], None]) -> Callable[[int, int], None]:
    """Returns a function that prints the number of games played, every few seconds."""
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > SECONDS_BETWEEN_LINES or done == total:
            last = time.monotonic()
            say(f"games played: {done:,}/{total:,}")

    return show


def _describe_games(manifest: Manifest) -> str:
    counts = count_games(manifest)
    return (
        f"{counts['games']:,} games, {counts['games_used']:,} with a position to learn or to test; "
        f"{counts['games_over_early']:,} were over before it, {counts['games_stopped']:,} stopped"
    )
