"""The report of the player stage: files, summary and table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dualmctx.matches.game_file import GAMES, read_games
from dualmctx.matches.players import Player
from dualmctx.matches.report.answer import by_strength
from dualmctx.matches.report.page import write_report
from dualmctx.matches.report.report import measure
from dualmctx.matches.tournament import Tournament, games_of
from dualmctx.matches.usage import SIMULATIONS, Budget, Budgets
from dualmctx.pipeline.options import PlayerOptions
from dualmctx.pipeline.player.match import entry_of
from dualmctx.reports.numbers import (
    show_elo,
    show_interval,
    show_milliseconds,
    show_score,
    show_share,
)
from dualmctx.reports.table import Table, entry
from dualmctx.runs.folder import RunFolder

_COLUMNS = {
    "": entry("name", str),
    "Elo": show_elo,
    "95%": show_interval,
    "points": entry("score", show_share, 1),
    "keeps value": entry("keeping", show_share, 1),
    "blocks": entry("blocks"),
    "ms": entry("seconds", show_milliseconds),
}


def report_match(
    tournament: Tournament, players: Sequence[Player], folder: Path, settings: dict[str, Any]
) -> dict[str, Any]:
    """Measures the time of a move of each player, and writes the report of the match.

    The report has the files and the format of `dualmctx compare`.

    Args:
      tournament: the tournament.
      players: its players, each with a mover of its own.
      folder: its folder, with all games.
      settings: further settings, for the page.

    Returns:
      The content of `report.json`.
    """
    played = measure(tournament, players, games_of(tournament, read_games(folder / GAMES)))
    settings = settings | {"game": tournament.env.id, "batch": tournament.batch_size}
    return write_report(RunFolder(folder), settings, _budgets(players), tournament.env, played)


def _budgets(players: Sequence[Player]) -> Budgets:
    """Returns the simulations of the players, which are not scaled."""
    rows = {}
    for player in players:
        number = player.cost.simulations if player.cost else 0
        simulations = (number,) if number else None
        rows[player.name] = Budget(simulations, simulations)
    return Budgets(SIMULATIONS, None, None, rows)


def summarize_match(
    report: dict[str, Any], evals: dict[str, float], options: PlayerOptions
) -> dict[str, Any]:
    """Returns the entries of `summary.json`.

    Args:
      report: the content of `report.json`.
      evals: shares of value-keeping moves, as returned by `measure_keeping`.
      options: the options of the stage.
    """
    names = ("name", "elo", "low", "high", "score", "wins", "draws", "losses")
    names = (*names, "simulations", "evaluations", "blocks", "seconds")
    rows = [
        {name: row[name] for name in names}
        | {"keeping": evals.get(f"exact/{entry_of(row['name'])}_keeping")}
        for row in by_strength(report["players"])
    ]
    return {
        "games": report["games"]["played"],
        "simulations": options.num_simulations,
        "prior": options.prior,
        "openings": report["settings"]["openings"],
        "answer": report["answer"]["sentences"],
        "warnings": report["warnings"],
        "players": rows,
        **evals,
    }


def describe_match(one: str, other: str, row: dict[str, Any]) -> str:
    """Describes the games of two players; at most 43 columns if λ has at most 4 decimals."""
    return f"{one} – {other} {show_score(row)}"


def summary_table(summary: dict[str, Any]) -> Table:
    """Lays out the players, the strongest first."""
    return Table.of(
        f"player: {summary['games']:,} games, {summary['simulations']} simulations per move",
        _COLUMNS,
        summary["players"],
        caption=" ".join(summary["answer"]),
    )
