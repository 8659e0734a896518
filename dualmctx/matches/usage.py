"""What the players of a tournament spent: moves, simulations, evaluations, seconds a move."""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.matches.arena import with_memory
from dualmctx.matches.entrants import Entrant, Host
from dualmctx.matches.game_file import Game
from dualmctx.matches.openings import as_rows


class Usage(NamedTuple):
    """What a player spent, by the cost of its moves; `None` where that is not known.

    Attributes:
      name: the player.
      games: that it played.
      moves: that it chose, openings apart.
      simulations: of all these moves.
      evaluations: of the network, roots apart; see `MoveCost`.
      blocks: of the network, likewise.
    """

    name: str
    games: int
    moves: int
    simulations: int | None
    evaluations: int | None
    blocks: int | None


def count_usage(entrants: Iterable[Entrant], played: Iterable[Game]) -> list[Usage]:
    """Counts what each player spent."""
    rows = list(played)
    return [_usage_of(entrant, rows) for entrant in entrants]


def _usage_of(entrant: Entrant, rows: list[Game]) -> Usage:
    chosen = [
        number
        for game in rows
        for name, number in zip(game.players, game.num_chosen, strict=True)
        if name == entrant.name
    ]
    moves, cost = sum(chosen), entrant.cost
    simulations, evaluations, blocks = (
        None if x is None else moves * x for x in cost or (None,) * 3
    )
    return Usage(entrant.name, len(chosen), moves, simulations, evaluations, blocks)


def sample_positions(played: Iterable[Game], number: int, seed: int) -> list[tuple[int, ...]]:
    """Draws positions in which somebody had to choose, a random one of a random game each.

    Args:
      played: the games, in some of which somebody chose.
      number: of positions.
      seed: of the draws.

    Returns:
      The actions that lead to each.
    """
    rng = np.random.default_rng(seed)
    rows = [game for game in played if len(game.moves) > game.opening]
    chosen = (rows[i] for i in rng.integers(len(rows), size=number))
    return [game.moves[: rng.integers(game.opening, len(game.moves))] for game in chosen]


def seconds_a_move(
    env: Any, entrant: Entrant, histories: Sequence[Sequence[int]], *, repeats: int = 3
) -> float:
    """Measures the time of a move by itself, in a batch of positions; compiling apart.

    Args:
      env: the game.
      entrant: the player; one with a tree of the move before starts without it.
      histories: the actions that lead to each of the positions, none of which is over.
      repeats: of the measurement, of which the median is taken.

    Returns:
      Seconds of the batch by the number of positions.
    """
    number = len(histories)
    player = entrant.player
    if isinstance(player, Host):
        moves, seeds = [list(history) for history in histories], list(range(number))
        return _median(lambda: player.choose(moves, seeds), repeats) / number
    states = games.replay(env, as_rows(histories))
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
