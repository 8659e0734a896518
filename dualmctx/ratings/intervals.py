"""Intervals of differences in strength from few openings; docs/compare.md has their coverage."""

import numpy as np
import scipy.stats


def half_widths(errors: np.ndarray, openings: np.ndarray, level: float) -> np.ndarray:
    """Returns half the widths of Student's t intervals.

    Args:
      errors: `[...]` standard errors as `robust_errors` gives them.
      openings: `[...]` effective numbers of openings, likewise; the degrees of freedom are one
        less.
      level: of the intervals, in (0, 1).

    Returns:
      `[...]`, infinite for one opening, which says nothing of how far the next one may be.
    """
    quantiles = scipy.stats.t.ppf((1 + level) / 2, np.maximum(openings - 1, np.finfo(float).eps))
    return np.where(np.isnan(errors), np.inf, quantiles * np.nan_to_num(errors))


def unseen_pairs(num_pairs: np.ndarray, level: float) -> np.ndarray:
    """Returns how many pairs a player that lost none of n may plausibly have lost in more games.

    A share of p = ((1 - level) / 2)^(1/n) of won pairs is the least that makes n pairs won in a row
    as likely as a tail of the interval. n won and n (1/p - 1) lost ones have this share.

    Args:
      num_pairs: `[...]` n, 0 where none were played.
      level: of the interval, in (0, 1).

    Returns:
      `[...]`: about ln(2 / (1 - level)) where n is large, the rule of three, and more below.

    Source: Clopper, Pearson 1934; Hanley, Lippman-Hand 1983, "If nothing goes wrong, is everything
    all right?".
    """
    number = np.maximum(num_pairs, 1)
    return np.where(num_pairs > 0, number * ((2 / (1 - level)) ** (1 / number) - 1), 0.0)


def add_unseen(wins: np.ndarray, played: np.ndarray, games_a_pair: int, level: float) -> np.ndarray:
    """Adds `unseen_pairs` to each player in turn.

    Args:
      wins: `[P, P]` games that i won against j.
      played: `[P, P]` games of i with j in proportion to which the new ones are shared out.
      games_a_pair: of one player.
      level: see `unseen_pairs`.

    Returns:
      `[2, P, P, P]` games won: at `[0, i]` as if player i had lost more, at `[1, i]` as if it had
      won more.
    """
    number = played.sum(1, keepdims=True)
    more = games_a_pair * unseen_pairs(number / games_a_pair, level)
    # A table for each player, with games won against others in its row.
    won = np.eye(len(wins))[:, :, None] * (more * played / np.maximum(number, 1))
    return wins + np.stack([np.swapaxes(won, 1, 2), won])
