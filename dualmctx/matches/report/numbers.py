"""Formats the numbers of a report."""

import math
from typing import Any


def show_elo(row: dict[str, Any]) -> str:
    """Formats the Elo of a row; a dash if it is unbounded."""
    return "–" if row["elo"] is None else show_signed(row["elo"])


def show_interval(row: dict[str, Any]) -> str:
    """Formats the interval of the Elo of a row; an unbounded end is `−∞` or `+∞`."""
    low = "−∞" if row["low"] is None else show_signed(row["low"])
    high = "+∞" if row["high"] is None else show_signed(row["high"])
    return f"{low} … {high}"


def show_score(row: dict[str, Any]) -> str:
    """Formats the numbers of games won, drawn and lost."""
    return "+{wins:.0f} ={draws:.0f} −{losses:.0f}".format(**row)


def show_number(value: float | None) -> str:
    """Formats integers in full, other numbers with three significant digits, `None` as a dash."""
    if value is None:
        return "–"
    if isinstance(value, int) or value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}"


def show_share(value: float | None, digits: int = 0) -> str:
    """Formats a share in percent, `None` as a dash."""
    return "–" if value is None else f"{value:.{digits}%}"


def show_signed(value: float) -> str:
    """Formats a number, rounded to an integer, with its sign."""
    return f"{round(value):+d}".replace("-", "−")
