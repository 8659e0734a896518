"""Formats of numbers for people: on terminals, in HTML pages, Markdown and plots.

A missing number, `None`, becomes a dash where a function takes one. All functions write the minus
sign "−", and no sign for zero.
"""

import math
import numbers
from typing import Any

NONE = "–"
"""The text of a missing number."""
# Fractions outside of these limits are written with an exponent.
_SMALLEST, _LARGEST = 1e-4, 1e9
# Probabilities nearer to 0 or 1 are written as a bound.
_LEAST_PROBABILITY = 0.001


def show_number(value: float | None) -> str:
    """Formats integers in full, and other numbers with three significant digits.

    Numbers with more digits before the decimal point are rounded to integers. Numbers below 0.0001,
    or of 1e9 and more, have an exponent. `None` and NaN are missing.
    """
    if value is None or math.isnan(value):
        return NONE
    if isinstance(value, numbers.Integral):
        return _with_minus(f"{value:,}")
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    # Rounding can raise the exponent: 0.9996 has the three digits of 1.00.
    mantissa, exponent = f"{value:.2e}".split("e")
    if value == 0:
        return "0"
    if not _SMALLEST <= abs(value) < _LARGEST:
        return _with_minus(f"{mantissa}e{int(exponent)}")
    return show_decimal(value, max(2 - int(exponent), 0))


def show_decimal(value: float, digits: int) -> str:
    """Formats a number with `digits` decimals."""
    text = f"{value:,.{digits}f}"
    # Rounding can leave a negative zero.
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else _with_minus(text)


def show_signed(value: float) -> str:
    """Formats a number, rounded to an integer, with its sign."""
    rounded = round(value)
    return "0" if rounded == 0 else _with_minus(f"{rounded:+,}")


def show_share(value: float | None, digits: int = 0) -> str:
    """Formats a share as a percentage with `digits` decimals."""
    return NONE if value is None else f"{show_decimal(100 * value, digits)}%"


def show_milliseconds(seconds: float | None) -> str:
    """Formats seconds as milliseconds, without the unit."""
    return show_number(None if seconds is None else 1000 * seconds)


def show_probability(value: float | None) -> str:
    """Formats a probability with three decimals, or as a bound if it is nearly 0 or 1.

    Rounding errors below 0 and above 1 are removed.
    """
    if value is None:
        return NONE
    if value <= 0 or value >= 1:
        return "1" if value >= 1 else "0"
    if value < _LEAST_PROBABILITY:
        return f"<{_LEAST_PROBABILITY}"
    if value > 1 - _LEAST_PROBABILITY:
        return f">{1 - _LEAST_PROBABILITY}"
    return f"{value:.3f}"


def show_elo(row: dict[str, Any]) -> str:
    """Formats the Elo of a row; a dash if it is unbounded."""
    return NONE if row["elo"] is None else show_signed(row["elo"])


def show_interval(row: dict[str, Any]) -> str:
    """Formats the interval of the Elo of a row; an unbounded end is `−∞` or `+∞`."""
    low = "−∞" if row["low"] is None else show_signed(row["low"])
    high = "+∞" if row["high"] is None else show_signed(row["high"])
    return f"{low} … {high}"


def show_score(row: dict[str, Any]) -> str:
    """Formats the numbers of games won, drawn and lost."""
    return f"+{row['wins']:.0f} ={row['draws']:.0f} −{row['losses']:.0f}"


def _with_minus(text: str) -> str:
    return text.replace("-", "−")
