"""The HTML page of the report of a tournament."""

from pathlib import Path
from typing import Any

from dualmctx.matches.report.answer import by_strength
from dualmctx.matches.report.html import inline_png, render_page
from dualmctx.matches.report.tables import make_tables
from dualmctx.pages import SHARED_STYLE, bundle_modules

_TEMPLATE = Path(__file__).with_name("report.html.j2")


def make_page(report: dict[str, Any], pictures: dict[str, bytes], replays: dict[str, Any]) -> str:
    """Returns the HTML page of a report.

    Args:
      report: the content of `report.json`.
      pictures: PNG pictures by name: `elo` and `costs`.
      replays: games with their boards, as returned by `make_replays`.
    """
    ranked = by_strength(report["players"])
    title = f"{report['settings']['game']}: {', '.join(row['name'] for row in ranked)}"
    inline = {name: inline_png(picture) for name, picture in pictures.items()}
    tables = make_tables(report, ranked)
    more = {"title": title, "tables": tables, "pictures": inline, "replays": replays}
    more["replay_script"] = bundle_modules(_TEMPLATE.parent, "replay.js")
    more["replay_style"] = SHARED_STYLE.read_text(encoding="utf-8")
    return render_page(_TEMPLATE, **report, **more)
