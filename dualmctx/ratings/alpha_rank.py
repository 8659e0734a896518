"""α-rank of players, computed by OpenSpiel, and its variation over resampled openings."""

from typing import NamedTuple

import numpy as np

from dualmctx.checks import check
from dualmctx.errors import UserError
from dualmctx.ratings.results import Results, count_wins_and_draws, resample

# OpenSpiel's exponentials overflow for larger values.
_MAX_ALPHA = 300


class AlphaRank(NamedTuple):
    """α-rank of all players; payoffs are mean results in [-1, 1].

    Attributes:
      players: names of the players.
      mass: mass of each player in the stationary distribution; the masses sum to 1.
      mean_mass: mean mass of each player over the resamples.
      leads: for each player, the share of resamples in which its mass exceeds `threshold`.
      threshold: a mass in [0.5, 1), so that at most one player leads a resample.
      population: m, the size of the finite population.
      alpha: α, the intensity of selection.
      num_resamples: number of resamples of the openings.
      seed: seed of the resampling.
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
    """Ranks players by α-rank, in a single population under local selection.

    The payoff of a player against another is its mean result over both sides, (wins - losses) per
    game, in [-1, 1]. At the default α, a mean of 0.00023 between two players already gives a mass
    of 0.9. The mass therefore shows which player is ahead, but not by how much or how certainly;
    `leads` measures the certainty.

    Args:
      results: results of the games.
      population: m, at least 2.
      alpha: α, positive, at most 300.
      threshold: mass above which a player leads, in [0.5, 1).
      num_resamples: number of resamples of the openings, at least 1.
      seed: seed of the resampling.

    Raises:
      ValueError: if two players have not met, or a setting is out of range.
      ModuleNotFoundError: if OpenSpiel is not installed.

    Source: Omidshafiei et al. 2019, "α-Rank: Multi-agent evaluation by evolution", theorem 2.1.3;
    the defaults are OpenSpiel's.
    """
    check(population >= 2, "population", population, "at least 2")
    check(0 < alpha <= _MAX_ALPHA, "alpha", alpha, f"positive and at most {_MAX_ALPHA}")
    check(0.5 <= threshold < 1, "threshold", threshold, "at least 0.5 and below 1")
    wins, draws = count_wins_and_draws(results.pairs)
    unplayed = np.argwhere((wins + wins.T + draws + np.eye(len(wins))) == 0)
    if len(unplayed):
        one, other = (results.players[i] for i in unplayed[0])
        raise UserError(f"{one} and {other} have not met; α-rank needs games of all pairings")
    rng = np.random.default_rng(seed)
    mass = _stationary_masses(results.pairs, population, alpha)
    samples = resample(rng, results, num_resamples)
    resampled = np.array([_stationary_masses(pairs, population, alpha) for pairs in samples])
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
    """Returns `[P, P]`, the mean result of the row's player, in [-1, 1]; 0 without games."""
    wins, draws = count_wins_and_draws(pairs)
    games = np.maximum(wins + wins.T + draws, 1)
    return (wins - wins.T) / games


def _stationary_masses(pairs: np.ndarray, population: int, alpha: float) -> np.ndarray:
    """Returns the masses `[P]` of the stationary distribution."""
    try:
        from open_spiel.python.egt import alpharank
    except ImportError as error:
        remedy = 'pip install "dualmctx[compare]"'
        raise ModuleNotFoundError(f"α-rank needs OpenSpiel: {remedy} ({error})") from error
    # OpenSpiel computes a negligible fixation probability as 1 / ∞ = 0.
    with np.errstate(over="ignore"):
        mass = alpharank.compute([payoffs(pairs)], m=population, alpha=alpha)[2]
    # Rounding errors of its eigenvectors can lie outside of [0, 1].
    return np.clip(np.asarray(mass, float), 0, 1)
