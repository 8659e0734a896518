"""An iteration of the stage `reinforce`: games against an opponent of the pool, and one step.

The pool holds earlier policies, from which the opponents are drawn.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from dualmctx.matches.players import policy_move_fn
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.options import ReinforceOptions
from dualmctx.pipeline.parts import (
    POLICY,
    VALUE,
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
from dualmctx.pipeline.stage import StageState
from dualmctx.types import Environment, Params


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
