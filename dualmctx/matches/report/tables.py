"""The tables of the report of a tournament."""

from typing import Any

from dualmctx.matches.report.html import Table
from dualmctx.matches.report.numbers import (
    show_elo,
    show_interval,
    show_number,
    show_score,
    show_share,
)

_PLAYERS = (
    *("games", "points", "α-rank mass", "leads", "simulations per move", "evaluations per move"),
    *("evaluations in all", "blocks per move", "ms per move", "simulations per second"),
)


def make_tables(report: dict[str, Any], ranked: list[dict[str, Any]]) -> dict[str, Table]:
    """Returns the tables of a report by name; a table without rows is omitted.

    Args:
      report: the content of `report.json`.
      ranked: the rows of its players, best first.
    """
    names = [row["name"] for row in report["players"]]
    tables = {
        "players": _players(report, ranked),
        "crosstable": _matrix(names, report["crosstable"]),
        "by_side": _matrix(names, report["by_side"]),
        "doublings": _doublings(report),
        "budgets": _budgets(report),
    }
    if report["ratings_by_side"]:
        tables["ratings_by_side"] = _ratings_by_side(report["ratings_by_side"])
    return {name: table for name, table in tables.items() if table.rows}


def _players(report: dict[str, Any], ranked: list[dict[str, Any]]) -> Table:
    head = ("player", "Elo", show_share(report["ratings"]["level"]), *_PLAYERS)
    rows = [
        (
            row["name"],
            show_elo(row),
            show_interval(row),
            show_score(row),
            show_share(row["score"], 1),
            show_number(row["mass"]),
            show_share(row["leads"]),
            show_number(row["simulations"]),
            show_number(row["evaluations"]),
            show_number(row["evaluations_in_all"]),
            show_number(row["blocks"]),
            show_number(1000 * row["seconds"]),
            show_number(row["simulations_a_second"]),
        )
        for row in ranked
    ]
    return Table("", head, rows)


def _matrix(names: list[str], table: list[list[dict[str, Any] | None]]) -> Table:
    """Lays out the results of the row player against the column player."""

    def show_result(cell: dict[str, Any] | None) -> str:
        return "" if cell is None else f"{show_score(cell)}, {cell['points']:g}"

    rows = [(name, *map(show_result, cells)) for name, cells in zip(names, table, strict=True)]
    return Table("", ("", *names), rows)


def _ratings_by_side(ratings: dict[str, Any]) -> Table:
    rows = [
        (row["name"], show_elo(row), show_interval(row), show_score(row))
        for row in ratings["players"]
    ]
    return Table("", ("player", "Elo", show_share(ratings["level"]), "games"), rows)


def _doublings(report: dict[str, Any]) -> Table:
    level = show_share(report["ratings"]["level"])
    rows = [
        (
            ", ".join(row["players"]),
            row["cost"],
            show_elo(row),
            show_interval(row),
            "–" if row["percent"] is None else f"{show_number(row['percent'])} % more",
        )
        for row in report["doublings"]
    ]
    return Table("", ("players", "cost", "Elo per doubling", level, "one point of Elo"), rows)


def _budgets(report: dict[str, Any]) -> Table:
    def show_split(simulations: list[int] | None) -> str:
        return " + ".join(map(str, simulations or ["–"]))

    rows = [
        (
            name,
            show_split(row["asked"]),
            show_split(row["simulations"]),
            "; ".join(
                f"{show_split(x['simulations'])}: {show_number(1000 * x['seconds'])}"
                for x in row["measured"]
            ),
        )
        for name, row in report["budgets"]["players"].items()
    ]
    measured = "measurements, simulations: ms per move"
    return Table("", ("player", "requested", "played", measured), rows)
