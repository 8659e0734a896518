"""The sentences of a report: who leads, who cannot be told apart, and what may mislead."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from dualmctx.matches.game_file import Game
from dualmctx.matches.openings import Opening, Start
from dualmctx.ratings.elo import find_differences, likelihoods_of_superiority
from dualmctx.ratings.results import Results
from dualmctx.reports.numbers import (
    show_decimal,
    show_elo,
    show_interval,
    show_probability,
    show_share,
)

_LEVEL = 0.95
# Thresholds below which a warning is due: games of two players, share of distinct games.
_FEW_GAMES, _DISTINCT = 100, 0.9
# Number of pairings whose repeated games are described one by one.
_MOST_PAIRINGS = 3
# Times per move that differ by a larger factor are not equal.
_SAME_TIME = 1.1
_REPEATS = "Many games repeat others, so the interval is too narrow and the likelihood too extreme."
_STOPPED = "A sequential test ended the games, which biases the lead away from 0."


def by_strength(players: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts rows of a report by Elo, best first.

    Unbounded Elo is plus or minus infinity. Several such players are sorted by the known end of
    their intervals.
    """

    def strength(row: dict[str, Any]) -> tuple[int, float]:
        if row["elo"] is not None:
            return 0, row["elo"]
        if row["low"] is not None:
            return 1, row["low"]
        return -1, -math.inf if row["high"] is None else row["high"]

    return sorted(players, key=strength, reverse=True)


def make_answer(
    results: Results, players: Sequence[dict[str, Any]], *, repeats: bool, is_stopped: bool
) -> dict[str, Any]:
    """Answers which player is the strongest, as far as the games show it.

    Args:
      results: results of games between different players.
      players: the rows of the players in the report.
      repeats: whether many games repeat others. Intervals are then too narrow, so no player is
        called weaker.
      is_stopped: whether a sequential test ended the games.

    Returns:
      The field `answer` of the report, in JSON types; docs/compare.md describes it. With more than
      two players, `level` is above 95 %, so that all claims together have 95 %. `differences` are
      those of the player with the highest Elo to all others, the strongest first.
    """
    leader, *opponents = (row["name"] for row in by_strength(players))
    # Bonferroni's correction for all pairings, because the same games decide who leads.
    number = len(players) * (len(players) - 1) // 2
    level = 1 - (1 - _LEVEL) / number
    claims = find_differences(results, leader, level=level)
    weaker = [name for name in opponents if claims[name].sign > 0 and not repeats]
    undecided = [name for name in opponents if name not in weaker]
    stronger = likelihoods_of_superiority(results, leader)
    found = find_differences(results, leader, level=_LEVEL)
    rows = [found[name]._asdict() | {"superiority": stronger[name]} for name in opponents]
    num_games = 2 * int(results.pairs.sum())
    claim, *others = _describe_leader(leader, weaker, undecided, num_games)
    sentences = [
        claim,
        _describe_difference(rows[0], is_next=len(players) > 2),
        *others,
        *([_REPEATS] if repeats else []),
        *([_STOPPED] if is_stopped else []),
    ]
    return {
        "sentences": sentences,
        "leader": leader,
        "level": level,
        "weaker": weaker,
        "undecided": undecided,
        "differences": rows,
    }


def _describe_leader(
    leader: str, weaker: list[str], undecided: list[str], num_games: int
) -> list[str]:
    """Writes the claims about the leader, which are no wider than the games allow."""
    stronger = [f"{leader} is stronger than {_list(weaker)}."] if weaker else []
    if not undecided:
        return stronger
    games = f"The {num_games:,} games do not show"
    if len(undecided) + len(weaker) == 1:
        return [f"{games} whether {leader} or {undecided[0]} is stronger."]
    return [f"{games} which of {_list([leader, *undecided])} is the strongest.", *stronger]


def _describe_difference(row: dict[str, Any], *, is_next: bool) -> str:
    """Writes the difference of the leader to the next player, with its interval."""
    leader = row["player"]
    opponent = f"{row['opponent']}, the next player," if is_next else row["opponent"]
    if row["elo"] is not None and round(row["elo"]) == 0:
        start = f"{leader} and {opponent} have equal Elo"
    elif row["elo"] is not None:
        start = f"{leader} leads {opponent} by {show_decimal(row['elo'], 0)} Elo"
    elif row["low"] is not None:
        start = f"The lead of {leader} over {opponent} has no upper bound"
    else:
        start = f"The games do not bound the lead of {leader} over {opponent}"
    return (
        f"{start} ({show_share(_LEVEL)} interval {show_interval(row)}; likelihood of superiority "
        f"{show_probability(row['superiority'])})."
    )


def describe_test(test: dict[str, Any]) -> str:
    """Describes the state of a sequential test, the field `sprt` of a report, in one line."""
    decided = "not decided" if test["accepted"] is None else f"{test['accepted']} accepted"
    ratio, lower, upper = (
        show_decimal(test[name], 2) for name in ("log_likelihood_ratio", "lower", "upper")
    )
    return (
        f"SPRT: {decided} after {test['num_pairs']} pairs; H0: {test['player']} leads "
        f"{test['opponent']} by {test['elo0']:g} Elo, H1: by {test['elo1']:g}; log-likelihood "
        f"ratio {ratio} in ({lower}, {upper}); Elo of the mean score, on which the test is based: "
        f"{show_elo(test)}"
    )


def _list(names: Sequence[str]) -> str:
    """Joins names as in "A, B and C"."""
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


def count_games(games: Sequence[Game], starts: Mapping[Opening, Start]) -> dict[str, int]:
    """Counts games: all of them, the distinct ones, and those cut short.

    Two games are the same if the same two players continue from the same position with the same
    moves and the same player to move. The moves that led to that position do not matter.
    """
    return {
        "played": len(games),
        "distinct": len({_continuation(game, starts) for game in games}),
        "cut_short": sum(not game.is_over for game in games),
    }


def _continuation(game: Game, starts: Mapping[Opening, Start]) -> tuple[Any, ...]:
    """Returns the player to move after the opening, the other, the position and later moves."""
    start = starts[game.history(game.opening)]
    mover, other = game.players[start.side], game.players[1 - start.side]
    return mover, other, start.position, game.moves[game.opening :]


def list_warnings(
    games: Sequence[Game],
    starts: Mapping[Opening, Start],
    seconds: Mapping[str, float],
    report: dict[str, Any],
) -> list[str]:
    """Returns the warnings of a report, one sentence each.

    Args:
      games: the games of the report.
      starts: the position after each opening.
      seconds: seconds per move, by name, of the players that were scaled to the same time.
      report: the report without its warnings.
    """
    warnings = _game_warnings(games, starts)
    open_ended = [row["name"] for row in report["players"] if None in (row["low"], row["high"])]
    if open_ended:
        warnings.append(f"The games do not bound the interval of {', '.join(open_ended)}.")
    cut = report["games"]["cut_short"]
    if cut:
        warnings.append(f"{cut} games were cut short and count as drawn.")
    if seconds and max(seconds.values()) > _SAME_TIME * min(seconds.values()):
        slow, fast = (choose(seconds, key=seconds.__getitem__) for choose in (max, min))
        percent = 100 * (seconds[slow] / seconds[fast] - 1)
        warnings.append(
            f"Measured again after the games, a move of {slow} took {percent:.0f} % longer than "
            f"one of {fast}. The seconds are equal only up to that difference."
        )
    if report["alpha_rank"] is None:
        warnings.append('α-rank is missing: it needs OpenSpiel (pip install "dualmctx[compare]").')
    return warnings


def find_repetitions(
    games: Sequence[Game], starts: Mapping[Opening, Start]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Returns the pairings in which many games repeat others.

    Each has its number of distinct games and its number of games.
    """
    found = {}
    for (one, other), played in _by_pairing(games).items():
        # A player without noise plays both games of a pair against itself alike.
        rows = played[::2] if one == other else played
        distinct = count_games(rows, starts)["distinct"]
        if distinct < _DISTINCT * len(rows):
            found[one, other] = distinct, len(rows)
    return found


def _by_pairing(games: Sequence[Game]) -> dict[tuple[str, str], list[Game]]:
    pairings: dict[tuple[str, str], list[Game]] = defaultdict(list)
    for game in games:
        one, other = sorted(game.players)
        pairings[one, other].append(game)
    return pairings


def _game_warnings(games: Sequence[Game], starts: Mapping[Opening, Start]) -> list[str]:
    """Returns the warnings about the number of games and repeated games."""
    warnings = []
    fewest = min(map(len, _by_pairing(games).values()))
    if fewest < _FEW_GAMES:
        warnings.append(f"Two players met in only {fewest} games, so intervals are wide.")
    repetitions = list(find_repetitions(games, starts).items())
    for (one, other), (distinct, number) in repetitions[:_MOST_PAIRINGS]:
        warnings.append(
            f"Only {distinct} of {number} games of {one} and {other} are distinct. A repeated game "
            "adds no evidence, so intervals are too narrow."
        )
    if len(repetitions) > _MOST_PAIRINGS:
        rest = len(repetitions) - _MOST_PAIRINGS
        warnings.append(f"The games of {rest} more pairings repeat each other in the same way.")
    return warnings
