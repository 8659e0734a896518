"""The page of a report: one HTML file that needs nothing else."""

import base64
import math
from pathlib import Path
from typing import Any

import jinja2

_TEMPLATE = Path(__file__).with_name("report.html.j2")


def by_strength(players: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts rows of a report, the best first; those of open Elo where their open end is."""

    def strength(row: dict[str, Any]) -> float:
        if row["elo"] is not None:
            return row["elo"]
        if row["low"] is not None:
            return math.inf
        return -math.inf

    return sorted(players, key=strength, reverse=True)


def show_elo(row: dict[str, Any]) -> str:
    """Shows Elo, a dash where it is open."""
    return "–" if row["elo"] is None else signed(row["elo"])


def show_interval(row: dict[str, Any]) -> str:
    """Shows the interval of Elo, `∞` for an open end."""
    low = "−∞" if row["low"] is None else signed(row["low"])
    high = "+∞" if row["high"] is None else signed(row["high"])
    return f"{low} … {high}"


def show_score(row: dict[str, Any]) -> str:
    """Shows games won, drawn and lost."""
    return "+{wins:.0f} ={draws:.0f} −{losses:.0f}".format(**row)


def show_number(value: float | None) -> str:
    """Shows a whole number, any other with three digits that count, and a dash for none."""
    if value is None:
        return "–"
    if isinstance(value, int) or value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}"


def signed(value: float) -> str:
    """Shows a whole number with its sign."""
    return f"{round(value):+d}".replace("-", "−")


def make_page(report: dict[str, Any], pictures: dict[str, bytes]) -> str:
    """Makes the page.

    Args:
      report: as `report.json` holds it.
      pictures: PNG, by what they show.

    Returns:
      HTML.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "elo": show_elo,
        "interval": show_interval,
        "score": show_score,
        "number": show_number,
    }
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    inline = {
        name: f"data:image/png;base64,{base64.b64encode(picture).decode()}"
        for name, picture in pictures.items()
    }
    ranked = by_strength(report["players"])
    return template.render(report, ranked=ranked, pictures=inline)
