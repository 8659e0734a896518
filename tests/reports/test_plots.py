"""Plots: legible ticks on logarithmic axes, lines that differ, intervals, and room for names."""

import itertools
import math
from pathlib import Path
from typing import Any

import matplotlib.axes
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dualmctx.reports.plots import (
    COLORS,
    Line,
    Panel,
    draw_costs,
    draw_elo,
    mark_style,
    plot_curves,
    set_log_axis,
    spread,
    to_png,
    wrap,
)

RANGES = [([5.0], 2.0), ([0.0012, 0.0019], 2.0), ([3, 45], 15.0), ([0.002, 0.6], 300.0)]
RANGES += [([1e-12, 1e12], 1e24)]


def boxes(axes: matplotlib.axes.Axes) -> list[Any]:
    """Returns the extents of the visible labels of the x axis, in the order of the axis."""
    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    texts = [text for place, text in ticks if low <= place <= high]
    return [text.get_window_extent(canvas.get_renderer()) for text in texts]


@pytest.mark.parametrize(("values", "factor"), RANGES)
def test_log_axes_have_several_ticks_that_do_not_overlap(
    values: list[float], factor: float
) -> None:
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    axes, _ = figure.subplots(1, 2)
    low, high = set_log_axis(axes.xaxis, values)
    assert low < min(values) <= max(values) < high
    assert high / low >= factor * (1 - 1e-9)
    found = boxes(axes)
    assert 2 <= len(found) <= 8
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(found))
    for place, tick in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        read = float(tick.get_text().replace(",", "").replace("−", "-"))
        assert read == pytest.approx(place, rel=0.0051)
    assert not axes.get_xticks(minor=True).size


def test_panels_draw_lines_with_gaps_intervals_and_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: saved.append(figure))
    rows = [{"iteration": i, "a": y, "low": 0.2, "high": 0.9} for i, y in ((1, 0.5), (2, None))]
    lines = (Line("a", "of a", COLORS[1], "--", ends=("low", "high")), Line("missing", "other"))
    panels = (Panel("one", lines, "share", (0, None), 0.25), Panel("two", lines[:1], is_log=True))
    plot_curves(panels, [*rows, {"iteration": 3}], "a title", tmp_path)
    one, two = saved[0].axes
    [curve, reference] = one.lines
    assert [*curve.get_xdata()] == [1, 2]
    np.testing.assert_array_equal(curve.get_ydata(), [0.5, math.nan])
    style = curve.get_color(), curve.get_linestyle(), curve.get_label()
    assert style == (COLORS[1], "--", "of a")
    assert [*reference.get_ydata()] == [0.25, 0.25]
    assert len(one.collections) == 1
    assert (one.get_ylim()[0], one.get_ylabel(), one.get_xlabel()) == (0, "share", "iteration")
    assert two.get_yscale() == "log"
    assert saved[0].get_suptitle() == "a title"


def row_of(name: str, elo: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    return {"name": name, "elo": elo, "low": low, "high": high, "blocks": 3, "seconds": 0.1}


ROWS = [
    row_of("won all", None, 310.4, None),
    row_of("strong", 100.0, 70.0, None),
    row_of("weak", -100.0, -130.0, -70.0),
    row_of("lost all", None, None, -300.0),
]


def test_arrows_mark_unbounded_intervals() -> None:
    [axes] = draw_elo(ROWS).axes
    least, most = axes.get_xlim()
    assert least < -300 < 310.4 < most
    assert [x.get_text() for x in axes.get_yticklabels()] == [row["name"] for row in ROWS]
    assert [([*map(float, x.get_xdata())], x.get_marker()) for x in axes.lines] == [
        *(([310.4, most], "None"), ([most], ">")),
        *(([70.0, most], "None"), ([most], ">"), ([100.0], "s")),
        *(([-130.0, -70.0], "None"), ([-100.0], "^")),
        *(([least, -300.0], "None"), ([least], "<")),
    ]


def test_players_of_equal_cost_are_drawn_side_by_side() -> None:
    blocks, milliseconds = draw_costs(ROWS).axes
    for axes, cost in ((blocks, 3.0), (milliseconds, 100.0)):
        lines = [(*map(float, x.get_xdata()), *map(float, x.get_ydata())) for x in axes.lines]
        left, right = lines[1][0], lines[3][0]
        assert 0.95 * cost < left < cost < right < 1.05 * cost
        assert math.sqrt(left * right) == pytest.approx(cost)
        assert lines == [
            *((left, left, 70.0, axes.get_ylim()[1]), (left, 100.0)),
            *((right, right, -130.0, -70.0), (right, -100.0)),
        ]
        assert axes.lines[1].get_marker() != axes.lines[3].get_marker()
    assert draw_costs(ROWS, rule="seconds").axes[0].get_xlabel() == milliseconds.get_xlabel()
    assert len({tuple(mark_style(i).values()) for i in range(56)}) == 56
    assert to_png(draw_costs([row_of("nothing", None, None, None)])).startswith(b"\x89PNG")


def test_long_names_leave_room_for_the_plot() -> None:
    name = "runs/connect-four/2026-11-23@1200+dual:num_rounds=10:simulations=200,100:$x_1$"
    assert max(map(len, wrap(name).replace("\\", "").split("\n"))) <= 28
    assert wrap(name).replace("\n", "").replace("\\", "") == name
    rows = [
        row_of(f"{i} {name}", 10.0 * i, -50.0, 80.0) | {"blocks": 168 + i, "seconds": 0.001 + i}
        for i in range(5)
    ]
    for figure in (draw_elo(rows, "game"), draw_costs(rows, "game")):
        FigureCanvasAgg(figure).draw()
        assert sum(axes.get_position().width for axes in figure.axes) > 0.45
        assert all(axes.get_position().height > 0.4 for axes in figure.axes)


def test_only_points_that_cover_each_other_are_moved_and_keep_their_order() -> None:
    assert spread([], 10, 200) == []
    assert spread([10.0, 50.0, 200.0], 10, 200) == pytest.approx([10, 50, 200])
    dear, far, cheap = spread([105.0, 20.0, 100.0], 10, 200)
    assert cheap < 100 < 105 < dear
    assert far == pytest.approx(20)
    first, second = spread([50.0, 50.0], 10, 200)
    assert first < 50 < second
    # Two groups that are near each other.
    moved = spread([10.0 * 20**x for x in (0.5, 0.5, 0.54, 0.54)], 10, 200)
    assert moved == sorted(moved)
