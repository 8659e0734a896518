"""Estimates as the cells of a table show them."""

from typing import Any

NONE, UNRESOLVED = "–", "not resolved"
WIDEST_ELO, WIDEST_SHARE, WIDEST_RATIO = 400.0, 0.5, 4.0
"""The widest interval of a resolved estimate: in Elo, in shares, as a factor."""


def show(found: dict[str, Any] | None, seeds: int = 0, digits: int = 2) -> str:
    """Formats an estimate, with its interval if it has one.

    Args:
      found: an `Estimate` as a dictionary, or `None`.
      seeds: number of seeds; if the estimate has fewer, their number is added.
      digits: number of decimals.
    """
    if found is None:
        return NONE
    number = len(found["values"])
    part = f" ({number} of {seeds} seeds)" if number < seeds else ""
    ends = [found["low"], found["high"]]
    interval = "" if None in ends else f" [{', '.join(show_decimal(x, digits) for x in ends)}]"
    return f"{show_decimal(found['mean'], digits)}{interval}{part}"


def show_ratio(found: dict[str, Any] | None, seeds: int = 0) -> str:
    """Formats a ratio.

    A ratio is not resolved if the ends of its interval are more than a factor of `WIDEST_RATIO`
    apart. With `seeds`, a ratio of exactly 1 in all seeds reads "equal": the steps were equal.

    Args:
      found: an `Estimate` as a dictionary, or `None`.
      seeds: number of seeds; if it is given, the number of those in the ratio is added.
    """
    if found is None:
        return NONE
    values, low, high = found["values"], found["low"], found["high"]
    of = f" ({len(values)} of {seeds} seeds)" if seeds else ""
    if low is not None and high > WIDEST_RATIO * low:
        return f"{UNRESOLVED}{of}"
    if seeds and all(x == 1 for x in values):
        return f"equal{of}"
    return f"{show(found)}{of}"


def is_wide(found: dict[str, Any] | None, widest: float) -> bool:
    """Returns whether an estimate has an interval that is wider than `widest`."""
    return found is not None and found["low"] is not None and found["high"] - found["low"] > widest


def show_decimal(number: float, digits: int) -> str:
    """Formats a number with `digits` decimals; zero has no sign."""
    return f"{round(number, digits) + 0.0:.{digits}f}"


def show_paper(published: dict[str, float] | None, name: str) -> str:
    """Formats a number of the paper; a dash if the paper has none."""
    return NONE if published is None else f"{published[name]:.2f}"


def show_places(places: list[dict[str, float] | None]) -> str:
    """Formats the step and the seconds at which each seed converged."""
    if not any(places):
        return NONE
    return ", ".join(NONE if x is None else f"{x['step']:.3g}; {x['seconds']:.1f}" for x in places)
