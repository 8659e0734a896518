"""Games that an engine plays against itself, with random openings and random moves."""

import functools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.matches.host_games import choose_legal
from dualmctx.matches.players import ChooseFn
from dualmctx.types import Environment, Failure
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
    return select_rows(rows, (starts, zeros), (states, results))


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


# Openings are sampled again at most this often if the game is over after them.
_MAX_ATTEMPTS = 100


class PlayOptions(NamedTuple):
    """How games are played.

    Attributes:
      seed: seed of all games. A game depends on the seed and its number only.
      opening_plies: a game begins with random moves, as many as one of these numbers.
      random_share: share of random moves after the opening, in [0, 1).
      max_plies: largest length of a game; a longer game has no result.
    """

    seed: int = 0
    opening_plies: tuple[int, ...] = (0,)
    random_share: float = 0.0
    max_plies: int = 1024


class PlayedGame(NamedTuple):
    """A game of an engine, with its number from 0; a line of a file of games.

    Attributes:
      moves: the actions.
      random: plies, from 0, of the random moves.
      result: result of the first side; `None` if the game was cut short or the engine failed.
      error: the reason why the engine failed; `None` if it did not.
      opening: number of further moves at the start that are not learned.
    """

    number: int
    moves: list[int]
    random: list[int]
    result: float | None
    error: str | None = None
    opening: int = 0

    def to_json(self, game: str, game_parameters: dict[str, Any]) -> dict[str, Any]:
        """Returns the fields with the game and its parameters; error and opening only if set."""
        about = {"number": self.number, "game": game, "game_parameters": game_parameters}
        fields = about | self._asdict()
        unset = {"error": None, "opening": 0}
        return {name: x for name, x in fields.items() if (name, x) not in unset.items()}


class _Game:
    """A game in progress."""

    def __init__(self, number: int, options: PlayOptions) -> None:
        self.number, self.options, self.attempt = number, options, -1
        self.error: str | None = None
        self.resigned: float | None = None
        self.restart()

    def restart(self) -> None:
        """Samples the length of the opening."""
        self.attempt += 1
        # Text as a seed gives the same numbers in all versions of Python.
        self.rng = random.Random(f"{self.options.seed}-{self.number}-{self.attempt}")
        self.opening = self.rng.choice(self.options.opening_plies)
        self.moves: list[int] = []
        self.random: list[int] = []

    def sample(self, legal: np.ndarray) -> tuple[int | None, int]:
        """Returns a random move, or `None` if the engine is to choose, and a seed."""
        share, seed = self.rng.random(), self.rng.getrandbits(31)
        if len(self.moves) >= self.opening and share >= self.options.random_share:
            return None, seed
        return int(np.random.default_rng(seed).choice(np.flatnonzero(legal))), seed

    @property
    def is_stopped(self) -> bool:
        """Whether the engine has resigned or failed."""
        return self.error is not None or self.resigned is not None

    @property
    def is_opening(self) -> bool:
        """Whether the engine has chosen no move yet; another opening can be sampled."""
        return len(self.random) == len(self.moves) and self.attempt < _MAX_ATTEMPTS


def play_games(
    env: Environment,
    choose: ChooseFn,
    numbers: Sequence[int],
    options: PlayOptions,
    *,
    size: int | None = None,
) -> list[PlayedGame]:
    """Plays games side by side.

    Args:
      env: a game of `games.make`.
      choose: chooses the moves of both sides.
      numbers: the numbers of the games.
      options: the options.
      size: number of games to which the batch is padded; by default their number. Each size
        compiles programs of its own.

    Returns:
      The games. A game in which the engine fails or makes an illegal move has an error.
    """
    played = [_Game(number, options) for number in numbers]
    size = size or len(played)
    states, results = start(env, size)
    while True:
        view: View = jax.device_get(look(states, results))
        again = [row for row, game in enumerate(played) if game.is_opening and view.is_over[row]]
        if again:
            for row in again:
                played[row].restart()
            states, results = restart(env, states, results, np.isin(np.arange(size), again))
            continue
        rows = [
            row
            for row, game in enumerate(played)
            if not view.is_over[row] and not game.is_stopped and len(game.moves) < options.max_plies
        ]
        if not rows:
            return [_finish(game, view, row) for row, game in enumerate(played)]
        actions = np.full(size, -1, np.int32)
        actions[rows] = _moves(env, choose, played, rows, view)
        states, results = step(env, states, results, actions)


def _moves(
    env: Environment, choose: ChooseFn, played: list[_Game], rows: list[int], view: View
) -> list[int]:
    """Returns a move for each of the given rows; -1 where the game ends instead."""
    sampled = {row: played[row].sample(view.legal[row]) for row in rows}
    asked = [row for row, (move, _) in sampled.items() if move is None]
    histories = [list(played[row].moves) for row in asked]
    seeds = [sampled[row][1] for row in asked]
    answers = choose_legal(env, choose, histories, seeds, view.legal[asked])
    for row, answer in zip(asked, answers, strict=True):
        _take(played[row], answer, view.is_first[row])
    for row, (move, _) in sampled.items():
        if move is not None:
            played[row].random.append(len(played[row].moves))
            played[row].moves.append(move)
    return [-1 if played[row].is_stopped else played[row].moves[-1] for row in rows]


def _take(game: _Game, answer: int | Failure, is_first: Any) -> None:
    """Plays the answer of an engine, or ends the game."""
    if not isinstance(answer, Failure):
        game.moves.append(int(answer))
    elif answer.kind == "resigned":
        game.resigned = -1.0 if is_first else 1.0
    else:
        game.error = answer.message


def _finish(game: _Game, view: View, row: int) -> PlayedGame:
    result = float(view.result[row]) if view.has_result[row] else game.resigned
    result = None if game.error is not None else result
    return PlayedGame(game.number, game.moves, game.random, result, game.error)
