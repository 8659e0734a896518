"""A batch of games on the device that an engine on the host plays."""

import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.types import Environment
from games.histories import select_rows, step_legal


class View(NamedTuple):
    """The arrays of `[B]` states that the host reads.

    Attributes:
      legal: `[B, A]` bool.
      is_over: `[B]` bool.
      has_result: `[B]` bool, whether the game is over and was not truncated.
      is_first: `[B]` bool, whether the first side is to move.
      result: `[B]` sum of the rewards of the first side.
    """

    legal: Any
    is_over: Any
    has_result: Any
    is_first: Any
    result: Any


@functools.partial(jax.jit, static_argnums=(0, 1))
def start(env: Environment, number: int) -> tuple[Any, chex.Array]:
    """Begins games.

    Returns:
      The initial states with the players who begin, and zeros for the rewards, `[number, 2]`.
    """
    # A fixed key, as in `games.replay`.
    states = jax.vmap(env.init)(jnp.broadcast_to(jax.random.PRNGKey(0), (number, 2)))
    return (states, states.current_player), jnp.zeros((number, 2))


@functools.partial(jax.jit, static_argnums=0)
def restart(env: Environment, states: Any, results: chex.Array, rows: chex.Array) -> Any:
    """Begins the games of the given `[B]` bool rows again."""
    starts, zeros = start(env, len(rows))
    select = functools.partial(select_rows, rows)
    return jax.tree.map(select, starts, states), select(zeros, results)


@jax.jit
def look(states: Any, results: chex.Array) -> View:
    """Returns the arrays that the host reads, from states and the sums of their rewards."""
    state, first = states
    return View(
        legal=state.legal_action_mask,
        is_over=state.terminated | state.truncated,
        has_result=state.terminated & ~state.truncated,
        is_first=state.current_player == first,
        result=jnp.take_along_axis(results, first[:, None], axis=1)[:, 0],
    )


@functools.partial(jax.jit, static_argnums=0)
def step(env: Environment, states: Any, results: chex.Array, actions: chex.Array) -> Any:
    """Plays `[B]` actions; states stay as they are where the action is -1."""
    state, first = states
    state, is_played = step_legal(env, state, actions, actions >= 0)
    return (state, first), results + jnp.where(is_played[:, None], state.rewards, 0)
