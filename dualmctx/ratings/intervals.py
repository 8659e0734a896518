"""Strengths of players by Davidson's model of games with draws, and intervals of estimates.

docs/compare.md lists the coverage of the intervals.
"""

import numpy as np
from scipy import special

# Newton's method: maximum number of steps, maximum step length, and tolerance per game.
_MAX_STEPS, _MAX_STEP_LENGTH, _TOLERANCE = 100, 2.0, 1e-10
# Keeps the equations solvable if the results do not determine a strength.
_RIDGE = 1e-9
# Tolerance for an effective number of openings of 1.
_ONE = 1e-6


def fit(wins: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fits the strengths of players and the share of draws.

    The model has a strength θ per player and one parameter ν:
        P(i wins) : P(j wins) : P(draw) = e^θ_i : e^θ_j : ν e^((θ_i + θ_j) / 2)
    The log-likelihood is concave in (θ, log ν), so Newton's method finds its maximum. A player who
    won all games gets a large but finite strength; see `bounded_from_below`. A weak prior on ν is
    added, one game between equal players, half of it drawn: without it, the likelihood of wins and
    draws without a loss is largest at an infinite difference and an infinite ν, so such results
    would carry no information.

    Args:
      wins: `[..., P, P]` games that i won against j, at `[i, j]`.
      draws: `[..., P, P]` games that they drew, symmetric.

    Returns:
      `[..., P]` strengths θ with mean 0, and `[...]` the share of draws between equal players,
      ν / (2 + ν).

    Source: Davidson 1970; Newman 2023, "Efficient computation of rankings from pairwise
    comparisons", section 4.
    """
    num_players = wins.shape[-1]
    games = wins + np.swapaxes(wins, -1, -2) + draws
    points, num_draws = (wins + draws / 2).sum(-1), draws.sum((-1, -2)) / 2
    scale = 1 + games.sum((-1, -2))
    x = np.zeros((*wins.shape[:-2], num_players + 1))
    for _ in range(_MAX_STEPS):
        expected, information = _derivatives(x, games)
        gradient = np.concatenate([points, num_draws[..., None]], -1) - expected
        draw_rate = _draw_rate(x)
        gradient[..., -1] += 0.5 - draw_rate
        information[..., -1, -1] += draw_rate * (1 - draw_rate)
        if np.all(np.abs(gradient) < _TOLERANCE * scale[..., None]):
            break
        information += _RIDGE * scale[..., None, None] * np.eye(num_players + 1)
        step = np.linalg.solve(information, gradient[..., None])[..., 0]
        longest = np.abs(step).max(-1, keepdims=True)
        x += step * np.minimum(1, _MAX_STEP_LENGTH / np.maximum(longest, _MAX_STEP_LENGTH))
    strengths = x[..., :-1]
    return strengths - strengths.mean(-1, keepdims=True), _draw_rate(x)


def _draw_rate(x: np.ndarray) -> np.ndarray:
    """Returns the share of draws between equal players, `[...]`."""
    return 1 / (1 + 2 * np.exp(-x[..., -1]))


def _derivatives(x: np.ndarray, games: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns expected points and draws `[..., P + 1]`, and the information matrix.

    `x` are `[..., P + 1]` strengths and log ν, `games` `[..., P, P]` games played, symmetric.
    """
    strengths, log_ratio = x[..., :-1], x[..., -1, None, None]
    half = (strengths[..., :, None] - strengths[..., None, :]) / 2
    total = np.exp(half) + np.exp(-half) + np.exp(log_ratio)
    win, draw = np.exp(half) / total, np.exp(log_ratio) / total
    score = win + draw / 2
    variance = games * (win + draw / 4 - score**2)
    expected = np.concatenate(
        [(games * score).sum(-1), (games * draw).sum((-1, -2))[..., None] / 2], -1
    )
    mixed = (games * draw * (0.5 - score)).sum(-1)
    draw_information = (games * draw * (1 - draw)).sum((-1, -2)) / 2
    information = np.zeros((*x.shape, x.shape[-1]))
    # The points of both players of a game have a constant sum.
    information[..., :-1, :-1] = variance.sum(-1)[..., None] * np.eye(games.shape[-1]) - variance
    information[..., :-1, -1] = information[..., -1, :-1] = mixed
    information[..., -1, -1] = draw_information
    return expected, information


def robust_errors(
    strengths: np.ndarray,
    draw_rate: float,
    wins: np.ndarray,
    draws: np.ndarray,
    contrasts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates standard errors of differences of fitted strengths, clustered by opening.

    Games from the same opening may depend on each other; games from different openings are assumed
    to be independent. Let I be the information of all games, and s_o and I_o the score and the
    information of opening o. The opening contributes u_o = c·I⁻¹ s_o to the difference c·θ, with
    weight v_o = c·I⁻¹ I_o I⁻¹ c. The variance is n / (n - 1) · Σ (u_o - v_o Σu / Σv)², where
    n = (Σv)² / Σv² is the effective number of openings. It equals C if all openings have the same
    weight.

    Args:
      strengths: `[P]` strengths returned by `fit` for all games.
      draw_rate: share of draws returned by `fit` for all games.
      wins: `[C, P, P]` games from each opening that i won against j.
      draws: `[C, P, P]` games that they drew, symmetric.
      contrasts: `[K, P]` contrasts c, each with sum 0; 0 for players of undetermined strength.

    Returns:
      `[K]` standard errors, NaN for a single opening, and `[K]` effective numbers n. Both are 0
      for a contrast of zeros.

    Source: Liang, Zeger 1986, "Longitudinal data analysis using generalized linear models".
    """
    num_openings, num_players = wins.shape[0], wins.shape[-1]
    games = wins + np.swapaxes(wins, -1, -2) + draws
    x = np.append(strengths, np.log(2 * draw_rate / (1 - draw_rate)))
    expected, information = _derivatives(np.tile(x, (num_openings, 1)), games)
    total = information.sum(0)
    total[-1, -1] += draw_rate * (1 - draw_rate)
    total += _RIDGE * (1 + games.sum()) * np.eye(num_players + 1)
    weights = np.linalg.solve(total, np.pad(contrasts, ((0, 0), (0, 1))).T)
    points = (wins + draws / 2).sum(-1)
    scores = np.append(points, draws.sum((-1, -2))[:, None] / 2, -1) - expected
    parts = scores @ weights
    shares = np.einsum("ik,cij,jk->ck", weights, information, weights)
    shares /= np.maximum(shares.sum(0), np.finfo(float).tiny)
    number = 1 / np.maximum((shares**2).sum(0), np.finfo(float).tiny) * shares.any(0)
    parts -= parts.sum(0) * shares
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (parts**2).sum(0) * number / (number - 1)
    variance = np.where(number > 1 + _ONE, variance, np.where(number > 0, np.nan, 0))
    return np.sqrt(variance), number


def bounded_from_below(wins: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Returns which strengths bound which other strengths from below.

    Player j bounds player i from below if i has won or drawn a game against j, or against a player
    bounded from below by j. The difference of two strengths is finite if and only if each player
    bounds the other.

    Args:
      wins: see `fit`.
      draws: see `fit`.

    Returns:
      `[..., P, P]` bool, true at `[i, j]` if j bounds i from below; true on the diagonal.

    Source: Ford 1957, "Solution of a ranking problem from binary comparisons".
    """
    found = (wins + draws > 0) | np.eye(wins.shape[-1], dtype=bool)
    for _ in range((wins.shape[-1] - 1).bit_length()):
        paths = found.astype(np.float32)
        found = paths @ paths > 0
    return found


def relative_strengths(
    strengths: np.ndarray, bounds: np.ndarray, is_anchor: np.ndarray
) -> np.ndarray:
    """Returns strengths relative to the mean of the anchors.

    Args:
      strengths: `[..., P]` fitted strengths.
      bounds: `[..., P, P]` returned by `bounded_from_below`.
      is_anchor: `[P]` bool, the players whose mean becomes 0.

    Returns:
      `[..., P]` strengths: infinite if the results bound them from one side only, NaN if they bound
      them from neither side.
    """
    from_below = bounds[..., :, is_anchor].all(-1)
    from_above = bounds[..., is_anchor, :].all(-2)
    finite = strengths - strengths[..., is_anchor].mean(-1, keepdims=True)
    open_ended = np.where(from_below, np.inf, np.where(from_above, -np.inf, np.nan))
    return np.where(from_below & from_above, finite, open_ended)


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
    freedom = np.maximum(openings - 1, np.finfo(float).eps)
    quantiles = special.stdtrit(freedom, (1 + level) / 2)
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
      `[2, P, P, P]` games won: at `[0, i]` with additional losses, at `[1, i]` with additional wins
      of player i.
    """
    number = played.sum(1, keepdims=True)
    more = games_per_pair * unseen_pairs(number / games_per_pair, level)
    # One table per player, with its additional wins in the row of the player.
    won = np.eye(len(wins))[:, :, None] * (more * played / np.maximum(number, 1))
    return wins + np.stack([np.swapaxes(won, 1, 2), won])


def wilson_interval(share: float, number: int) -> tuple[float, float]:
    """Returns Wilson's 95 % interval of a share of independent trials.

    The share may be the mean of results of 0, ½ and 1. Their variance is at most that of results of
    0 and 1, share (1 - share), so draws make the interval wider than necessary.

    Args:
      share: the share of successes, in [0, 1].
      number: number of trials, at least 1.

    Returns:
      The ends of the interval, in [0, 1].

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    z = float(special.ndtri(0.975))
    middle = (share + z**2 / (2 * number)) / (1 + z**2 / number)
    spread = (share * (1 - share) / number + z**2 / (4 * number**2)) ** 0.5
    half = z * spread / (1 + z**2 / number)
    return max(middle - half, 0.0), min(middle + half, 1.0)
