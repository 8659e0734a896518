"""Resources of the players of a tournament: their budgets, and the seconds of a move."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from dualmctx.matches.game_file import Game
from dualmctx.matches.openings import Opening, open_openings
from dualmctx.matches.players import HostMover, Player, as_mover, jit_choose
from dualmctx.models.costs import Measured, Simulations
from dualmctx.types import Environment

SIMULATIONS, NETWORK, SECONDS = "simulations", "network", "seconds"
"""The rules by which budgets are equal."""


@dataclasses.dataclass(frozen=True)
class Budget:
    """The simulations of a player.

    Attributes:
      asked: requested simulations, before scaling, one number per tree; `None` if the player has
        none.
      simulations: simulations after scaling.
      target: the cost to which they are scaled, in blocks or seconds per move; `None` without
        scaling.
      measured: all time measurements; the last one is for `simulations`.
    """

    asked: Simulations | None
    simulations: Simulations | None
    target: float | None = None
    measured: tuple[Measured, ...] = ()


@dataclasses.dataclass(frozen=True)
class Budgets:
    """The budgets of all players.

    Attributes:
      rule: `simulations`, `network` or `seconds`.
      reference: the player to whose cost the others are scaled; `None` without scaling.
      target: the cost of the reference, in blocks or seconds per move.
      players: budget of each player, by name.
    """

    rule: str
    reference: str | None
    target: float | None
    players: dict[str, Budget]


# No measurement begins after this many seconds; the number of measurements.
_MAX_SECONDS, _REPEATS = 10, 3


def sample_positions(played: Iterable[Game], number: int, seed: int) -> list[Opening]:
    """Samples positions of chosen moves: for each, a random game and a random position in it.

    In a game without a chosen move, it is the opening. Returns the histories of the positions.
    """
    rng = np.random.default_rng(seed)
    rows = list(played)
    chosen = (rows[i] for i in rng.integers(len(rows), size=number))
    ends = ((game, max(len(game.moves), game.opening + 1)) for game in chosen)
    return [game.history(rng.integers(game.opening, end)) for game, end in ends]


def seconds_per_move(env: Environment, player: Player, histories: Sequence[Opening]) -> float:
    """Measures the time of a move in a batch of positions, without compilation.

    Args:
      env: the game.
      player: the player; a player that reuses trees starts without one.
      histories: actions that lead to the positions; the game must not be over in any of them.

    Returns:
      The seconds of the batch divided by the number of positions: the median of three measurements,
      or of fewer if they take more than 10 seconds.
    """
    number = len(histories)
    mover = player.mover
    if isinstance(mover, HostMover):
        moves, seeds = list(map(list, histories)), list(range(number))

        def choose_anew() -> None:
            mover.begin()
            mover.choose(moves, seeds)

        return _median_seconds(choose_anew) / number
    states = jax.device_put(open_openings(env, histories).states_on_host)
    memory = as_mover(mover).start(player.params, states)
    keys = jax.random.split(jax.random.PRNGKey(0), number)
    choose = jit_choose(mover)
    args = player.params, keys, states, memory
    jax.block_until_ready(choose(*args))
    return _median_seconds(lambda: jax.block_until_ready(choose(*args))) / number


def _median_seconds(run: Callable[[], Any]) -> float:
    seconds: list[float] = []
    while len(seconds) < _REPEATS and sum(seconds) < _MAX_SECONDS:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))
