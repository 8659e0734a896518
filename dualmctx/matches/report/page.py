"""The files of a tournament's report: report.json, report.html and the plots."""

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import jax
import msgspec

from dualmctx.matches.report.answer import by_strength, describe_test
from dualmctx.matches.report.replays import make_replays
from dualmctx.matches.report.report import Played, make_report
from dualmctx.matches.report.tables import make_tables
from dualmctx.matches.usage import Budgets
from dualmctx.pages import SHARED_STYLE
from dualmctx.programs.engine import num_cores
from dualmctx.reports.page import Viewer, render_page
from dualmctx.reports.plots import draw_costs, draw_elo, to_png
from dualmctx.runs.atomic_io import atomic_path, atomic_write_text
from dualmctx.runs.folder import RunFolder
from dualmctx.types import Environment

FILES = ("report.html", "report.json", "elo.png", "costs.png")

_FOLDER = Path(__file__).parent
_PACKAGES = ("dualmctx", "jax", "jaxlib", "mctx", "numpy", "pgx", "open_spiel")


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
    environment = {"versions": _versions(), "machine": _machine()}
    told = {"settings": settings, "budgets": msgspec.to_builtins(budgets)}
    report = told | environment | make_report(played)
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


def _machine() -> dict[str, Any]:
    """Returns the device and the number of CPU cores that this process may use."""
    return {"device": jax.devices()[0].device_kind, "cores": num_cores()}


def _versions() -> dict[str, str | None]:
    """Returns the versions of Python and of the packages; `None` if one is not installed."""
    installed: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = None
    return installed
