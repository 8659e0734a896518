"""Formats estimates for the cells of a table."""

from typing import Any

from dualmctx.runs.numbers import NONE, show_decimal, show_number

UNRESOLVED = "not resolved"
WIDEST_ELO, WIDEST_SHARE, WIDEST_RATIO = 400.0, 0.5, 4.0
"""The maximum width of the interval of a resolved estimate: in Elo, in shares, as a factor."""


def show(estimate: dict[str, Any] | None, seeds: int = 0, digits: int = 2) -> str:
    """Formats an estimate, with its interval if it has one.

    Args:
      estimate: an `Estimate` as a dictionary, or `None`.
      seeds: number of seeds; if the estimate covers fewer, the cell says how many.
      digits: number of decimals.
    """
    if estimate is None:
        return NONE
    number = len(estimate["values"])
    coverage = f" ({number} of {seeds} seeds)" if number < seeds else ""
    ends = [estimate["low"], estimate["high"]]
    interval = "" if None in ends else f" [{', '.join(show_decimal(x, digits) for x in ends)}]"
    return f"{show_decimal(estimate['mean'], digits)}{interval}{coverage}"


def show_ratio(estimate: dict[str, Any] | None, seeds: int = 0) -> str:
    """Formats a ratio.

    A ratio is not resolved if the ends of its interval are more than a factor of `WIDEST_RATIO`
    apart. With `seeds`, a ratio of exactly 1 in all seeds is shown as "equal", because the steps
    were equal.

    Args:
      estimate: an `Estimate` as a dictionary, or `None`.
      seeds: number of seeds; if nonzero, the cell says how many of them the ratio covers.
    """
    if estimate is None:
        return NONE
    values, low, high = estimate["values"], estimate["low"], estimate["high"]
    coverage = f" ({len(values)} of {seeds} seeds)" if seeds else ""
    if low is not None and high > WIDEST_RATIO * low:
        return f"{UNRESOLVED}{coverage}"
    if seeds and all(x == 1 for x in values):
        return f"equal{coverage}"
    return f"{show(estimate)}{coverage}"


def is_wide(estimate: dict[str, Any] | None, widest: float) -> bool:
    """Returns whether an estimate has an interval that is wider than `widest`."""
    return (
        estimate is not None
        and estimate["low"] is not None
        and estimate["high"] - estimate["low"] > widest
    )


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
