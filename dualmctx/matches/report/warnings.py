"""Warnings of a report: reasons why its numbers may mislead."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from dualmctx.matches.game_file import Game
from dualmctx.matches.openings import Opening, Start

# Thresholds below which a warning is due: games of two players, share of distinct games.
_FEW_GAMES, _DISTINCT = 100, 0.9
# Number of pairings whose repeated games are described one by one.
_MOST_PAIRINGS = 3
# Times per move that differ by a larger factor are not equal.
_SAME_TIME = 1.1


def count_games(games: Sequence[Game], starts: Mapping[Opening, Start]) -> dict[str, int]:
    """Counts games: all of them, the distinct ones, and those cut short.

    Two games are the same if the same two players continue from the same position with the same
    moves and the same player to move. The moves that led to that position do not matter.

    Args:
      games: the games.
      starts: the position after each opening.
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
    """Finds the pairings of which many games repeat others.

    Args:
      games: the games.
      starts: the position after each opening.

    Returns:
      The numbers of distinct games and of games, by pairing.
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
