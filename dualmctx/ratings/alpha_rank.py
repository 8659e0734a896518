"""α-rank of players, computed by OpenSpiel, and its variation over resampled openings."""

from typing import NamedTuple

import numpy as np

from dualmctx.checks import check
from dualmctx.errors import UserError
from dualmctx.ratings.results import Results, count_wins_and_draws, resample

POPULATION, ALPHA = 50, 100.0
"""The size m of the population and the intensity of selection α, OpenSpiel's defaults."""
_SEED = 0


class AlphaRank(NamedTuple):
    """α-rank of all players; payoffs are mean results in [-1, 1].

    Attributes:
      players: names of the players.
      mass: mass of each player in the stationary distribution; the masses sum to 1.
      mean_mass: mean mass of each player over the resamples.
      leads: for each player, the share of resamples in which its mass exceeds `threshold`.
      threshold: a mass in [0.5, 1), so that at most one player leads a resample.
      num_resamples: number of resamples of the openings.
    """

    players: tuple[str, ...]
    mass: tuple[float, ...]
    mean_mass: tuple[float, ...]
    leads: tuple[float, ...]
    threshold: float
    num_resamples: int


def alpha_rank(results: Results, *, threshold: float = 0.9, num_resamples: int = 200) -> AlphaRank:
    """Ranks players by α-rank, in a single population of 50 under local selection, with α = 100.

    The payoff of a player against another is its mean result over both sides, (wins - losses) per
    game. A mean of 0.00023 between two players already gives a mass of 0.9. The mass therefore
    shows which player is ahead, but not by how much or how certainly; `leads` measures the
    certainty.

    Args:
      results: results of the games.
      threshold: mass above which a player leads, in [0.5, 1).
      num_resamples: number of resamples of the openings, at least 1.

    Raises:
      ValueError: if two players have not met, or the threshold is out of range.
      ModuleNotFoundError: if OpenSpiel is not installed.

    Source: Omidshafiei et al. 2019, "α-Rank: Multi-agent evaluation by evolution", theorem 2.1.3.
    """
    check(0.5 <= threshold < 1, "threshold", threshold, "at least 0.5 and below 1")
    wins, draws = count_wins_and_draws(results.pairs)
    unplayed = np.argwhere((wins + wins.T + draws + np.eye(len(wins))) == 0)
    if len(unplayed):
        one, other = (results.players[i] for i in unplayed[0])
        raise UserError(f"{one} and {other} have not met; α-rank needs games of all pairings")
    samples = resample(np.random.default_rng(_SEED), results, num_resamples)
    resampled = np.array([_stationary_masses(pairs) for pairs in samples])
    return AlphaRank(
        players=results.players,
        mass=tuple(_stationary_masses(results.pairs).tolist()),
        mean_mass=tuple(resampled.mean(0).tolist()),
        leads=tuple((resampled > threshold).mean(0).tolist()),
        threshold=threshold,
        num_resamples=num_resamples,
    )


def payoffs(pairs: np.ndarray) -> np.ndarray:
    """Returns `[P, P]`, the mean result of the row's player, in [-1, 1]; 0 without games."""
    wins, draws = count_wins_and_draws(pairs)
    games = np.maximum(wins + wins.T + draws, 1)
    return (wins - wins.T) / games


def _stationary_masses(pairs: np.ndarray) -> np.ndarray:
    """Returns the masses `[P]` of the stationary distribution."""
    try:
        from open_spiel.python.egt import alpharank
    except ImportError as error:
        remedy = 'pip install "dualmctx[compare]"'
        raise ModuleNotFoundError(f"α-rank needs OpenSpiel: {remedy} ({error})") from error
    # OpenSpiel computes a negligible fixation probability as 1 / ∞ = 0.
    with np.errstate(over="ignore"):
        mass = alpharank.compute([payoffs(pairs)], m=POPULATION, alpha=ALPHA)[2]
    # Rounding errors of its eigenvectors can lie outside of [0, 1].
    return np.clip(np.asarray(mass, float), 0, 1)
