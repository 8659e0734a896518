"""How many simulations AlphaZero makes in the time of a move of Dual, as measured here."""

import itertools
from typing import NamedTuple

from dualmctx.matches.entrants import engine
from dualmctx.matches.usage import seconds_a_move
from dualmctx.reproduction.experiments import Algorithm, GameRow, Size, alphazero
from dualmctx.reproduction.matches import make_openings
from dualmctx.reproduction.steps import Learning, make_learning


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
    """Measures both searches on positions of a batch of self-play, compiling apart."""
    names = ("alphazero-cost", "alphazero", "dual-best")
    made = [make_learning(name, algorithms[name], row, size) for name in names]
    openings = make_openings(made[0].env, row, size, seed=0)
    histories = list(itertools.islice(itertools.cycle(openings), size.num_games))
    less, more, dual = (_seconds(learning, histories) for learning in made)
    budgets = (made[0].algorithm.cost.simulations, made[1].algorithm.cost.simulations)
    return EqualSeconds(interpolate(budgets, (less, more), dual), dual, budgets, (less, more))


def equal_algorithm(found: EqualSeconds, size: Size) -> Algorithm:
    """Makes the AlphaZero that takes as long as Dual."""
    return alphazero(found.simulations, size)


def _seconds(learning: Learning, histories: list) -> float:
    params = learning.init(0).params
    options = learning.options
    player = engine(
        learning.name, learning.env, learning.network, params, learning.config.search, **options
    )
    return seconds_a_move(learning.env, player, histories, repeats=5)


def interpolate(budgets: tuple[int, int], seconds: tuple[float, float], wanted: float) -> int:
    """Returns the budget that takes the wanted time, by the line through two measurements."""
    (less, more), (quick, slow) = budgets, seconds
    a_simulation = (slow - quick) / max(more - less, 1)
    if a_simulation <= 0:
        return less
    return min(max(1, round(less + (wanted - quick) / a_simulation)), 2 * more)
