"""The stage `reinforce`: the policy network by REINFORCE against a pool of its earlier versions."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from pathlib import Path

import chex
import jax
import jax.numpy as jnp

from dualmctx.checks import check
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.matches.movers import MoveFn
from dualmctx.matches.players import policy_move_fn
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.config import ReinforceConfig
from dualmctx.pipeline.exact import exact_positions, keeping_share
from dualmctx.pipeline.options import ReinforceOptions
from dualmctx.pipeline.parts import POLICY, VALUE, check_parts, get_part, make_logits_fn
from dualmctx.pipeline.reinforce.iteration import (
    Optimizers,
    first_policy,
    make_iterate,
    make_optimizers,
    make_pool,
)
from dualmctx.pipeline.reinforce.policy_gradient import (
    make_self_match,
)
from dualmctx.pipeline.reinforce.report import (
    describe_row,
    plot_reinforce,
    summarize_rows,
    summary_table,
)
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.ratings.intervals import wilson_interval
from dualmctx.types import Environment, PolicyValueNetwork


def make_stage(
    env: Environment,
    network: PolicyValueNetwork,
    config: ReinforceConfig,
    inputs: Inputs,
    folder: Path,
) -> Stage:
    """Makes the stage; see `dualmctx.pipeline.stage.MakeStage`.

    The state's `extra` is the pool of opponents. Its first entry is the supervised policy, the
    opponent of the evals.

    Raises:
      UserError: if the network does not have the three parts, or if random openings may be as
        long as the longest game.

    Source: Silver et al. 2016, Methods, "Policy network: reinforcement learning"; the deviations
    stand in docs/variants.md.
    """
    del folder
    options, network = config.reinforce, check_parts(network)
    plies = max(options.opening_plies, options.eval_opening_plies)
    check(plies < options.max_plies, "max_plies", options.max_plies, f"above {plies}, the opening")
    assert inputs.init_from is not None
    start = inputs.init_from.params
    optimizers = make_optimizers(options)

    def init() -> StageState:
        # Iterations update the arrays in place, and the inputs must stay.
        params = jax.tree.map(jnp.array, start)
        policy = get_part(params, POLICY)
        value = get_part(params, VALUE) if options.baseline == "value" else ()
        return StageState(
            params=params,
            opt_state=Optimizers(optimizers.policy.init(policy), optimizers.value.init(value)),
            extra=make_pool(policy, options.pool_size),
            rng_key=jax.random.PRNGKey(config.seed),
            iteration=jnp.int32(0),
        )

    iterate = jax.jit(make_iterate(env, network, options, optimizers), donate_argnums=0)

    def iterate_row(state: StageState) -> tuple[StageState, dict[str, float]]:
        state, row = iterate(state)
        return state, {name: float(x) for name, x in jax.device_get(row).items()}

    return Stage(
        name="reinforce",
        num_iterations=options.num_iterations,
        init=init,
        iterate=iterate_row,
        evaluate=make_evaluate(env, network, options),
        eval_every=options.eval_every,
        describe=one_line(describe_row),
        plot=plot_reinforce,
        summarize=lambda state, rows: summarize_rows(rows, options.num_games),
        table=summary_table,
        about=f"{options.num_games} games per iteration against a pool of {options.pool_size}",
    )


# The match after the last iteration has at least this many games.
_FINAL_GAMES = 1000
# Folded into the key of a state for the evals. Iterations split the key instead.
_EVALS = 0xE7A15


def make_evaluate(
    env: Environment, network: SeparateTrunks, options: ReinforceOptions
) -> Callable[[StageState], dict[str, float]]:
    """Returns the evals: matches with the supervised policy, and moves against perfect play."""
    logits_fn = make_logits_fn(network)
    count_sampled = _make_count(env, policy_move_fn(logits_fn, 1.0), options, 0)
    count_likeliest = _make_count(
        env, policy_move_fn(logits_fn, 0.0), options, options.eval_opening_plies
    )

    def evaluate(state: StageState) -> dict[str, float]:
        is_last = int(state.iteration) >= options.num_iterations
        rounds = -(-_FINAL_GAMES // options.eval_games) if is_last else 1
        keys = jax.random.split(jax.random.fold_in(state.rng_key, _EVALS), rounds)
        counts = [count_sampled(state, key).tolist() for key in keys]
        row = describe_score(*(sum(column) for column in zip(*counts, strict=True)))
        wins, draws, _ = count_likeliest(state, keys[0]).tolist()
        row["reinforce/likeliest_points"] = (wins + draws / 2) / options.eval_games
        # The first call takes a while, and later calls return the same positions.
        if positions := exact_positions(env):
            row |= keeping_share(network, state.params, positions)
        return row

    return evaluate


def _make_count(
    env: Environment, move_fn: MoveFn, options: ReinforceOptions, opening_plies: int
) -> Callable[[StageState, chex.PRNGKey], chex.Array]:
    """Returns a function that plays a match of the policy with the supervised policy.

    It returns the numbers of games that the policy won, drew and lost, `[3]`.
    """
    play = make_self_match(
        env,
        move_fn,
        num_games=options.eval_games,
        max_plies=options.max_plies,
        opening_plies=opening_plies,
    )

    def count(state: StageState, rng_key: chex.PRNGKey) -> chex.Array:
        games = play(get_part(state.params, POLICY), first_policy(state.extra), rng_key)
        return jnp.stack([jnp.sum(games.result == z) for z in (1, 0, -1)])

    return jax.jit(count)


def describe_score(wins: int, draws: int, losses: int) -> dict[str, float]:
    """Returns the entries of a match with the supervised policy.

    `reinforce/points` is the share of the points, where a draw is half a point, with the ends of
    Wilson's 95 % interval.
    """
    number = wins + draws + losses
    points = (wins + draws / 2) / number
    low, high = wilson_interval(points, number)
    return {
        "reinforce/games": number,
        "reinforce/points": points,
        "reinforce/points_low": low,
        "reinforce/points_high": high,
        "reinforce/win_share": wins / number,
        "reinforce/draw_share": draws / number,
    }
