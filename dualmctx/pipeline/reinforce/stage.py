"""The stage `reinforce`: the policy network by REINFORCE against a pool of its earlier versions."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from dualmctx.checks import check
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.matches.players import MoveFn, policy_move_fn
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.config import ReinforceConfig
from dualmctx.pipeline.exact import exact_positions, keeping_share
from dualmctx.pipeline.options import ReinforceOptions
from dualmctx.pipeline.parts import (
    POLICY,
    VALUE,
    check_parts,
    get_part,
    make_logits_fn,
    make_value_fn,
    with_part,
)
from dualmctx.pipeline.reinforce.policy_gradient import (
    Gradients,
    PlayedGames,
    make_gradient,
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
from dualmctx.types import Environment, Params, PolicyValueNetwork

# The match after the last iteration has at least this many games.
_FINAL_GAMES = 1000
# Folded into the key of a state for the evals. Iterations split the key instead.
_EVALS = 0xE7A15


class Pool(NamedTuple):
    """Parameters of policies, stacked on a leading axis.

    Attributes:
      params: `[P, ...]` parameters. The first entry is the policy with which the pool was made.
      num_added: int32, the number of policies added so far, including the first one.
    """

    params: Params
    num_added: chex.Array


def make_pool(params: Params, size: int) -> Pool:
    """Makes a pool of P = `size` entries that holds one policy."""
    stacked = jax.tree.map(lambda x: jnp.zeros((size, *x.shape), x.dtype).at[0].set(x), params)
    return Pool(stacked, jnp.int32(1))


def count_policies(pool: Pool) -> chex.Array:
    """Returns the number of policies in the pool, int32, from 1 to P."""
    return jnp.minimum(pool.num_added, _size(pool))


def add_policy(pool: Pool, params: Params, is_due: chex.Array | bool = True) -> Pool:
    """Adds a policy to the pool.

    A full pool replaces its oldest policy, but never the first one, so that the learner keeps
    playing against the policy from which it started. A pool of size 1 never changes, nor does one
    with `is_due`, a bool, false.

    Source: Silver et al. 2016, Methods, "Policy network: reinforcement learning". Their pool keeps
    all policies.
    """
    size = _size(pool)
    is_due = jnp.logical_and(is_due, size > 1)
    slot = 1 + (pool.num_added - 1) % max(size - 1, 1)
    # An index out of bounds drops the update.
    slot = jnp.where(is_due, slot, size)
    stacked = jax.tree.map(lambda x, new: x.at[slot].set(new, mode="drop"), pool.params, params)
    return Pool(stacked, pool.num_added + is_due)


def draw_policy(pool: Pool, rng_key: chex.PRNGKey) -> tuple[Params, chex.Array]:
    """Draws a policy uniformly from the pool; consumes the key.

    Returns:
      The parameters, and the index of the policy in the pool, int32.
    """
    index = jax.random.randint(rng_key, (), 0, count_policies(pool))
    return jax.tree.map(lambda x: x[index], pool.params), index


def first_policy(pool: Pool) -> Params:
    """Returns the parameters of the policy with which the pool was made."""
    return jax.tree.map(lambda x: x[0], pool.params)


def _size(pool: Pool) -> int:
    return jax.tree.leaves(pool.params)[0].shape[0]


class Optimizers(NamedTuple):
    """Optimisers of the policy and of the baseline, or their states."""

    policy: Any
    value: Any


def make_optimizers(options: ReinforceOptions) -> Optimizers:
    """Returns the optimisers of the policy and of the baseline, both with clipped gradients."""
    clip = optax.clip_by_global_norm(options.max_gradient_norm)
    policy = {"sgd": optax.sgd, "adam": optax.adam}[options.optimizer](options.learning_rate)
    return Optimizers(
        optax.chain(clip, policy), optax.chain(clip, optax.adam(options.value_learning_rate))
    )


def make_iterate(
    env: Environment,
    network: SeparateTrunks,
    options: ReinforceOptions,
    optimizers: Optimizers,
) -> Callable[[StageState], tuple[StageState, dict[str, chex.Array]]]:
    """Returns a function that runs one iteration on the device, to be jitted.

    An iteration draws one opponent from the pool, plays all games against it, takes one step of the
    policy and one of the baseline, and adds the policy to the pool if it is due.
    """
    logits_fn, has_baseline = make_logits_fn(network), options.baseline == "value"
    value_fn = make_value_fn(network) if has_baseline else None
    play = make_self_match(
        env,
        policy_move_fn(logits_fn, 1.0),
        num_games=options.num_games,
        max_plies=options.max_plies,
        opening_plies=options.opening_plies,
    )
    compute_gradients = make_gradient(env, logits_fn, value_fn)

    def iterate(state: StageState) -> tuple[StageState, dict[str, chex.Array]]:
        rng_key, opponent_key, games_key = jax.random.split(state.rng_key, 3)
        policy = get_part(state.params, POLICY)
        value = get_part(state.params, VALUE) if has_baseline else ()
        opponent, index = draw_policy(state.extra, opponent_key)
        games = play(policy, opponent, games_key)
        gradients = compute_gradients(policy, value, games)
        states = state.opt_state
        policy, policy_state = _step(optimizers.policy, gradients.policy, states.policy, policy)
        value, value_state = _step(optimizers.value, gradients.value, states.value, value)
        updated = with_part(state.params, POLICY, policy)
        iteration = state.iteration + 1
        new = StageState(
            params=with_part(updated, VALUE, value) if has_baseline else updated,
            opt_state=Optimizers(policy_state, value_state),
            extra=add_policy(state.extra, policy, iteration % options.pool_every == 0),
            rng_key=rng_key,
            iteration=iteration,
        )
        return new, _make_row(games, gradients, state.extra, index)

    return iterate


def _step(
    optimizer: optax.GradientTransformation, gradient: Params, opt_state: Any, params: Params
) -> tuple[Params, Any]:
    updates, opt_state = optimizer.update(gradient, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def _make_row(
    games: PlayedGames, gradients: Gradients, pool: Pool, opponent: chex.Array
) -> dict[str, chex.Array]:
    """Returns the entries of an iteration's row; docs/pipeline.md describes them."""
    return {
        "pool_points": (1 + jnp.mean(games.result)) / 2,
        "draw_share": jnp.mean(games.result == 0),
        "unfinished_share": 1 - jnp.mean(games.is_over),
        "plies": jnp.mean(jnp.sum(games.actions >= 0, axis=1)),
        "entropy": gradients.entropy,
        "value_loss": gradients.value_loss,
        "gradient_norm": optax.tree.norm(gradients.policy),
        "opponent": opponent,
        "pool_policies": count_policies(pool),
    }


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
    stand in docs/pipeline-reference.md.
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
