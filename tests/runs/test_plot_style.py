"""The style of plots: legible ticks on logarithmic axes, and lines that differ."""

import itertools
import math
from pathlib import Path
from typing import Any

import matplotlib.axes
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dualmctx.matches.report.plots import draw_costs, draw_elo
from dualmctx.runs import plot
from dualmctx.runs.plot_style import label, line_style, log_ticks, mark_style, set_log_axis, spread

RANGES = [
    ([168, 170, 168, 168], 2.0),
    ([5.0], 2.0),
    ([0.0012, 0.0019], 2.0),
    ([0.1, 0.9], 9.0),
    ([3, 45], 15.0),
    ([0.002, 0.6], 300.0),
    ([1, 1e6], 1e6),
    ([1e-12, 1e12], 1e24),
]


def boxes(axes: matplotlib.axes.Axes) -> list[Any]:
    """Returns the extents of the labels of the x axis, in the order of the axis."""
    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    texts = [tick for tick in axes.get_xticklabels() if tick.get_text()]
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
    texts = [tick.get_text() for tick in axes.get_xticklabels()]
    assert len(set(texts)) == len(texts)
    for text, place in zip(texts, axes.get_xticks(), strict=True):
        read = float(text.replace(",", "").replace("−", "-"))
        assert read == pytest.approx(place, rel=0.0051)
    assert not axes.get_xticks(minor=True).size


def test_every_range_of_a_log_axis_has_ticks() -> None:
    rng = np.random.default_rng(0)
    for low, decades in zip(10 ** rng.uniform(-9, 9, 300), rng.uniform(0.3, 15, 300), strict=True):
        high = low * 10**decades
        ticks = log_ticks(low, high)
        assert 2 <= len(ticks) <= 8, (low, high)
        assert all(low <= x <= high for x in ticks)


def test_points_that_cover_each_other_are_placed_side_by_side() -> None:
    values = [100.0, 50.0, 100.0, 101.0, 20.0]
    moved = spread(values, 10, 200)
    assert moved[1] == 50
    assert moved[4] == 20
    gap = 0.035 * math.log(20)
    group = sorted(math.log(moved[i]) for i in (0, 2, 3))
    assert np.diff(group) == pytest.approx(gap)
    assert np.mean(group) == pytest.approx(np.mean(np.log([100, 100, 101])))
    assert spread([], 1, 2) == []
    assert sorted(spread([7.0] * 4, 1, 50)) == pytest.approx(
        [7 * math.exp(0.035 * math.log(50) * x) for x in (-1.5, -0.5, 0.5, 1.5)]
    )


def test_styles_differ() -> None:
    assert len({tuple(line_style(i).values()) for i in range(28)}) == 28
    assert len({tuple(mark_style(i).values()) for i in range(56)}) == 56
    for one, other in ((line_style(i), line_style(i + 1)) for i in range(27)):
        assert one["color"] != other["color"]
        assert one["linestyle"] != other["linestyle"]


def test_long_names_leave_room_for_the_plot() -> None:
    name = "runs/connect-four/2026-11-23@1200+dual:num_rounds=10:simulations=200,100:$x_1$"
    assert max(map(len, label(name).replace("\\", "").split("\n"))) <= 28
    assert label(name).replace("\n", "").replace("\\", "") == name
    rows = [
        {"name": f"{i} {name}", "elo": 10.0 * i, "low": -50.0, "high": 80.0, "blocks": 168 + i}
        | {"seconds": 0.001 * i + 0.001}
        for i in range(5)
    ]
    for figure in (draw_elo(rows, "game"), draw_costs(rows, "game")):
        FigureCanvasAgg(figure).draw()
        share = sum(axes.get_position().width for axes in figure.axes)
        assert share > 0.45
        assert all(axes.get_position().height > 0.4 for axes in figure.axes)


def test_training_curves_differ_in_colour_or_dashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {f"{kind}_loss_{head}": 0.5 for kind in ("policy", "value") for head in range(4)}
    shares = {name: 0.5 for name, *_ in plot._EVALS}
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: saved.append(figure))
    plot.plot_training([{"seconds": float(t), **row, **shares} for t in range(3)], "nim", tmp_path)
    evals, losses = saved[0].axes
    assert (len(evals.lines), len(losses.lines)) == (5, 8)
    for axes in (evals, losses):
        styles = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
        assert len(styles) == len(axes.lines)
        assert len({line.get_label() for line in axes.lines}) == len(axes.lines)
    assert evals.get_ylim() == (-0.02, 1.02)
    assert saved[0].get_suptitle() == "nim"
