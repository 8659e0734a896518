"""The evals of the stage `reinforce`: matches with the supervised policy, and perfect play."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from dualmctx.matches.movers import MoveFn
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.exact_evals import keeping_share
from dualmctx.pipeline.exact_positions import exact_positions
from dualmctx.pipeline.options import ReinforceOptions
from dualmctx.pipeline.parts import POLICY, get_part, make_logits_fn
from dualmctx.pipeline.reinforce.opponent_pool import first_policy
from dualmctx.pipeline.reinforce.self_matches import likeliest_moves, make_self_match, sample_moves
from dualmctx.pipeline.stage import StageState
from dualmctx.ratings.intervals import wilson_interval
from dualmctx.types import Environment

# The match after the last iteration has at least this many games.
_FINAL_GAMES = 1000
# Folded into the key of a state for the evals. Iterations split the key instead.
_EVALS = 0xE7A15


def make_evaluate(
    env: Environment, network: SeparateTrunks, options: ReinforceOptions
) -> Callable[[StageState], dict[str, float]]:
    """Returns the evals: matches with the supervised policy, and moves against perfect play."""
    logits_fn = make_logits_fn(network)
    count_sampled = _make_count(env, sample_moves(logits_fn), options, 0)
    count_likeliest = _make_count(
        env, likeliest_moves(logits_fn), options, options.eval_opening_plies
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
