"""Intervals of differences in strength and of shares; docs/compare.md lists their coverage."""

import numpy as np
import scipy.stats


def half_widths(errors: np.ndarray, openings: np.ndarray, level: float) -> np.ndarray:
    """Returns half the widths of Student's t intervals.

    Args:
      errors: `[...]` standard errors of `robust_errors`.
      openings: `[...]` effective numbers of openings of `robust_errors`; the degrees of freedom
        are one less.
      level: confidence level of the intervals, in (0, 1).

    Returns:
      `[...]` half widths; infinite for one opening, from which no variance can be estimated.
    """
    quantiles = scipy.stats.t.ppf((1 + level) / 2, np.maximum(openings - 1, np.finfo(float).eps))
    return np.where(np.isnan(errors), np.inf, quantiles * np.nan_to_num(errors))


def unseen_pairs(num_pairs: np.ndarray, level: float) -> np.ndarray:
    """Returns the number of lost pairs that is still plausible after n pairs without a loss.

    If the probability of winning a pair is p = ((1 - level) / 2)^(1/n), then n won pairs in a row
    are as likely as one tail of the interval. With n (1/p - 1) lost pairs besides the n won ones,
    the share of won pairs is p.

    Args:
      num_pairs: `[...]` n; 0 if no pairs were played.
      level: confidence level of the interval, in (0, 1).

    Returns:
      `[...]` numbers of pairs: about ln(2 / (1 - level)) for large n (the rule of three), larger
      for small n.

    Source: Clopper, Pearson 1934; Hanley, Lippman-Hand 1983, "If nothing goes wrong, is everything
    all right?".
    """
    number = np.maximum(num_pairs, 1)
    return np.where(num_pairs > 0, number * ((2 / (1 - level)) ** (1 / number) - 1), 0.0)


def add_unseen_pairs(
    wins: np.ndarray, played: np.ndarray, games_per_pair: int, level: float
) -> np.ndarray:
    """Adds `unseen_pairs` lost or won pairs to the results of one player, for each player.

    Args:
      wins: `[P, P]` games that i won against j.
      played: `[P, P]` games of i against j; the added games are distributed in proportion to them.
      games_per_pair: number of games of a player in one pair.
      level: see `unseen_pairs`.

    Returns:
      `[2, P, P, P]` games won: at `[0, i]` with additional losses of player i, at `[1, i]` with
      additional wins of player i.
    """
    number = played.sum(1, keepdims=True)
    more = games_per_pair * unseen_pairs(number / games_per_pair, level)
    # One table per player, with its additional wins in the row of the player.
    won = np.eye(len(wins))[:, :, None] * (more * played / np.maximum(number, 1))
    return wins + np.stack([np.swapaxes(won, 1, 2), won])


def wilson_interval(share: float, number: int, level: float = 0.95) -> tuple[float, float]:
    """Returns Wilson's interval of a share of independent trials.

    The share may be the mean of results of 0, ½ and 1. Their variance is at most that of results of
    0 and 1, share (1 - share), so draws make the interval wider than necessary.

    Args:
      share: the share of successes, in [0, 1].
      number: number of trials, at least 1.
      level: confidence level, in (0, 1).

    Returns:
      The ends of the interval, in [0, 1].

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    z = float(scipy.stats.norm.ppf((1 + level) / 2))
    middle = (share + z**2 / (2 * number)) / (1 + z**2 / number)
    spread = (share * (1 - share) / number + z**2 / (4 * number**2)) ** 0.5
    half = z * spread / (1 + z**2 / number)
    return max(middle - half, 0.0), min(middle + half, 1.0)
