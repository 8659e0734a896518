"""The stage `reinforce`: the policy network by REINFORCE against a pool of its earlier versions."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from dualmctx.experiment.report import Measure, measures_table
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.matches.players import MoveFn, policy_move_fn
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.config import ReinforceConfig
from dualmctx.pipeline.exact import exact_positions, keeping_share
from dualmctx.pipeline.learning import Optimizers, init_state, step_parts
from dualmctx.pipeline.options import ReinforceOptions
from dualmctx.pipeline.parts import (
    POLICY,
    VALUE,
    check_parts,
    get_part,
    make_logits_fn,
    make_value_fn,
)
from dualmctx.pipeline.policy_gradient import (
    add_policy,
    count_policies,
    draw_policy,
    first_policy,
    make_gradient,
    make_pool,
    make_self_match,
)
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.ratings.intervals import wilson_interval
from dualmctx.reports.numbers import show_number
from dualmctx.reports.plots import COLORS, SHARES, Line, Panel, plot_curves
from dualmctx.runs.metrics_file import Row
from dualmctx.types import Environment, PolicyValueNetwork

# The match after the last iteration has at least this many games.
_FINAL_GAMES = 1000
# Iterations at both ends of the stage over which the summary has means.
_SMOOTHING = 10
# Folded into the key of a state for the evals. Iterations split the key instead.
_EVALS = 0xE7A15


def make_optimizers(options: ReinforceOptions) -> Optimizers:
    """Returns the optimisers of the policy and of the baseline, if any, with clipped gradients."""
    clip = optax.clip_by_global_norm(options.max_gradient_norm)
    policy = {"sgd": optax.sgd, "adam": optax.adam}[options.optimizer](options.learning_rate)
    found = {POLICY: optax.chain(clip, policy)}
    if options.baseline == "value":
        found[VALUE] = optax.chain(clip, optax.adam(options.value_learning_rate))
    return found


def make_iterate(
    env: Environment, network: SeparateTrunks, options: ReinforceOptions, optimizers: Optimizers
) -> Callable[[StageState], tuple[StageState, dict[str, chex.Array]]]:
    """Returns a function that runs one iteration on the device, to be jitted.

    An iteration draws one opponent from the pool, and takes a step on the games against it.
    """
    logits_fn, has_baseline = make_logits_fn(network), VALUE in optimizers
    play = make_self_match(
        env,
        policy_move_fn(logits_fn, 1.0),
        num_games=options.num_games,
        max_plies=options.max_plies,
        opening_plies=options.opening_plies,
    )
    compute_gradients = make_gradient(
        env, logits_fn, make_value_fn(network) if has_baseline else None
    )

    def iterate(state: StageState) -> tuple[StageState, dict[str, chex.Array]]:
        rng_key, opponent_key, games_key = jax.random.split(state.rng_key, 3)
        policy = get_part(state.params, POLICY)
        value = get_part(state.params, VALUE) if has_baseline else ()
        opponent, index = draw_policy(state.extra, opponent_key)
        games = play(policy, opponent, games_key)
        gradients = compute_gradients(policy, value, games)
        by_part = {POLICY: gradients.policy, VALUE: gradients.value}
        params, opt_state = step_parts(state.params, state.opt_state, optimizers, by_part)
        iteration = state.iteration + 1
        is_due = iteration % options.pool_every == 0
        pool = add_policy(state.extra, get_part(params, POLICY), is_due)
        # docs/pipeline-reference.md describes the entries.
        return StageState(params, opt_state, pool, rng_key, iteration), {
            "pool_points": (1 + jnp.mean(games.result)) / 2,
            "draw_share": jnp.mean(games.result == 0),
            "unfinished_share": 1 - jnp.mean(games.is_over),
            "plies": jnp.mean(jnp.sum(games.actions >= 0, axis=1)),
            "entropy": gradients.entropy,
            "value_loss": gradients.value_loss,
            "gradient_norm": optax.tree.norm(gradients.policy),
            "opponent": index,
            "pool_policies": count_policies(state.extra),
        }

    return iterate


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

    Source: Silver et al. 2016, Methods, "Policy network: reinforcement learning"; the deviations
    stand in docs/pipeline-reference.md.
    """
    del folder
    options, network = config.reinforce, check_parts(network)
    start, optimizers = inputs["init_from"].params, make_optimizers(options)

    def init() -> StageState:
        # Iterations update the arrays in place, and the inputs must stay.
        params = jax.tree.map(jnp.array, start)
        pool = make_pool(get_part(params, POLICY), options.pool_size)
        return init_state(params, optimizers, jax.random.PRNGKey(config.seed), pool)

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
        describe=one_line(describe),
        plot=functools.partial(plot_curves, PANELS),
        summarize=lambda state, rows: summarize(rows, options.num_games),
        table=functools.partial(measures_table, _MEASURES, {"": "policy by reinforcement"}),
        about=f"{options.num_games} games per iteration against a pool of {options.pool_size}",
    )


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
    """Returns a function that counts won, drawn and lost games with the supervised policy."""
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


def describe(row: Row) -> str:
    """Describes a row in at most 43 columns: the points of its evals, if there are any."""
    pool = f"pool {row['pool_points']:.0%}"
    if "reinforce/points" in row:
        points, low, high = (100 * row[f"reinforce/points{x}"] for x in ("", "_low", "_high"))
        return f"{pool}, supervised {points:.1f}% ({low:.1f}–{high:.1f})"
    return f"{pool}, entropy {row['entropy']:.2f}, value {row['value_loss']:.3f}"


def summarize(rows: list[Row], num_games: int) -> dict[str, Any]:
    """Returns the number of games, the pool, and means over the first and the last iterations."""

    def mean(some: list[Row], name: str) -> float:
        return sum(row[name] for row in some) / len(some)

    return {
        "num_games": num_games * len(rows),
        "first_entropy": mean(rows[:_SMOOTHING], "entropy"),
        "last_entropy": mean(rows[-_SMOOTHING:], "entropy"),
        "value_loss": mean(rows[-_SMOOTHING:], "value_loss"),
        "pool_policies": rows[-1]["pool_policies"],
    }


_MEASURES = (
    Measure("reinforce/points", "points against supervised, of {reinforce/games:,.0f} games"),
    Measure("reinforce/points_low", "  its 95 % interval, from"),
    Measure("reinforce/points_high", "  to"),
    Measure("reinforce/win_share", "  of these games won"),
    Measure("reinforce/draw_share", "  of these games drawn"),
    Measure("reinforce/likeliest_points", "points if both play their likeliest moves"),
    Measure("exact/policy_keeping", "likeliest moves that keep the game's value"),
    Measure("first_entropy", "entropy of the policy, first iterations (nats)", show_number),
    Measure("last_entropy", "  last iterations", show_number),
    Measure("value_loss", "squared error of the baseline", show_number),
    Measure("num_games", "games of training", show_number),
)
_ENDS = ("reinforce/points_low", "reinforce/points_high")
PANELS = (
    Panel(
        "against the supervised policy",
        (
            Line("reinforce/points", "points, both sample (95 %)", ends=_ENDS),
            Line("reinforce/likeliest_points", "points, likeliest moves", COLORS[1], "--"),
            Line("exact/policy_keeping", "likeliest moves that keep the value", COLORS[2], ":"),
        ),
        "share",
        SHARES,
        0.5,
    ),
    Panel("entropy of the policy (nats)", (Line("entropy", marker=""),), limits=(0, None)),
    Panel("squared error of the baseline", (Line("value_loss", marker=""),), limits=(0, None)),
)
"""The picture of the stage."""
