"""The plain twin of self-play: one game after the other at one table, a list of moves, no batch.

Written from Silver et al. 2017 (AlphaGo Zero), "Self-play training pipeline" and "Self-play", and
from what the options of `dualmctx.training.selfplay.SelfPlay` say. Rewards are kept by the players'
identities, as the game gives them, so that there are no signs to get wrong. JAX is used for the
game, the search and the random draws; the order in which keys are split is the engine's.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.training.selfplay import SelfPlay


class Thoughts(NamedTuple):
    """The output of a search for one position."""

    weights: Any
    """`[A]`, the target."""
    acting_weights: Any
    """`[A]`, what moves are drawn from."""
    value: Any
    """For the player to move."""


SearchOne = Callable[[Any, Any], Thoughts]
"""`(rng_key, state)` of one position."""


@dataclasses.dataclass
class Move:
    """A move, and its targets after the game."""

    observation: np.ndarray
    legal: np.ndarray
    weights: np.ndarray
    value: float
    mover: int
    action: int
    is_random: bool
    is_spared: bool
    """Whether the mover would have resigned here, but for the game being played on."""
    rewards: list[float]
    """By identity."""
    is_end: bool
    is_truncated: bool
    """Whether the game was stopped after it, undecided."""
    next_mover: int
    """Whoever is to move after it; meaningless at the end of a game."""
    is_over: bool = False
    """Whether its game is."""
    result: float | None = None
    """What the mover gets in this game from here on, once it has ended; of a truncated game nobody
    will ever know."""
    is_resign_test: bool = False
    """Whether it ended a game played on in which somebody would have resigned."""
    is_resign_error: bool = False
    """Likewise one that the first of them did not lose."""

    @property
    def has_value(self) -> bool:
        """Whether the result is known and the move was chosen by a search."""
        return self.result is not None and not self.is_random


# Equal functions are compiled once.
_jit = functools.cache(jax.jit)


@functools.partial(jax.jit, static_argnums=1)
def _draws_of_step(rng_key: Any, num_actions: int) -> tuple:
    search_key, action_key, start_key = jax.random.split(rng_key, 3)
    sample_key, random_key = jax.random.split(action_key)
    noise = [jax.random.gumbel(key, (num_actions,), "float32") for key in (sample_key, random_key)]
    return search_key, *noise, start_key


@functools.partial(jax.jit, static_argnums=1)
def _draws_of_start(rng_key: Any, most_random: int) -> tuple:
    init_key, random_key, resign_key = jax.random.split(rng_key, 3)
    number = jax.random.randint(random_key, (), 0, most_random + 1)
    return init_key, number, jax.random.uniform(resign_key)


def pick(weights: np.ndarray, temperature: float, noise: np.ndarray) -> int:
    """Samples an action from weights^(1 / temperature), or takes the first best one at 0.

    With Gumbel noise g, argmax of log(w) / T + g is such a draw.
    """
    scores = {
        action: math.log(weight) + temperature * noise[action]
        for action, weight in enumerate(weights.tolist())
        if weight > 0
    }
    return max(scores, key=lambda action: (scores[action], -action))


def tree_of(value: Any, weights: Any) -> Any:
    """A stand-in for the `[B]` trees of two searches with these values of the chosen action.

    The chosen action is the one with the largest of the `[B, A]` weights. Every other number is not
    a number, and every other action has more visits.
    """
    is_chosen = jnp.arange(weights.shape[-1]) == jnp.argmax(weights, axis=-1, keepdims=True)
    nothing = jnp.full(weights.shape, jnp.nan)
    visits = jnp.where(is_chosen, 1, 2)[:, None]
    return SimpleNamespace(
        embeddings=None,
        stats=[
            SimpleNamespace(
                children_visits=visits,
                children_qvalues=jnp.where(is_chosen, last, nothing)[:, None],
                node_values=nothing,
            )
            for last in (nothing, value[:, None])
        ],
    )


class Table:
    """A place where games are played, one after the other.

    `moves` are all of them; `game` are those of the game in progress.
    """

    def __init__(self, env: Any, search: SearchOne, options: SelfPlay, rng_key: Any) -> None:
        self.init, self.step = _jit(env.init), _jit(env.step)
        self.search, self.options = search, options
        self.moves: list[Move] = []
        self.begin(rng_key)

    def begin(self, rng_key: Any) -> None:
        """Begins a game."""
        init_key, number, luck = _draws_of_start(rng_key, self.options.random_plies)
        self.state = self.init(init_key)
        self.num_random = int(number)
        self.plays_on = bool(luck < self.options.play_on_fraction)
        self.game: list[Move] = []

    def play(self, rng_key: Any) -> None:
        """Plays as many moves as an iteration has."""
        for step_key in jax.random.split(rng_key, self.options.num_steps):
            self.move(step_key)

    def move(self, rng_key: Any) -> None:
        """Plays a move, and begins a new game if it was the last of its game."""
        before, ply, options = self.state, len(self.game), self.options
        legal, mover = np.asarray(before.legal_action_mask), int(before.current_player)
        search_key, sample_noise, random_noise, start_key = _draws_of_step(rng_key, len(legal))
        thoughts = jax.device_get(self.search(search_key, before))

        is_random = ply < self.num_random
        if is_random:
            action = pick(legal.astype(float), 1.0, np.asarray(random_noise))
        else:
            is_opening = ply < options.temperature_plies
            temperature = options.temperature if is_opening else options.final_temperature
            action = pick(thoughts.acting_weights, temperature, np.asarray(sample_noise))
        assert legal[action]

        # Nobody resigns for a position that came about by chance and is left by chance.
        limit = options.resign_below
        is_hopeless = limit is not None and thoughts.value < limit and not is_random
        resigns = is_hopeless and not self.plays_on
        after = self.state = self.step(before, np.int32(action))
        stopped = bool(after.truncated) and not bool(after.terminated) and not resigns
        rewards = [1.0, 1.0] if resigns else np.asarray(after.rewards).tolist()
        if resigns:
            rewards[mover] = -1.0
        move = Move(
            observation=np.asarray(before.observation),
            legal=legal,
            weights=thoughts.weights,
            value=float(thoughts.value),
            mover=mover,
            action=action,
            is_random=is_random,
            is_spared=bool(is_hopeless) and self.plays_on,
            rewards=rewards,
            is_end=bool(after.terminated) or resigns or stopped,
            is_truncated=stopped,
            next_mover=int(after.current_player),
        )
        self.game.append(move)
        self.moves.append(move)
        if move.is_end:
            finish(self.game)
            self.begin(start_key)


def first_spared(game: list[Move]) -> int:
    """Returns the identity of the player that would have resigned first; -1 if there is none."""
    return next((move.mover for move in game if move.is_spared), -1)


def finish(game: list[Move]) -> None:
    """Records the result of a finished game."""
    for move in game:
        move.is_over = True
    if game[-1].is_truncated:
        return
    score(game)
    player, last = first_spared(game), game[-1]
    if player >= 0:
        last.is_resign_test = True
        last.is_resign_error = last.rewards[player] > -1


def score(game: list[Move]) -> None:
    """Records, from the end of a finished game backwards, the return of each mover."""
    got = [0.0, 0.0]
    for move in reversed(game):
        for player in range(2):
            got[player] += move.rewards[player]
        move.result = got[move.mover]
