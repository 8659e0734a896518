"""The report of a comparison: from games and what they cost to tables that JSON can hold."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dualmctx.matches.game_file import Game, results_of
from dualmctx.matches.openings import Opening, Start
from dualmctx.matches.players import Entrant
from dualmctx.matches.usage import count_usage
from dualmctx.ratings.alpha_rank import AlphaRank, alpha_rank
from dualmctx.ratings.elo import Rating, rate, rate_sides
from dualmctx.ratings.elo_costs import elo_per_doubling
from dualmctx.ratings.results import Results, count_wins_and_draws, count_wins_and_draws_by_side
from dualmctx.ratings.sprt import Sprt, Verdict

# Below these a warning is due: games of two players, the share of them that differ.
_FEW_GAMES, _DISTINCT = 100, 0.9
# Times a move that differ by a larger factor are not the same.
_SAME_TIME = 1.1
# How far apart the costs of a player must be to say what a doubling is worth.
_APART = 1.5


class Played(NamedTuple):
    """What a report is of: games, and what is known of them and of who played them.

    Attributes:
      entrants: the players.
      games: all, both of a pair one after the other.
      starts: where each of their openings leads to.
      seconds: a move, of each player by name.
      by_side: whether a player on the first side is another one than on the second.
      kin: names of players that differ in their simulations only, a group each.
      anchor: see `rate`; by side it is its first side.
      test: a sequential test of the first two players; `None` for none.
      verdict: where it stands.
      timed: names of players who were given the same time a move.
    """

    entrants: tuple[Entrant, ...]
    games: list[Game]
    starts: Mapping[Opening, Start]
    seconds: dict[str, float]
    by_side: bool = False
    kin: Sequence[Sequence[str]] = ()
    anchor: str | None = None
    test: Sprt | None = None
    verdict: Verdict | None = None
    timed: Sequence[str] = ()


def make_report(played: Played) -> dict[str, Any]:
    """Makes the report; docs/compare.md has its fields.

    Args:
      played: by players of which every two have met.

    Raises:
      ValueError: when the anchor is no player, in one line.
    """
    names = [entrant.name for entrant in played.entrants]
    # Games of a player with itself say what a side is worth, and nothing else.
    results = results_of(names, [game for game in played.games if len(set(game.players)) == 2])
    ratings = rate(results, anchor=played.anchor)
    ranks = _rank(results)
    rows = [_player(played, place, rating, ranks) for place, rating in enumerate(ratings.players)]
    report = {
        "players": rows,
        "ratings": ratings._asdict() | {"players": names},
        "ratings_by_side": _rate_sides(played, names) if played.by_side else None,
        "crosstable": _table(*count_wins_and_draws(results.pairs)),
        "by_side": _sides(results_of(names, played.games)),
        "alpha_rank": ranks and ranks._asdict(),
        "doublings": _doublings(played, results, rows),
        "sprt": _describe_test(played, names),
        "games": count_games(played.games, played.starts),
    }
    return report | {"warnings": list_warnings(played, report)}


def count_games(games: Sequence[Game], starts: Mapping[Opening, Start]) -> dict[str, int]:
    """Counts games: all, those that are no repetition of another one, and those cut short.

    A game is repeated where the same two players go on from the same position by the same moves,
    the same one of them beginning, whatever the moves to that position.

    Args:
      games: to count.
      starts: see `Played`.
    """
    return {
        "played": len(games),
        "distinct": len({_went_on(game, starts) for game in games}),
        "cut_short": sum(not game.is_over for game in games),
    }


def _went_on(game: Game, starts: Mapping[Opening, Start]) -> tuple[Any, ...]:
    """Returns who was to move after the opening, against whom, in which position, and the moves."""
    start = starts[game.history(game.opening)]
    mover, other = game.players[start.side], game.players[1 - start.side]
    return mover, other, start.position, game.moves[game.opening :]


def list_warnings(played: Played, report: dict[str, Any]) -> list[str]:
    """Lists what whoever reads a report should know, a sentence each."""
    warnings = []
    pairings: dict[tuple[str, ...], list[Game]] = defaultdict(list)
    for game in played.games:
        pairings[tuple(sorted(game.players))].append(game)
    fewest = min(map(len, pairings.values()))
    if fewest < _FEW_GAMES:
        warnings.append(f"Two players met in {fewest} games only: intervals are wide.")
    for (one, other), games in pairings.items():
        # By itself a player without noise plays both games of a pair alike, as it should.
        rows = games[::2] if one == other else games
        distinct = count_games(rows, played.starts)["distinct"]
        if distinct < _DISTINCT * len(rows):
            warnings.append(
                f"Only {distinct} of {len(rows)} games of {one} and {other} differ: a repeated "
                "game is no new evidence, so intervals are too narrow."
            )
    open_ended = [row["name"] for row in report["players"] if None in (row["low"], row["high"])]
    if open_ended:
        warnings.append(f"The games leave an interval open: {', '.join(open_ended)}.")
    cut = report["games"]["cut_short"]
    if cut:
        warnings.append(f"{cut} games were cut short and count as drawn.")
    timed = {name: played.seconds[name] for name in played.timed}
    if timed and max(timed.values()) > _SAME_TIME * min(timed.values()):
        slow, fast = (end(timed, key=timed.__getitem__) for end in (max, min))
        percent = 100 * (timed[slow] / timed[fast] - 1)
        warnings.append(
            f"Measured again after the games, a move of {slow} took {percent:.0f} % longer than "
            f"one of {fast}: the seconds are equal only as far as that."
        )
    if report["alpha_rank"] is None:
        warnings.append('There is no α-rank without OpenSpiel: pip install "dualmctx[compare]".')
    return warnings


def _player(played: Played, place: int, rating: Rating, ranks: AlphaRank | None) -> dict[str, Any]:
    """Describes a player: its results, and what a move of it costs."""
    entrant = played.entrants[place]
    [usage] = count_usage([entrant], played.games)
    seconds = played.seconds[entrant.name]
    simulations, evaluations, blocks = entrant.cost or (None,) * 3
    games = rating.wins + rating.draws + rating.losses
    return rating._asdict() | {
        "score": (rating.wins + rating.draws / 2) / games if games else None,
        "moves": usage.moves,
        "simulations": simulations,
        "evaluations": evaluations,
        "evaluations_in_all": usage.evaluations,
        "blocks": blocks,
        "seconds": seconds,
        "simulations_a_second": simulations / seconds if simulations else None,
        "mass": ranks and ranks.mass[place],
        "leads": ranks and ranks.leads[place],
        "about": entrant.about,
    }


def _rank(results: Results) -> AlphaRank | None:
    try:
        return alpha_rank(results)
    except ModuleNotFoundError:
        return None


def _rate_sides(played: Played, names: Sequence[str]) -> dict[str, Any]:
    anchor = None if played.anchor is None else f"{played.anchor} (first)"
    ratings = rate_sides(results_of(names, played.games), anchor=anchor)
    return ratings._asdict() | {"players": [row._asdict() for row in ratings.players]}


def _table(wins: np.ndarray, draws: np.ndarray) -> list[list[dict[str, Any] | None]]:
    """Returns what the row's player did against the column's; `None` where they have not met."""
    return [
        [_score(won, drawn, lost) for won, drawn, lost in zip(*rows, strict=True)]
        for rows in zip(wins.tolist(), draws.tolist(), wins.T.tolist(), strict=True)
    ]


def _score(won: int, drawn: int, lost: int) -> dict[str, Any] | None:
    if not won + drawn + lost:
        return None
    return {"wins": won, "draws": drawn, "losses": lost, "points": won + drawn / 2}


def _sides(results: Results) -> list[list[dict[str, Any] | None]]:
    """Returns what the row's player did on the first side against the column's on the second."""
    number = len(results.players)
    table = _table(*count_wins_and_draws_by_side(results.pairs))
    return [row[number:] for row in table[:number]]


def _doublings(
    played: Played, results: Results, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Measures what a doubling is worth where a player stands at several budgets."""
    by_name = {row["name"]: row for row in rows}
    found = []
    for names in played.kin:
        for cost in ("simulations", "blocks", "seconds"):
            costs = [by_name[name][cost] for name in names]
            # What differs by little says nothing of a doubling.
            if all(costs) and max(costs) / min(costs) >= _APART:
                found.append({"cost": cost} | elo_per_doubling(results, names, costs)._asdict())
    return found


def _describe_test(played: Played, names: Sequence[str]) -> dict[str, Any] | None:
    test, verdict = played.test, played.verdict
    if test is None or verdict is None:
        return None
    settings = {name: getattr(test, name) for name in ("elo0", "elo1", "alpha", "beta")}
    return {"player": names[0], "opponent": names[1]} | settings | verdict._asdict()
