"""What the players of a tournament spent: moves, evaluations, seconds a move."""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.matches.arena import with_memory
from dualmctx.matches.game_file import Game
from dualmctx.matches.openings import Opening, as_rows, set_up_fens, split_opening
from dualmctx.matches.players import Entrant, Host
from dualmctx.types import Environment


class Usage(NamedTuple):
    """What a player spent in its games.

    Attributes:
      name: the player.
      moves: that it chose, openings apart.
      evaluations: of the network for these, by the cost of a move; `None` where that is not known.
    """

    name: str
    moves: int
    evaluations: int | None


def count_usage(entrants: Iterable[Entrant], played: Iterable[Game]) -> list[Usage]:
    """Counts what each player spent."""
    rows = list(played)
    return [_usage_of(entrant, rows) for entrant in entrants]


def _usage_of(entrant: Entrant, rows: list[Game]) -> Usage:
    moves = sum(
        number
        for game in rows
        for name, number in zip(game.players, game.num_chosen, strict=True)
        if name == entrant.name
    )
    each = entrant.cost and entrant.cost.evaluations
    return Usage(entrant.name, moves, None if each is None else moves * each)


def sample_positions(played: Iterable[Game], number: int, seed: int) -> list[Opening]:
    """Draws positions in which somebody had to choose, a random one of a random game each.

    Args:
      played: the games, in some of which somebody chose.
      number: of positions.
      seed: of the draws.

    Returns:
      What leads to each.
    """
    rng = np.random.default_rng(seed)
    rows = [game for game in played if len(game.moves) > game.opening]
    chosen = (rows[i] for i in rng.integers(len(rows), size=number))
    return [game.history(rng.integers(game.opening, len(game.moves))) for game in chosen]


def seconds_a_move(
    env: Environment, entrant: Entrant, histories: Sequence[Opening], *, repeats: int = 3
) -> float:
    """Measures the time of a move by itself, in a batch of positions; compiling apart.

    Args:
      env: the game.
      entrant: the player; one with a tree of the move before starts without it.
      histories: what leads to each of the positions, in none of which the game is over.
      repeats: of the measurement, of which the median is taken.

    Returns:
      Seconds of the batch by the number of positions.
    """
    number = len(histories)
    player = entrant.player
    if isinstance(player, Host):
        moves = [list(split_opening(history)[1]) for history in histories]
        seeds = list(range(number))
        return _median(lambda: player.choose(moves, seeds), repeats) / number
    states, _ = games.replay_checked(env, as_rows(histories), set_up_fens(env, histories))
    player = with_memory(player)
    memory = player.start(entrant.params, states)
    keys = jax.random.split(jax.random.PRNGKey(0), number)
    choose = jax.jit(player.choose)
    given = entrant.params, keys, states, memory
    jax.block_until_ready(choose(*given))
    return _median(lambda: jax.block_until_ready(choose(*given)), repeats) / number


def _median(run: Any, repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))
