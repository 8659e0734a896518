"""The tables of the report of a tournament."""

from typing import Any

from dualmctx.matches.report.layout import Table
from dualmctx.runs.numbers import (
    NONE,
    show_elo,
    show_interval,
    show_number,
    show_probability,
    show_score,
    show_share,
)

_COSTS = (
    *("simulations per move", "evaluations per move", "evaluations in all", "blocks per move"),
    *("ms per move", "simulations per second"),
)


def make_tables(report: dict[str, Any], ranked: list[dict[str, Any]]) -> dict[str, Table]:
    """Returns the tables of a report by name; a table without rows is omitted.

    Args:
      report: the content of `report.json`.
      ranked: the rows of its players, best first.
    """
    tables = {
        "strength": _strength(report, ranked),
        "costs": _costs(ranked),
        "differences": _differences(report),
        "crosstable": _matrix(report, ranked, "crosstable"),
        "by_side": _matrix(report, ranked, "by_side"),
        "doublings": _doublings(report),
        "budgets": _budgets(report),
    }
    if report["ratings_by_side"]:
        tables["ratings_by_side"] = _ratings_by_side(report["ratings_by_side"])
    return {name: table for name, table in tables.items() if table.rows}


def _strength(report: dict[str, Any], ranked: list[dict[str, Any]]) -> Table:
    level = show_share(report["ratings"]["level"])
    head = ("player", "Elo", f"{level} interval", "games", "points", "α-rank mass", "leads")
    rows = [
        (
            row["name"],
            show_elo(row),
            show_interval(row),
            show_score(row),
            show_share(row["score"], 1),
            show_probability(row["mass"]),
            show_share(row["leads"]),
        )
        for row in ranked
    ]
    return Table("", head, rows)


def _costs(ranked: list[dict[str, Any]]) -> Table:
    rows = [
        (
            row["name"],
            show_number(row["simulations"]),
            show_number(row["evaluations"]),
            show_number(row["evaluations_in_all"]),
            show_number(row["blocks"]),
            show_number(1000 * row["seconds"]),
            show_number(row["simulations_a_second"]),
        )
        for row in ranked
    ]
    return Table("", ("player", *_COSTS), rows)


def _differences(report: dict[str, Any]) -> Table:
    answer = report["answer"]
    rows = [
        (
            row["opponent"],
            show_elo(row),
            show_interval(row),
            show_probability(row["superiority"]),
            "yes" if row["opponent"] in answer["weaker"] else "not shown",
        )
        for row in answer["differences"]
    ]
    level = show_share(report["ratings"]["level"])
    head = ("opponent", "lead, Elo", f"{level} interval", "likelihood of superiority", "stronger")
    return Table("", head, rows)


def _matrix(report: dict[str, Any], ranked: list[dict[str, Any]], name: str) -> Table:
    """Lays out the results of the row player against the column player, best players first.

    The columns have the numbers of the rows, so that long names do not widen them.
    """

    def show_result(cell: dict[str, Any] | None) -> str:
        return "" if cell is None else f"{show_score(cell)}, {cell['points']:,.10g}"

    places = [report["players"].index(row) for row in ranked]
    rows = [
        (
            f"{number}. {report['players'][i]['name']}",
            *(show_result(report[name][i][j]) for j in places),
        )
        for number, i in enumerate(places, start=1)
    ]
    return Table("", ("", *map(str, range(1, len(places) + 1))), rows)


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
            NONE if row["percent"] is None else f"{show_number(row['percent'])} % more",
        )
        for row in report["doublings"]
    ]
    return Table("", ("players", "cost", "Elo per doubling", level, "one point of Elo"), rows)


def _budgets(report: dict[str, Any]) -> Table:
    def show_split(simulations: list[int] | None) -> str:
        return " + ".join(map(str, simulations or [NONE]))

    players = report["budgets"]["players"]
    rows = [
        (name, show_split(row["asked"]), show_split(row["simulations"]), _measured(row))
        for name, row in players.items()
    ]
    head = ("player", "requested", "played", "measurements, simulations: ms per move")
    # Only budgets in seconds are measured.
    shown = len(head) if any(row[-1] for row in rows) else len(head) - 1
    return Table("", head[:shown], [row[:shown] for row in rows])


def _measured(row: dict[str, Any]) -> str:
    return "; ".join(
        f"{' + '.join(map(str, x['simulations']))}: {show_number(1000 * x['seconds'])}"
        for x in row["measured"]
    )
