"""Builds pgx environments from pure rules; the games of this package share it.

pgx identifies players by 0 and 1, assigned at random when a game starts. The rules identify them
by colour; colour 0 moves first. The identity of colour 0 is `current_player ^ color`. It is
constant during a game, even if a player moves twice in a row.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import pgx

from dualmctx.errors import UserError
from games import drawing
from games.contract import KEY


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
        """Returns the observation from the view of `color`, bool."""
        ...

    def legal_action_mask(self, x: Any) -> jax.Array:
        """Returns bool `[A]`, true for the legal actions of the player to move."""
        ...

    def is_terminal(self, x: Any) -> jax.Array:
        """Returns bool `[]`, whether the game is over."""
        ...

    def rewards(self, x: Any) -> jax.Array:
        """Returns float32 `[2]`, one reward per colour; zero until the game is over."""
        ...


def state_class(cls: Any) -> Any:
    """Turns a subclass of `pgx.State` into a frozen dataclass, a JAX pytree, with SVG methods.

    pgx has no public decorator for this, and its SVG methods support only its own games and sizes.
    """
    cls.to_svg, cls.save_svg = drawing.to_svg, drawing.save_svg
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


def check_whole(name: str, value: Any, minimum: int, maximum: int, meaning: str) -> int:
    """Checks a whole parameter of a game.

    Args:
      name: name of the parameter.
      value: the value to check.
      minimum: the smallest valid value.
      maximum: the largest valid value; it keeps states and observations in memory.
      meaning: description of the parameter, for the error message.

    Returns:
      The value as a Python int.

    Raises:
      ValueError: if `value` is not an integer of Python or NumPy in this range.
    """
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_whole and minimum <= value <= maximum:
        return int(value)
    raise UserError(
        f"{name}={_show(value)}: pass a whole number from {minimum} to {maximum} ({meaning})."
    )


def check_number(name: str, value: Any, limit: float, meaning: str) -> float:
    """Returns a parameter that may be a fraction as a Python float; see `check_whole`.

    Raises:
      ValueError: if `value` is not a number of Python or NumPy from -`limit` to `limit`.
    """
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if is_number and not isinstance(value, bool) and -limit <= value <= limit:
        return float(value)
    raise UserError(f"{name}={_show(value)}: pass a number from {-limit} to {limit} ({meaning}).")


def _show(value: object) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # Python does not write integers of thousands of digits
        return "a number of thousands of digits"


@state_class
class State(pgx.State):
    """The fields of `pgx.State`, and the position; the base class of the states of a game.

    A game adds `name` and the method `picture` (`games.pictures`).
    """

    name: ClassVar[str]
    _x: Any

    @property
    def env_id(self) -> Any:
        """The name of the game."""
        return self.name


class TracedShapes:
    """A base class of environments whose shapes are traced once; pgx computes them each time."""

    init: Any

    @functools.cached_property
    def _traced_start(self) -> Any:
        return jax.eval_shape(self.init, KEY)

    @property
    def num_actions(self) -> int:
        """A, the number of actions."""
        return self._traced_start.legal_action_mask.shape[0]

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of an observation."""
        return self._traced_start.observation.shape


class RulesEnv(TracedShapes, pgx.Env):
    """The pgx environment of a game with pure rules.

    Attributes:
      game: the rules.
      state: the class of the states, a subclass of `State`.
    """

    state: ClassVar[type[State]]

    def __init__(self, game: Game) -> None:
        super().__init__()
        self.game: Any = game

    def _init(self, key: jax.Array) -> State:
        """Starts a game; the key is consumed to sample the identity of the first player."""
        x = self.game.init()
        return self.state(
            current_player=jax.random.bernoulli(key).astype(jnp.int32),
            observation=self.game.observe(x, x.color),
            rewards=jnp.zeros(2, jnp.float32),
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
            legal_action_mask=self.game.legal_action_mask(x),
            _step_count=jnp.int32(0),
            _x=x,
        )

    def _step(self, state: Any, action: jax.Array, key: Any) -> Any:
        """Plays a legal action; the rewards of the next state are indexed by identity."""
        del key
        x = self.game.step(state._x, jnp.asarray(action, jnp.int32))
        first = state.current_player ^ state._x.color
        return state.replace(
            current_player=first ^ x.color,
            legal_action_mask=self.game.legal_action_mask(x),
            terminated=self.game.is_terminal(x),
            rewards=self.game.rewards(x)[jnp.arange(2) ^ first],
            _x=x,
        )

    def _observe(self, state: Any, player_id: jax.Array) -> jax.Array:
        first = state.current_player ^ state._x.color
        return self.game.observe(state._x, player_id ^ first)

    @property
    def id(self) -> Any:
        """The name of the game."""
        return self.state.name

    @property
    def version(self) -> str:
        """The version; it changes with the rules or the observation."""
        return "v0"

    @property
    def num_players(self) -> int:
        """The number of players, 2."""
        return 2


def zero_sum_rewards(over: jax.Array, winner: jax.Array) -> jax.Array:
    """Returns float32 `[2]` by colour: +1 for the winner and -1 for the loser, or zeros.

    Args:
      over: bool `[]`, whether a player has won.
      winner: int32 `[]`, the colour of the winner; ignored if `over` is false.
    """
    return jnp.where(over, jnp.where(jnp.arange(2) == winner, 1.0, -1.0), 0.0).astype(jnp.float32)
