"""Synthetic games with exact values, and two heads with errors of a known size.

A position is won or lost for the player to move. In a won position each move keeps the win with
probability `keeping`, independently of the others, and one move keeps it in any case. In a lost
position all moves lose. Games do not end, so a search learns from the heads alone.

A head h has, for the first player, the value tanh(k_h v + σ_h e_h(s)), where v is 1 or -1, the
exact value, and e_h has a standard normal distribution. Errors persist along a path and are
correlated between the heads:

    e_h(child) = ρ e_h(parent) + sqrt(1 - ρ²) n_h,      corr(n_early, n_final) = c

The prior of a head is softmax(d_h v_a / 2 + τ_h m_h), where v_a is the exact value after action a
for the player to move, and m_h has a standard normal distribution for each action, correlated in
the same way. On the map, k is 0.9 and d is 1.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
from jax import Array
from jax.scipy.special import ndtri

from dualmctx.types import RecurrentFn

Mix = tuple[float, float]
"""The early head's weights in a prior and in a value."""
EARLY, FINAL = (1.0, 1.0), (0.0, 0.0)
"""Mixtures that are one head alone."""


class Heads(NamedTuple):
    """The game and its heads; a policy's `params`, so one program serves all of them.

    Attributes:
      value_noise: σ of the early and of the final head.
      prior_noise: τ of both heads.
      correlation: c, from 0 to 1.
      persistence: ρ, from 0 to 1.
      keeping: the probability that a move keeps a win.
      value_signal: k of both heads.
      prior_signal: d of both heads.
    """

    value_noise: tuple[Any, Any]
    prior_noise: tuple[Any, Any]
    correlation: Any
    persistence: Any
    keeping: Any = 0.5
    value_signal: tuple[Any, Any] = (0.9, 0.9)
    prior_signal: tuple[Any, Any] = (1.0, 1.0)


class State(NamedTuple):
    """`[B]` positions.

    Attributes:
      key: `[B, 2]` the key of all numbers drawn at the position and below it.
      side: `[B]` 1 if the first player is to move, otherwise -1.
      is_won: `[B]` bool, whether the player to move wins.
      keeps: `[B, A]` bool, whether the player to move wins after a move.
      errors: `[B, 2]` e of both heads, in the first player's view.
      noise: `[B, 2, A]` m of both heads.
    """

    key: Array
    side: Array
    is_won: Array
    keeps: Array
    errors: Array
    noise: Array


def roots(seed: Any, number: int, heads: Heads, num_actions: int) -> State:
    """Makes `number` won positions, in each of which a move keeps the win and another loses it.

    The same seed gives the same positions for all heads with the same `keeping`.
    """
    keys = jax.random.split(jax.random.PRNGKey(seed), number)
    moves, errors, noise = _draw(keys, heads, num_actions)
    won = jnp.ones(number, bool)
    keeps = _keeping(moves, heads, won) & (moves < jnp.max(moves, axis=1, keepdims=True))
    return State(keys, jnp.ones(number), won, keeps, errors, noise)


def play(heads: Heads, state: State, action: Array) -> State:
    """Plays `[B]` actions."""
    key = jax.vmap(jax.random.fold_in)(state.key, action)
    moves, errors, noise = _draw(key, heads, state.keeps.shape[1])
    is_won = ~jnp.take_along_axis(state.keeps, action[:, None], axis=1)[:, 0]
    rho = heads.persistence
    errors = rho * state.errors + jnp.sqrt(1 - rho**2) * errors
    return State(key, -state.side, is_won, _keeping(moves, heads, is_won), errors, noise)


def evaluate(heads: Heads, state: State, mix: Mix) -> tuple[Array, Array]:
    """Evaluates positions by a mixture of both heads.

    Args:
      heads: the heads.
      state: the positions.
      mix: the early head's weights in the prior and in the value; `EARLY` and `FINAL` are those of
        one head alone.

    Returns:
      `[B, A]` logits, and `[B]` values for the player to move.
    """
    after = jnp.where(state.keeps, 0.5, -0.5)
    signal, noise = (jnp.array(x)[:, None] for x in (heads.prior_signal, heads.prior_noise))
    priors = jax.nn.softmax(signal * after[:, None] + noise * state.noise)
    exact = jnp.where(state.is_won, 1.0, -1.0)
    errors = jnp.array(heads.value_noise) * state.errors * state.side[:, None]
    values = jnp.tanh(jnp.array(heads.value_signal) * exact[:, None] + errors)
    prior_weights, value_weights = jnp.array([[x, 1 - x] for x in mix])
    return jnp.log(jnp.einsum("h,bha->ba", prior_weights, priors)), values @ value_weights


def recurrent_fn(mix: Mix) -> RecurrentFn:
    """Returns a function that plays actions and evaluates the positions; see `evaluate`."""

    def step(
        params: Any, rng_key: Any, action: Array, embedding: Any
    ) -> tuple[mctx.RecurrentFnOutput, State]:
        del rng_key
        state = play(params, embedding, action)
        logits, value = evaluate(params, state, mix)
        zeros = jnp.zeros_like(value)
        output = mctx.RecurrentFnOutput(
            reward=zeros, discount=zeros - 1, prior_logits=logits, value=value
        )
        return output, state

    return step


def refine_fn(params: Any, rng_key: Any, embedding: Any) -> tuple[Array, Array]:
    """Evaluates positions by the final head, as Dual calls it."""
    del rng_key
    return evaluate(params, embedding, FINAL)


def _draw(keys: Array, heads: Heads, num_actions: int) -> tuple[Array, Array, Array]:
    """Draws `[B, A]` numbers of moves, `[B, 2]` errors and `[B, 2, A]` noise, all normal."""

    def draw(key: Array) -> Array:
        return jax.random.normal(key, (3, 1 + num_actions))

    moves, first, second = jnp.moveaxis(jax.vmap(draw)(keys), 1, 0)
    c = heads.correlation
    both = jnp.stack([first, c * first + jnp.sqrt(1 - c**2) * second], axis=1)
    return moves[:, 1:], both[..., 0], both[..., 1:]


def _keeping(moves: Array, heads: Heads, is_won: Array) -> Array:
    """Returns `[B, A]` bool, the moves that keep the win, by the numbers of the moves."""
    is_first = moves == jnp.min(moves, axis=1, keepdims=True)
    return ((moves < ndtri(heads.keeping)) | is_first) & is_won[:, None]
