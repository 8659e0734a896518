"""What our pgx environments share: from a game's pure rules to pgx's `State` fields.

pgx names players by identity (0 or 1, drawn at random when a game starts), the rules name
them by colour (0 moves first). The identity of colour 0 is `current_player ^ color`; it
stays the same through a game, also where one player moves twice.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from games import drawing


class Game(Protocol):
    """The rules of a two-player game: pure functions over an immutable state `x`.

    `x.color` is the colour to move, int32 `[]`; colour 0 moves first.
    """

    def init(self) -> Any:
        """Returns the position at the start."""
        ...

    def step(self, x: Any, action: jax.Array) -> Any:
        """Returns the position after a legal `action`, int32 `[]`."""
        ...

    def observe(self, x: Any, color: jax.Array) -> jax.Array:
        """Returns what `color` sees, bool."""
        ...

    def legal_action_mask(self, x: Any) -> jax.Array:
        """Returns bool `[A]`, true where the player to move may go."""
        ...

    def is_terminal(self, x: Any) -> jax.Array:
        """Returns bool `[]`."""
        ...

    def rewards(self, x: Any) -> jax.Array:
        """Returns float32 `[2]`, one reward a colour; zero until the game is over."""
        ...


def state_class(cls: Any) -> Any:
    """Makes a subclass of `pgx.State` a frozen dataclass and a JAX pytree that can be drawn.

    pgx has no public decorator for this, its states already bring `replace`, and its SVG
    drawings know only pgx's games and sizes.
    """
    cls.to_svg, cls.save_svg = drawing.to_svg, drawing.save_svg
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


def at_least(name: str, value: object, minimum: int, meaning: str) -> int:
    """Checks a whole-number parameter of a game.

    Args:
      name: the parameter.
      value: what the caller passed.
      minimum: the least value that makes sense.
      meaning: what the parameter counts, for the message.

    Returns:
      The value as a Python int.

    Raises:
      ValueError: if `value` is not a whole number or lies below `minimum`.
    """
    whole = int(value) if isinstance(value, int | np.integer) else minimum - 1
    if isinstance(value, bool) or whole < minimum:
        raise ValueError(
            f"{name}={value!r}: pass a whole number of at least {minimum} ({meaning})."
        )
    return whole


def initial_state(state_class: Any, game: Game, rng_key: jax.Array) -> Any:
    """Builds the state at the start of a game.

    Args:
      state_class: a `pgx.State` with one more field, `_x`, the position.
      game: the rules.
      rng_key: consumed to draw the identity of the player who moves first.

    Returns:
      The state, unbatched, as `pgx.Env._init` returns it.
    """
    x = game.init()
    return state_class(
        current_player=jax.random.bernoulli(rng_key).astype(jnp.int32),
        observation=game.observe(x, x.color),
        rewards=jnp.zeros(2, jnp.float32),
        terminated=jnp.bool_(False),
        truncated=jnp.bool_(False),
        legal_action_mask=game.legal_action_mask(x),
        _step_count=jnp.int32(0),
        _x=x,
    )


def next_state(game: Game, state: Any, action: jax.Array) -> Any:
    """Plays one legal action, as `pgx.Env._step` does.

    Args:
      game: the rules.
      state: unbatched, not terminated.
      action: int32 `[]`.

    Returns:
      The state after the action; rewards `[2]` by identity.
    """
    x = game.step(state._x, jnp.asarray(action, jnp.int32))
    first = state.current_player ^ state._x.color
    return state.replace(
        current_player=first ^ x.color,
        legal_action_mask=game.legal_action_mask(x),
        terminated=game.is_terminal(x),
        rewards=game.rewards(x)[jnp.arange(2) ^ first],
        _x=x,
    )


def observe(game: Game, state: Any, player_id: jax.Array) -> jax.Array:
    """Shows the state to a player, as `pgx.Env._observe` does.

    Args:
      game: the rules.
      state: unbatched.
      player_id: int32 `[]`, the identity whose view is asked for.

    Returns:
      The observation, bool.
    """
    first = state.current_player ^ state._x.color
    return game.observe(state._x, player_id ^ first)


def zero_sum_rewards(over: jax.Array, winner: jax.Array) -> jax.Array:
    """Returns float32 `[2]` by colour: +1 and -1 once a game is won, else zeros.

    Args:
      over: bool `[]`, whether somebody has won.
      winner: int32 `[]`, that colour; any value where `over` is false.
    """
    return jnp.where(over, jnp.where(jnp.arange(2) == winner, 1.0, -1.0), 0.0).astype(jnp.float32)
