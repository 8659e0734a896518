"""How many simulations AlphaZero makes in the time of a move of Dual, as measured here."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from dualmctx.model import make_search_fn
from dualmctx.reproduction.experiments import Algorithm, GameRow, Size, alphazero
from dualmctx.reproduction.steps import Learning, make_learning
from dualmctx.selfplay import Games, make_play, start_games

# Plies of self-play that are timed at once, and how often; how many of these go before, as games
# are in all their stages then.
_PLIES, _REPEATS, _BEFORE = 4, 5, 8


class EqualSeconds(NamedTuple):
    """What was measured.

    Attributes:
      simulations: of AlphaZero, as many as take the time of Dual.
      dual: seconds a move of Dual in a batch of self-play, by the batch.
      budgets: AlphaZero's that were measured.
      seconds: of each.
    """

    simulations: int
    dual: float
    budgets: tuple[int, int]
    seconds: tuple[float, float]


def measure(algorithms: dict[str, Algorithm], row: GameRow, size: Size) -> EqualSeconds:
    """Measures the self-play of both searches, in turns and from the same games in progress.

    The networks are untrained. Compiling is in no time.
    """
    names = ("alphazero-cost", "alphazero", "dual-best")
    made = [make_learning(name, algorithms[name], row, size) for name in names]
    keys = jax.random.split(jax.random.PRNGKey(0), size.num_games)
    start = start_games(made[0].env, keys, made[0].config.selfplay)
    plays = [_compile_play(learning, start) for learning in made]
    games = start
    for _ in range(_BEFORE):
        games = plays[-1](games)
    rows = [[_seconds(play, games) for play in plays] for _ in range(_REPEATS)]
    less, more, dual = (np.median(rows, axis=0) / (_PLIES * size.num_games)).tolist()
    budgets = (made[0].algorithm.cost.simulations, made[1].algorithm.cost.simulations)
    return EqualSeconds(interpolate(budgets, (less, more), dual), dual, budgets, (less, more))


def equal_algorithm(found: EqualSeconds, size: Size) -> Algorithm:
    """Makes the AlphaZero that takes as long as Dual."""
    return alphazero(found.simulations, size)


def _compile_play(learning: Learning, games: Games) -> Callable[[Games], Games]:
    """Compiles a few plies of self-play; each call plays on from the games given."""
    config = learning.config
    search_fn = make_search_fn(learning.env, learning.network, config.search, **learning.options)
    play_fn = make_play(
        learning.env, search_fn, dataclasses.replace(config.selfplay, num_steps=_PLIES)
    )
    params = learning.init(0).params
    keys = jax.random.split(jax.random.PRNGKey(1), config.selfplay.num_games)
    play: Any = jax.jit(lambda *args: play_fn(*args)[0]).lower(params, keys, games).compile()
    return lambda games: jax.block_until_ready(play(params, keys, games))


def _seconds(play: Callable[[Games], Games], games: Games) -> float:
    start = time.perf_counter()
    play(games)
    return time.perf_counter() - start


def interpolate(budgets: tuple[int, int], seconds: tuple[float, float], wanted: float) -> int:
    """Returns the budget that takes the wanted time, by the line through two measurements."""
    (less, more), (quick, slow) = budgets, seconds
    a_simulation = (slow - quick) / max(more - less, 1)
    if a_simulation <= 0:
        return less
    return min(max(1, round(less + (wanted - quick) / a_simulation)), 2 * more)
