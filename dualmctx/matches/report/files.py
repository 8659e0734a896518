"""The files of a tournament's report: report.json, report.html and the plots."""

from typing import Any

from dualmctx.matches.report.answer import by_strength
from dualmctx.matches.report.machine import machine, versions
from dualmctx.matches.report.page import make_page
from dualmctx.matches.report.plots import draw_costs, draw_elo, to_png
from dualmctx.runs.atomic_io import atomic_path, atomic_write_text
from dualmctx.runs.folder import RunFolder

FILES = ("report.html", "report.json", "elo.png", "costs.png")


def write_report(
    folder: RunFolder,
    settings: dict[str, Any],
    budgets: dict[str, Any],
    results: dict[str, Any],
    replays: dict[str, Any],
) -> dict[str, Any]:
    """Writes the report of a tournament.

    Args:
      folder: the folder of the tournament.
      settings: the settings, as JSON values; at least `game`, `batch` and `command`.
      budgets: the budgets, as JSON values; see `dualmctx.commands.budgets.Budgets`.
      results: the results, as returned by `make_report`.
      replays: games with their boards, as returned by `make_replays`.

    Returns:
      The content of `report.json`.
    """
    environment = {"versions": versions(), "machine": machine()}
    report = {"settings": settings, "budgets": budgets, **environment, **results}
    ranked = by_strength(results["players"])
    title = f"{settings['game']}, {results['games']['played']:,} games"
    pictures = {
        "elo": to_png(draw_elo(ranked, title)),
        "costs": to_png(draw_costs(ranked, title, budgets["rule"])),
    }
    folder.write_json("report.json", report)
    for name, picture in pictures.items():
        with atomic_path(folder.path / f"{name}.png") as draft:
            draft.write_bytes(picture)
    atomic_write_text(folder.path / "report.html", make_page(report, pictures, replays))
    return report
