"""α-rank of players, by OpenSpiel, and what is left of it under resampling."""

from typing import NamedTuple

import numpy as np

from dualmctx.ratings.results import Results, games_of, resample

# Beyond this the numbers that OpenSpiel exponentiates overflow.
_MAX_ALPHA = 300


class AlphaRank(NamedTuple):
    """α-rank of all players; payoffs are mean results in [-1, 1].

    Attributes:
      players: their names.
      mass: of each in the stationary distribution; they sum to 1.
      mean_mass: of each, over resamples.
      leads: for each the share of resamples in which its mass exceeds `threshold`.
      threshold: in [0.5, 1), so that at most one player leads.
      population: m, the size of the finite population.
      alpha: α, the intensity of selection.
      num_resamples: of the openings.
      seed: of the resampling.
    """

    players: tuple[str, ...]
    mass: tuple[float, ...]
    mean_mass: tuple[float, ...]
    leads: tuple[float, ...]
    threshold: float
    population: int
    alpha: float
    num_resamples: int
    seed: int


def alpha_rank(
    results: Results,
    *,
    population: int = 50,
    alpha: float = 100.0,
    threshold: float = 0.9,
    num_resamples: int = 200,
    seed: int = 0,
) -> AlphaRank:
    """Ranks players by α-rank, as one population under local selection.

    The payoff of a player against another is its mean result over both sides, wins less losses, in
    [-1, 1]. Between two players a mean of 0.00023 already gives a mass of 0.9 at the default α, so
    that the mass says who is ahead, neither by how much nor how surely; `leads` is for that.

    Args:
      results: of the games.
      population: m, at least 2.
      alpha: α, positive, at most 300.
      threshold: of the mass of a player that leads.
      num_resamples: of the openings, at least 1.
      seed: of the resampling.

    Returns:
      The masses, with the settings.

    Raises:
      ValueError: when two players have not met, or a setting is out of range, in one line.
      ModuleNotFoundError: when OpenSpiel is not installed, in one line.

    Source: Omidshafiei et al. 2019, "α-Rank: Multi-agent evaluation by evolution", theorem 2.1.3;
    the defaults are OpenSpiel's.
    """
    if population < 2:
        raise ValueError(f"population is {population}; it must be at least 2")
    if not 0 < alpha <= _MAX_ALPHA:
        raise ValueError(f"alpha is {alpha}; it must be positive and at most {_MAX_ALPHA}")
    if not 0.5 <= threshold < 1:
        raise ValueError(f"threshold is {threshold}; it must be at least 0.5 and below 1")
    wins, draws = games_of(results.pairs)
    strangers = np.argwhere((wins + wins.T + draws + np.eye(len(wins))) == 0)
    if len(strangers):
        one, other = (results.players[i] for i in strangers[0])
        raise ValueError(f"{one} and {other} have not met; α-rank needs games of every two players")
    rng = np.random.default_rng(seed)
    mass = _stationary(results.pairs, population, alpha)
    drawn = resample(rng, results, num_resamples)
    resampled = np.array([_stationary(pairs, population, alpha) for pairs in drawn])
    return AlphaRank(
        players=results.players,
        mass=tuple(mass.tolist()),
        mean_mass=tuple(resampled.mean(0).tolist()),
        leads=tuple((resampled > threshold).mean(0).tolist()),
        threshold=threshold,
        population=population,
        alpha=alpha,
        num_resamples=num_resamples,
        seed=seed,
    )


def payoffs(pairs: np.ndarray) -> np.ndarray:
    """Returns `[P, P]` mean results in [-1, 1], of the row's player; 0 where there is no game."""
    wins, draws = games_of(pairs)
    games = np.maximum(wins + wins.T + draws, 1)
    return (wins - wins.T) / games


def _stationary(pairs: np.ndarray, population: int, alpha: float) -> np.ndarray:
    """Returns the masses `[P]` of the stationary distribution."""
    try:
        from open_spiel.python.egt import alpharank
    except ImportError as error:
        remedy = 'pip install "dualmctx[compare]"'
        raise ModuleNotFoundError(f"α-rank needs OpenSpiel: {remedy} ({error})") from error
    # What all but surely never fixates has the probability 1 / ∞ = 0.
    with np.errstate(over="ignore"):
        mass = alpharank.compute([payoffs(pairs)], m=population, alpha=alpha)[2]
    return np.asarray(mass, float)
