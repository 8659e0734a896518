"""The style of plots: lines that differ in more than colour, and ticks of logarithmic axes."""

import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from dualmctx.runs.numbers import show_number

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours that colour-blind readers can tell apart, of the palette of Okabe and Ito."""
DASHES = ("-", "--", "-.", ":")
"""Dashes of lines."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Markers of points."""
# An axis is at least this factor long, so that nearly equal values look nearly equal.
_LEAST_FACTOR = 2.0
# Margin at both ends, and the least distance of two points, as shares of the axis.
_MARGIN, _LEAST_GAP = 0.08, 0.035


def mark_style(number: int) -> dict[str, Any]:
    """Returns the colour and the marker of a series of points; 56 series differ."""
    return {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}


def line_style(number: int) -> dict[str, Any]:
    """Returns the colour and the dashes of a line; 28 lines differ, successive ones in both."""
    return {"color": COLORS[number % len(COLORS)], "linestyle": DASHES[number % len(DASHES)]}


def label(name: str, width: int = 28) -> str:
    """Prepares a name for a plot: wraps it, and escapes dollars, which would start a formula."""
    return "\n".join(textwrap.wrap(name, width)).replace("$", r"\$")


def set_log_axis(axis: Axis, values: Sequence[float]) -> tuple[float, float]:
    """Makes an axis logarithmic, with limits around positive values, and labelled ticks.

    The limits are at least a factor of two apart.

    Args:
      axis: `axes.xaxis` or `axes.yaxis`.
      values: the values to show; none for an empty axis.

    Returns:
      The limits.
    """
    least, most = min(values, default=1.0), max(values, default=1.0)
    factor = max((most / least) ** (_MARGIN / (1 - 2 * _MARGIN)), 1.0)
    if most * factor < _LEAST_FACTOR * least / factor:
        factor = math.sqrt(_LEAST_FACTOR * least / most)
    low, high = least / factor, most * factor
    axes = axis.axes
    is_x = axis is axes.xaxis
    (axes.set_xscale if is_x else axes.set_yscale)("log")
    (axes.set_xlim if is_x else axes.set_ylim)(low, high)
    ticks = log_ticks(low, high)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels([_tick_text(tick) for tick in ticks])
    return low, high


def log_ticks(low: float, high: float) -> list[float]:
    """Returns 2 to 8 round numbers in a positive range of at least a factor of 1.1."""
    decades = math.log10(high / low)
    if decades < 1:
        ticks = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return [float(x) for x in ticks if low <= x <= high and x > 0]
    factors = (1, 2, 5) if decades < 2 else (1, 3) if decades < 3.5 else (1,)
    step = math.ceil(decades / 7)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    candidates = (
        factor * 10.0**exponent
        for exponent in exponents
        if exponent % step == 0
        for factor in factors
    )
    return [x for x in candidates if low <= x <= high]


def spread(values: Sequence[float], low: float, high: float) -> list[float]:
    """Moves points on a logarithmic axis apart that would cover each other.

    Points that are nearer to each other than 3.5 % of the axis are placed side by side around
    their geometric mean; all others stay.

    Args:
      values: positive positions.
      low: lower limit of the axis.
      high: upper limit of the axis.
    """
    gap = _LEAST_GAP * math.log(high / low)
    places = [math.log(x) for x in values]
    groups = [[i] for i in sorted(range(len(values)), key=places.__getitem__)]

    def centre(group: list[int]) -> float:
        return sum(places[i] for i in group) / len(group)

    def touch(one: list[int], other: list[int]) -> bool:
        needed = gap * (len(one) + len(other)) / 2
        return centre(other) - centre(one) < needed * (1 - 1e-9)

    while (near := next((x for x in itertools.pairwise(groups) if touch(*x)), None)) is not None:
        number = groups.index(near[0])
        groups[number : number + 2] = [near[0] + near[1]]
    moved = dict(enumerate(values))
    for group in groups:
        if len(group) > 1:
            for place, i in enumerate(group):
                moved[i] = math.exp(centre(group) + (place - (len(group) - 1) / 2) * gap)
    return [moved[i] for i in range(len(values))]


def _tick_text(value: float) -> str:
    text, *exponent = show_number(value).split("e")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "e".join((text, *exponent))
