"""The report of a tournament, in JSON types: results, ratings and costs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import games
from dualmctx.matches.game_file import Game, count_results
from dualmctx.matches.openings import Opening, Start, find_starts
from dualmctx.matches.players import HostMover, Player
from dualmctx.matches.report.answer import (
    count_games,
    find_repetitions,
    list_warnings,
    make_answer,
)
from dualmctx.matches.tournament import Tournament
from dualmctx.matches.usage import sample_positions, seconds_per_move
from dualmctx.ratings.alpha_rank import AlphaRank, alpha_rank
from dualmctx.ratings.elo import Rating, elo_per_doubling, rate, rate_sides
from dualmctx.ratings.results import Results, count_wins_and_draws, count_wins_and_draws_by_side
from dualmctx.ratings.sprt import Sprt, Verdict

HOST_BATCH = 16
"""Largest number of positions in which players that run on the host are timed."""
# Elo per doubling is estimated if the costs of a player differ by at least this factor.
_MIN_RATIO = 1.5


class Played(NamedTuple):
    """Input of a report: the players, their games in pairs, and the position after each opening.

    Attributes:
      seconds: seconds per move of each player, by name.
      by_side: whether to rate each player separately on the first and on the second side.
      kin: groups of names of players that differ only in their simulations.
      anchor: the player with Elo 0, see `rate`; in ratings by side, its first side.
      test: a sequential test of the first two players, whose state is `verdict`.
      timed: names of the players that were scaled to the same time per move.
    """

    players: tuple[Player, ...]
    games: list[Game]
    starts: Mapping[Opening, Start]
    seconds: dict[str, float]
    by_side: bool = False
    kin: Sequence[Sequence[str]] = ()
    anchor: str | None = None
    test: Sprt | None = None
    verdict: Verdict | None = None
    timed: Sequence[str] = ()


def measure(
    tournament: Tournament, players: Sequence[Player], all_games: list[Game], **more: Any
) -> Played:
    """Measures the seconds per move of players in positions of their games.

    Args:
      tournament: the tournament.
      players: its players.
      all_games: the games.
      **more: further attributes of the result.
    """
    seconds = {}
    for player in players:
        is_on_host, most = isinstance(player.mover, HostMover), 2 * tournament.batch_size
        size = min(HOST_BATCH, most) if is_on_host else tournament.batch_size
        positions = sample_positions(all_games, size, tournament.seed)
        seconds[player.name] = seconds_per_move(tournament.env, player, positions)
    starts = find_starts(tournament.env, (game.history(game.opening) for game in all_games))
    by_side = games.has_asymmetric_roles(tournament.env)
    return Played(tuple(players), all_games, starts, seconds, by_side, **more)


def make_report(played: Played) -> dict[str, Any]:
    """Returns the report of games in which every two players have met; see docs/compare.md.

    Raises:
      ValueError: if the anchor is not a player.
    """
    names = [player.name for player in played.players]
    # Games of a player against itself measure only the advantage of a side.
    between = [game for game in played.games if len(set(game.players)) == 2]
    results = count_results(names, between)
    ratings = rate(results, anchor=played.anchor)
    ranks = _rank(results)
    rows = [_player(played, place, rating, ranks) for place, rating in enumerate(ratings.players)]
    answer = make_answer(
        results,
        rows,
        repeats=bool(find_repetitions(between, played.starts)),
        is_stopped=played.verdict is not None and played.verdict.accepted is not None,
    )
    report = {
        "answer": answer,
        "players": rows,
        "ratings": ratings._asdict() | {"players": names},
        "ratings_by_side": _rate_sides(played, names) if played.by_side else None,
        "crosstable": _table(*count_wins_and_draws(results.pairs)),
        "by_side": _sides(count_results(names, played.games)),
        "alpha_rank": ranks and ranks._asdict(),
        "doublings": _doublings(played, results, rows),
        "sprt": _describe_test(played, names),
        "games": count_games(played.games, played.starts),
        "endings": _endings(played.games),
    }
    timed = {name: played.seconds[name] for name in played.timed}
    warnings = list_warnings(played.games, played.starts, timed, report)
    return report | {"warnings": warnings}


def _player(played: Played, place: int, rating: Rating, ranks: AlphaRank | None) -> dict[str, Any]:
    """Returns the row of a player: its results and the cost of a move."""
    player = played.players[place]
    chosen = (zip(game.players, game.num_chosen, strict=True) for game in played.games)
    moves = sum(number for both in chosen for name, number in both if name == player.name)
    seconds = played.seconds[player.name]
    simulations, evaluations, blocks = player.cost or (None,) * 3
    games = rating.wins + rating.draws + rating.losses
    return rating._asdict() | {
        "score": (rating.wins + rating.draws / 2) / games if games else None,
        "moves": moves,
        "simulations": simulations,
        "evaluations": evaluations,
        "evaluations_in_all": None if evaluations is None else moves * evaluations,
        "blocks": blocks,
        "seconds": seconds,
        "simulations_a_second": simulations / seconds if simulations else None,
        "mass": ranks and ranks.mass[place],
        "leads": ranks and ranks.leads[place],
        "about": player.about,
    }


def _endings(games: Sequence[Game]) -> list[dict[str, Any]]:
    """Counts the games that a player lost by a failure: by the player and the kind of failure."""
    found: dict[tuple[str, str], list[Game]] = {}
    for game in games:
        if game.ending is not None:
            loser = game.players[0 if game.result < 0 else 1]
            found.setdefault((loser, game.ending), []).append(game)
    return [
        {"player": name, "ending": kind, "games": len(rows), "reason": rows[0].reason}
        for (name, kind), rows in sorted(found.items())
    ]


def _rank(results: Results) -> AlphaRank | None:
    try:
        return alpha_rank(results)
    except ModuleNotFoundError:
        return None


def _rate_sides(played: Played, names: Sequence[str]) -> dict[str, Any]:
    anchor = None if played.anchor is None else f"{played.anchor} (first)"
    ratings = rate_sides(count_results(names, played.games), anchor=anchor)
    return ratings._asdict() | {"players": [row._asdict() for row in ratings.players]}


def _table(wins: np.ndarray, draws: np.ndarray) -> list[list[dict[str, Any] | None]]:
    """Returns the results of the row player against the column player; `None` if they never met."""
    return [
        [_score(won, drawn, lost) for won, drawn, lost in zip(*rows, strict=True)]
        for rows in zip(wins.tolist(), draws.tolist(), wins.T.tolist(), strict=True)
    ]


def _score(won: int, drawn: int, lost: int) -> dict[str, Any] | None:
    if not won + drawn + lost:
        return None
    return {"wins": won, "draws": drawn, "losses": lost, "points": won + drawn / 2}


def _sides(results: Results) -> list[list[dict[str, Any] | None]]:
    """Returns the results of the row player, on the first side, against the column player."""
    number = len(results.players)
    table = _table(*count_wins_and_draws_by_side(results.pairs))
    return [row[number:] for row in table[:number]]


def _doublings(
    played: Played, results: Results, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Returns Elo per doubling of the cost, for players with several budgets."""
    by_name = {row["name"]: row for row in rows}
    doublings = []
    for names in played.kin:
        for cost in ("simulations", "blocks", "seconds"):
            costs = [by_name[name][cost] for name in names]
            # Costs that differ too little do not determine the slope.
            if all(costs) and max(costs) / min(costs) >= _MIN_RATIO:
                doublings.append({"cost": cost} | elo_per_doubling(results, names, costs)._asdict())
    return doublings


def _describe_test(played: Played, names: Sequence[str]) -> dict[str, Any] | None:
    test, verdict = played.test, played.verdict
    if test is None or verdict is None:
        return None
    settings = {name: getattr(test, name) for name in ("elo0", "elo1", "alpha", "beta")}
    return {"player": names[0], "opponent": names[1]} | settings | verdict._asdict()
