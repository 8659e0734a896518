"""The files of a tournament's report, its tables, and the standings on a terminal."""

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import jax
import msgspec

from dualmctx.matches.report.answer import by_strength, describe_test
from dualmctx.matches.report.replays import make_replays
from dualmctx.matches.report.report import Played, make_report
from dualmctx.matches.usage import Budgets
from dualmctx.pages import SHARED_STYLE
from dualmctx.programs.engine import num_cores
from dualmctx.reports.numbers import (
    NONE,
    show_elo,
    show_interval,
    show_milliseconds,
    show_number,
    show_probability,
    show_score,
    show_share,
)
from dualmctx.reports.page import Viewer, render_page
from dualmctx.reports.plots import draw_costs, draw_elo, to_png
from dualmctx.reports.table import Table, entry
from dualmctx.runs.atomic_io import atomic_path, atomic_write_text
from dualmctx.runs.folder import RunFolder
from dualmctx.types import Environment

FILES = ("report.html", "report.json", "elo.png", "costs.png")

_FOLDER = Path(__file__).parent
_PACKAGES = ("dualmctx", "jax", "jaxlib", "mctx", "numpy", "pgx", "open_spiel")
_STRENGTH = {
    "player": entry("name", str),
    "Elo": show_elo,
    "95% interval": show_interval,
    "games": show_score,
    "points": entry("score", show_share, 1),
    "α-rank mass": entry("mass", show_probability),
    "leads": entry("leads", show_share),
}
_COSTS = {
    "player": entry("name", str),
    "simulations per move": entry("simulations"),
    "evaluations per move": entry("evaluations"),
    "evaluations in all": entry("evaluations_in_all"),
    "blocks per move": entry("blocks"),
    "ms per move": entry("seconds", show_milliseconds),
    "simulations per second": entry("simulations_a_second"),
}
# The columns that are on the page only.
_DETAILS = {
    *("games", "leads", "evaluations per move", "evaluations in all", "simulations per second"),
}
_STANDINGS = {name: x for name, x in (_STRENGTH | _COSTS).items() if name not in _DETAILS}
_DIFFERENCES = {
    "opponent": entry("opponent", str),
    "lead, Elo": show_elo,
    "95% interval": show_interval,
    "likelihood of superiority": entry("superiority", show_probability),
}
_ENDINGS = {
    "player": entry("player", str),
    "ending": entry("ending", str),
    "games lost": entry("games"),
    "reason, of the first game": entry("reason", str),
}
_SIDES = {"player": entry("name", str), "Elo": show_elo, "95%": show_interval, "games": show_score}
_DOUBLINGS = {
    "players": entry("players", ", ".join),
    "cost": entry("cost", str),
    "Elo per doubling": show_elo,
    "95%": show_interval,
    "one point of Elo": lambda row: (
        NONE if row["percent"] is None else f"{show_number(row['percent'])} % more"
    ),
}


def write_report(
    folder: RunFolder,
    settings: dict[str, Any],
    budgets: Budgets,
    env: Environment,
    played: Played,
) -> dict[str, Any]:
    """Writes the report of a tournament.

    Args:
      folder: the folder of the tournament.
      settings: the settings, as JSON values; at least `game`, `batch` and `command`.
      budgets: the budgets of the players.
      env: the game.
      played: the games, as returned by `measure`.

    Returns:
      The content of `report.json`.
    """
    machine = {"device": jax.devices()[0].device_kind, "cores": num_cores()}
    told = {"settings": settings, "budgets": msgspec.to_builtins(budgets)}
    report = told | {"versions": _versions(), "machine": machine} | make_report(played)
    folder.write_json("report.json", report)
    pictures = draw_pictures(report)
    for name, picture in pictures.items():
        with atomic_path(folder.path / f"{name}.png") as draft:
            draft.write_bytes(picture)
    page = make_page(report, pictures, make_replays(env, played.games))
    atomic_write_text(folder.path / "report.html", page)
    return report


def draw_pictures(report: dict[str, Any]) -> dict[str, bytes]:
    """Returns the PNG pictures of a report: `elo` and `costs`."""
    ranked = by_strength(report["players"])
    title = f"{report['settings']['game']}, {report['games']['played']:,} games"
    costs = draw_costs(ranked, title, report["budgets"]["rule"])
    return {"elo": to_png(draw_elo(ranked, title)), "costs": to_png(costs)}


def make_page(report: dict[str, Any], pictures: dict[str, bytes], replays: dict[str, Any]) -> str:
    """Returns the HTML page of a report.

    Args:
      report: the content of `report.json`.
      pictures: its pictures, as returned by `draw_pictures`.
      replays: games with their boards, as returned by `make_replays`.
    """
    names = ", ".join(row["name"] for row in by_strength(report["players"]))
    return render_page(
        f"{report['settings']['game']}: {names}",
        [SHARED_STYLE, _FOLDER / "report.css"],
        Viewer(_FOLDER / "replay.js", replays, "replays") if replays["games"] else None,
        template=_FOLDER / "report.html.j2",
        **report,
        tables=make_tables(report),
        test=report["sprt"] and describe_test(report["sprt"]),
        pictures=pictures,
        replays=replays,
    )


def _versions() -> dict[str, str | None]:
    """Returns the versions of Python and of the packages; `None` if one is not installed."""
    installed: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = None
    return installed


def standings(report: dict[str, Any]) -> Table:
    """Returns the table of the players for a terminal, the strongest first."""
    title = f"{report['settings']['game']}, {report['games']['played']:,} games"
    return Table.of(title, _STANDINGS, by_strength(report["players"]))


def endings(report: dict[str, Any]) -> Table:
    """Returns the table of the games that a player lost by a failure, such as a crash."""
    left = ("ending", "reason, of the first game")
    return Table.of("games lost by a failure", _ENDINGS, report["endings"], left=left)


def make_tables(report: dict[str, Any]) -> dict[str, Table]:
    """Returns the tables of a report by name; a table without rows is omitted."""
    ranked = by_strength(report["players"])
    weaker, sides = report["answer"]["weaker"], report["ratings_by_side"] or {"players": ()}
    stronger = {"stronger": lambda row: "yes" if row["opponent"] in weaker else "not shown"}
    tables = {
        "strength": Table.of("", _STRENGTH, ranked),
        "costs": Table.of("", _COSTS, ranked),
        "differences": Table.of("", _DIFFERENCES | stronger, report["answer"]["differences"]),
        "crosstable": _matrix(report, ranked, "crosstable"),
        "endings": endings(report),
        "by_side": _matrix(report, ranked, "by_side"),
        "ratings_by_side": Table.of("", _SIDES, sides["players"]),
        "doublings": Table.of("", _DOUBLINGS, report["doublings"]),
        "budgets": _budgets(report["budgets"]["players"]),
    }
    return {name: table for name, table in tables.items() if table.rows}


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


def _budgets(players: dict[str, dict[str, Any]]) -> Table:
    def show_split(simulations: list[int] | None) -> str:
        return " + ".join(map(str, simulations or [NONE]))

    def show_measured(row: dict[str, Any]) -> str:
        parts = ((show_split(x["simulations"]), x["seconds"]) for x in row["measured"])
        return "; ".join(f"{split}: {show_milliseconds(seconds)}" for split, seconds in parts)

    columns = {
        "player": entry("name", str),
        "requested": entry("asked", show_split),
        "played": entry("simulations", show_split),
    }
    # Only budgets in seconds are measured.
    if any(row["measured"] for row in players.values()):
        columns["measurements, simulations: ms per move"] = show_measured
    return Table.of("", columns, [{"name": name} | row for name, row in players.items()])
