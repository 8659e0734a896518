"""The summary of `python -m benchmarks.two_heads_training`: means, differences, levels, curves."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.common import mean_and_error
from dualmctx.ratings.intervals import half_widths
from dualmctx.reports.numbers import NONE, show_number, show_share
from dualmctx.reports.plots import COLORS, DASHES, Line, Panel, draw_panel, save_figure
from dualmctx.reports.table import Table

KINDS, MEASURES = ("random", "games"), ("network", "search", "common")
REFERENCES = ("final", "early", "root")
LEVELS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
"""Shares of moves that keep the value; an arm's time to the first crossing of each is given."""
TIMES = (0.25, 0.5, 0.75, 1.0)
"""Parts of the time that both arms of a pair have, at which they are compared."""
AXES = {"positions": "positions of self-play", "processor_seconds": "processor seconds"}
SECONDS = ("seconds", "processor_seconds")
LEVEL = 0.95
Row = dict[str, Any]


class Curve(NamedTuple):
    """A measure of a run, one number per evaluated step.

    Attributes:
      steps: `[E]` training steps.
      seconds: `[E]` processor seconds up to the end of each step.
      shares: `[E]` shares of moves that keep the value.
    """

    steps: np.ndarray
    seconds: np.ndarray
    shares: np.ndarray


Curves = dict[str, dict[int, Curve]]
"""The curves of a measure: by arm and by seed."""


def mean_interval(values: Iterable[float]) -> Row:
    """Returns the mean over seeds, half of its 95 % interval, and the number of seeds.

    The interval is Student's t; one seed has none (`None`).
    """
    found = [*values]
    mean, error = mean_and_error(found) if found else (None, math.nan)
    half = float(half_widths(np.array(error), np.array(len(found)), LEVEL))
    return {"mean": mean, "half": half if math.isfinite(half) else None, "seeds": len(found)}


def get_curves(rows: Sequence[Row], kind: str, measure: str) -> Curves:
    """Returns the curves of a measure on a kind of positions."""
    found: dict[str, dict[int, list[tuple[float, ...]]]] = {}
    for row in rows:
        point = (row["step"], row["processor_seconds"], row["kept"][kind][measure])
        found.setdefault(row["arm"], {}).setdefault(row["seed"], []).append(point)
    return {
        arm: {seed: Curve(*np.array(sorted(points)).T) for seed, points in by_seed.items()}
        for arm, by_seed in found.items()
    }


def list_means(rows: Sequence[Row]) -> list[Row]:
    """Returns a row for each arm and step: costs, and the means of all measures."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["arm"], row["step"]), []).append(row)
    return [
        {
            **{"arm": arm, "step": step},
            **{name: group[0][name] for name in ("positions", "blocks")},
            **{name: float(np.mean([row[name] for row in group])) for name in SECONDS},
            **{
                f"{kind}/{measure}": mean_interval(row["kept"][kind][measure] for row in group)
                for kind in KINDS
                for measure in MEASURES
            },
        }
        for (arm, step), group in groups.items()
    ]


def differences_at_steps(one: Mapping[int, Curve], other: Mapping[int, Curve]) -> list[Row]:
    """Returns the differences at equal steps, paired by seed, for each step."""
    found: dict[int, list[float]] = {}
    for seed in one.keys() & other.keys():
        others = dict(zip(other[seed].steps, other[seed].shares, strict=True))
        for step, share in zip(one[seed].steps, one[seed].shares, strict=True):
            if step in others:
                found.setdefault(int(step), []).append(share - others[step])
    return [{"step": step} | mean_interval(found[step]) for step in sorted(found)]


def differences_at_times(one: Mapping[int, Curve], other: Mapping[int, Curve]) -> list[Row]:
    """Returns the differences at equal processor time, paired by seed.

    Shares between two evaluated steps are those of the line between them.
    """
    seeds, rows = sorted(one.keys() & other.keys()), []
    for part in TIMES if seeds else ():
        changes, seconds = [], []
        for seed in seeds:
            pair = (one[seed], other[seed])
            at = part * min(x.seconds[-1] for x in pair)
            own, others = (float(np.interp(at, x.seconds, x.shares)) for x in pair)
            changes.append(own - others)
            seconds.append(at)
        rows.append({"part": part, "seconds": float(np.mean(seconds))} | mean_interval(changes))
    return rows


def first_crossing(places: np.ndarray, shares: np.ndarray, level: float) -> float | None:
    """Returns the place at which the line through the shares first has a level; `None` if never."""
    above = np.flatnonzero(shares >= level)
    if not len(above):
        return None
    i = int(above[0])
    if i == 0:
        return float(places[0])
    return float(np.interp(level, shares[i - 1 : i + 1], places[i - 1 : i + 1]))


def list_levels(curves: Mapping[int, Curve]) -> list[Row]:
    """Returns how many seeds reach each level; if all do, the mean steps and processor seconds."""
    rows = []
    for level in LEVELS:
        points = [
            (first_crossing(x.steps, x.shares, level), first_crossing(x.seconds, x.shares, level))
            for x in curves.values()
        ]
        reached = [x for x in points if None not in x]
        row = {"level": level, "reached": len(reached), "seeds": len(points)}
        if len(reached) < len(points):
            reached = []  # The mean of the fastest seeds alone would be too low.
        for name, values in zip(("steps", "seconds"), zip(*reached, strict=True), strict=False):
            row[name] = mean_interval(values)
        rows.append(row)
    return rows


def with_times(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows with a time; a row of a GPU has none, and gets the mean of its arm and step.

    A row without a time is left out if no other row of its arm and step has one.
    """
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["processor_seconds"] is not None:
            found.setdefault((row["arm"], row["step"]), []).append(row)
    means = {
        place: {name: float(np.mean([row[name] for row in group])) for name in SECONDS}
        for place, group in found.items()
    }
    timed = [row for row in rows if (row["arm"], row["step"]) in means]
    return [
        row | means[row["arm"], row["step"]] if row["processor_seconds"] is None else row
        for row in timed
    ]


def summarize(rows: Sequence[Row]) -> Row:
    """Returns the summary of measurements, as JSON values.

    Args:
      rows: the measurements; those of a GPU have no time, see `with_times`.

    Returns:
      `means`: a row for each arm and step. `differences` and `levels`: a row for each kind of
      positions, measure and arm (and reference), with lists of further rows.
    """
    rows = with_times(rows)
    summary: Row = {"means": list_means(rows), "differences": [], "levels": []}
    for kind in KINDS:
        for measure in MEASURES:
            curves, about = get_curves(rows, kind, measure), {"kind": kind, "measure": measure}
            for arm, own in curves.items():
                summary["levels"].append(about | {"arm": arm, "levels": list_levels(own)})
                for reference in REFERENCES:
                    if reference != arm and reference in curves:
                        pair = (own, curves[reference])
                        row = about | {"arm": arm, "reference": reference}
                        row |= {"at_steps": differences_at_steps(*pair)}
                        row |= {"at_times": differences_at_times(*pair)}
                        summary["differences"].append(row)
    return summary


def list_ends(summary: Row, kind: str) -> list[Row]:
    """Returns a row for each arm: its shares after the last step, and its search less others."""
    last = max(row["step"] for row in summary["means"])
    found = {
        row["arm"]: {
            "arm": row["arm"],
            **{measure: _show_mean(row[f"{kind}/{measure}"]) for measure in MEASURES},
            "processor_seconds": round(row["processor_seconds"]),
        }
        for row in summary["means"]
        if row["step"] == last
    }
    for row in summary["differences"]:
        if (row["kind"], row["measure"]) == (kind, "search") and row["arm"] in found:
            ends = [x for x in row["at_steps"] if x["step"] == last]
            name = f"search above {row['reference']}"
            found[row["arm"]][name] = _show_points(ends[0] if ends else None)
    return [*found.values()]


def _show_points(row: Row | None) -> str:
    """Formats a difference in points with its interval."""
    if row is None or row["mean"] is None:
        return NONE
    half = "" if row["half"] is None else f" ± {100 * row['half']:.1f}"
    return f"{100 * row['mean']:+.1f}{half}".replace("-", "−")


def _show_mean(row: Row) -> str:
    """Formats the mean of a share with its interval, in percent."""
    half = "" if row["half"] is None else f" ± {100 * row['half']:.1f}"
    return show_share(row["mean"], 1).rstrip("%") + half


def _progress_table(means: list[Row], name: str) -> Table:
    """Returns the means of a measure by step and arm."""
    arms = [*dict.fromkeys(row["arm"] for row in means)]
    cells = {(row["step"], row["arm"]): row[name] for row in means}
    steps = sorted({step for step, _ in cells})
    lines = [
        (str(step), *(_show_mean(cells[step, x]) if (step, x) in cells else NONE for x in arms))
        for step in steps
    ]
    return Table(
        f"{name}: % of moves that keep the value, by training step", ("step", *arms), lines
    )


def _difference_table(summary: Row, kind: str) -> Table:
    """Returns the differences at the last common step and at equal time."""
    head = ("arm − reference", *(f"{x}, {y}" for x in MEASURES for y in ("steps", "time")))
    lines: dict[str, list[str]] = {}
    for row in summary["differences"]:
        if row["kind"] == kind:
            cells = [_show_points(x[-1] if x else None) for x in (row["at_steps"], row["at_times"])]
            lines.setdefault(f"{row['arm']} − {row['reference']}", []).extend(cells)
    rows = [(name, *cells) for name, cells in lines.items()]
    return Table(f"{kind}: differences at the end, in points", head, rows)


def _level_table(summary: Row, kind: str) -> Table:
    """Returns the processor seconds of the arm's own search to each level."""
    lines = []
    for row in summary["levels"]:
        if (row["kind"], row["measure"]) == (kind, "search"):
            cells = []
            for x in row["levels"]:
                all_seeds = x["reached"] == x["seeds"]
                part = f"{x['reached']} of {x['seeds']}" if x["reached"] else NONE
                cells.append(show_number(x["seconds"]["mean"]) if all_seeds else part)
            lines.append((row["arm"], *cells))
    head = ("arm", *(show_share(x) for x in LEVELS))
    return Table(f"{kind}/search: seconds to a level", head, lines)


def show_summary(summary: Row) -> None:
    """Prints the tables: shares of moves that keep the value, differences, and times to levels."""
    if not summary["means"]:
        print("no row has a processor time, so no summary is shown")
        return
    console = Console()
    for measure in MEASURES:
        console.print(_progress_table(summary["means"], f"games/{measure}"))
    for kind in KINDS:
        console.print(_difference_table(summary, kind))
    console.print(_level_table(summary, "games"))


def draw_curves(summary: Row, file: Path) -> None:
    """Draws the curves on positions of games, over positions of self-play and over time."""
    means = summary["means"]
    arms = [*dict.fromkeys(row["arm"] for row in means)]
    if not means:
        return
    figure = Figure(figsize=(14, 10), layout="constrained")
    grid = figure.subplots(len(AXES), len(MEASURES), squeeze=False)
    for places, x in zip(grid, AXES.items(), strict=True):
        for axes, measure in zip(places, MEASURES, strict=True):
            rows = [_plot_row(row, f"games/{measure}", x[0]) for row in means]
            lines = [_line(i, arm) for i, arm in enumerate(arms)]
            draw_panel(axes, Panel(measure, lines, "moves that keep the value"), rows, x)
    save_figure(figure, "Training with two heads at equal blocks per move; means over seeds", file)


def _line(number: int, arm: str) -> Line:
    """Returns the line of an arm in all panels."""
    ends = (f"{arm} low", f"{arm} high")
    return Line(arm, arm, COLORS[number], DASHES[number % len(DASHES)], ends=ends)


def _plot_row(row: Row, name: str, x: str) -> Row:
    """Returns the row of a plot: a mean and the ends of its interval, by the name of the arm."""
    arm, mean, half = row["arm"], row[name]["mean"], row[name]["half"] or 0.0
    return {x: row[x], arm: mean, f"{arm} low": mean - half, f"{arm} high": mean + half}
