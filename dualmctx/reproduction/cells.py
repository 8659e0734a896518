"""Formats estimates for the cells of a table."""

from typing import Any

from dualmctx.reproduction.estimates import MIN_SEEDS
from dualmctx.runs.numbers import NONE, show_decimal, show_number

UNRESOLVED = "not resolved"
WIDEST_ELO, WIDEST_SHARE, WIDEST_RATIO = 400.0, 0.5, 4.0
"""The maximum width of the interval, or of the range of two seeds, of a resolved estimate: in Elo,
in shares, as a factor."""


def show(estimate: dict[str, Any] | None, seeds: int = 0, digits: int = 2) -> str:
    """Formats an estimate, with its interval if it has one, or with the range of two seeds.

    Args:
      estimate: an `Estimate` as a dictionary, or `None`.
      seeds: number of seeds; if the estimate covers fewer, the cell says how many.
      digits: number of decimals.
    """
    if estimate is None:
        return NONE
    number = len(estimate["values"])
    coverage = f" ({number} of {seeds} seeds)" if number < seeds else ""
    ends = find_ends(estimate)
    width = ""
    if ends is not None:
        low, high = (show_decimal(x, digits) for x in ends)
        width = f" from {low} to {high}" if number < MIN_SEEDS else f" [{low}, {high}]"
    return f"{show_decimal(estimate['mean'], digits)}{width}{coverage}"


def find_ends(estimate: dict[str, Any]) -> tuple[float, float] | None:
    """Returns the ends of the interval, or the values of two seeds in order; `None` without both.

    Reports of earlier versions have intervals of two seeds, which are not shown.
    """
    values = estimate["values"]
    if len(values) < MIN_SEEDS:
        low, high = min(values), max(values)
        return None if low == high else (low, high)
    return None if estimate["low"] is None else (estimate["low"], estimate["high"])


def show_ratio(estimate: dict[str, Any] | None, seeds: int = 0) -> str:
    """Formats a ratio.

    A ratio is not resolved if the ends of its interval, or two seeds, are more than a factor of
    `WIDEST_RATIO` apart. With `seeds`, a ratio of exactly 1 in all seeds is shown as "equal",
    because the steps were equal.

    Args:
      estimate: an `Estimate` as a dictionary, or `None`.
      seeds: number of seeds; if nonzero, the cell says how many of them the ratio covers.
    """
    if estimate is None:
        return NONE
    values, ends = estimate["values"], find_ends(estimate)
    coverage = f" ({len(values)} of {seeds} seeds)" if seeds else ""
    if ends is not None and ends[1] > WIDEST_RATIO * ends[0]:
        return f"{UNRESOLVED}{coverage}"
    if seeds and all(x == 1 for x in values):
        return f"equal{coverage}"
    return f"{show(estimate)}{coverage}"


def is_wide(estimate: dict[str, Any] | None, widest: float) -> bool:
    """Returns whether an estimate has an interval, or two seeds a range, wider than `widest`."""
    ends = None if estimate is None else find_ends(estimate)
    return ends is not None and ends[1] - ends[0] > widest


def show_paper(published: dict[str, float] | None, name: str) -> str:
    """Formats a number of the paper; a dash if the paper has none."""
    return NONE if published is None else show_decimal(published[name], 2)


def show_points(points: list[dict[str, float] | None]) -> str:
    """Formats the step and the seconds at which each seed converged."""
    if not any(points):
        return NONE
    return ", ".join(
        NONE if x is None else f"{_show_step(x['step'])}; {show_decimal(x['seconds'], 1)}"
        for x in points
    )


def _show_step(step: float) -> str:
    """Formats a step, which is fractional if it is interpolated."""
    return show_number(int(step) if step == int(step) else step)
