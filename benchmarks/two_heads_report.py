"""The tables and the picture of `benchmarks.two_heads` and `benchmarks.two_heads_networks`."""

import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy.stats import spearmanr

from benchmarks.common import show
from dualmctx.reports.plots import save_figure

Row = dict[str, Any]
CONTROL, DUAL = "root", "dual 1"
SHOWN = (CONTROL, DUAL, "dual 15%", "dual 40%", "dual paper", "average")
# A difference counts from this many standard errors on.
ERRORS = 2.0
_NAMES = {
    "dual 15%": "Dual, 15 % of the cost\nin the final head",
    CONTROL: "Control: early head,\nroot seen by both heads",
    "dual paper": "Dual, the paper's\nproportion",
    "average": "Mean of both heads\nin all positions",
}
_KINDS = {
    (0.5, 0.0): "errors differ, do not last",
    (0.5, 0.8): "errors differ, last",
    (0.95, 0.0): "errors alike, do not last",
    (0.95, 0.8): "errors alike, last",
}
_LIMIT = 8.0
_TITLE = (
    "Points by which a search beats the better of the two heads alone, at equal cost ({budget} "
    "evaluations by the final head, whose noise is {noise:g}). Blue: better; red: worse; frame: "
    "more than two standard errors above both; E or F: the better head is the early or the final "
    "one."
)


def is_above(pair: Sequence[float]) -> bool:
    """Returns whether a difference, given with its standard error, is clearly positive."""
    return pair[0] > ERRORS * pair[1] and pair[0] > 0


def differences(found: Row, kind: str) -> list[Sequence[float]]:
    """Returns the differences of a search to both single heads."""
    return [found[f"{kind} - {head}"] for head in ("early", "final")]


def beats_both(found: Row, kind: str) -> bool:
    """Returns whether a search is clearly better than either head alone.

    Two comparisons need no choice of the better head, which would be biased.
    """
    return all(map(is_above, differences(found, kind)))


def least(found: Row, kind: str) -> Sequence[float]:
    """Returns the smaller one of the differences to the two heads, with its standard error."""
    return min(differences(found, kind), key=lambda pair: pair[0])


def show_map(rows: Sequence[Row], picture: pathlib.Path | None, kind: str = "kept") -> None:
    """Prints a table for each kind of errors and one of the options, and draws the map."""
    parts = {part: [row for row in rows if row["cell"]["part"] == part] for part in _parts(rows)}
    cells = parts.pop("map", [])
    for (budget, noise), group in _groups(cells, "budget", "noise"):
        title = f"Cells with {budget} evaluations and noise {noise:g} in which a search beats both "
        title += "heads: least difference to them, in points"
        show(title, [_summary(pair, found, kind) for pair, found in _groups(group, *_KIND)])
    for part, group in parts.items():
        show(f"Changes of one cell: {part}", [_change(row, group[0], kind) for row in group])
    if picture and cells:
        budget, noise = _shown(cells)
        title = _TITLE.format(budget=budget, noise=noise)
        save_figure(draw_map(cells, kind), title, picture)


_KIND = ("correlation", "persistence")


def _parts(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["cell"]["part"] for row in rows))


def _groups(rows: Sequence[Row], *names: str) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """Groups rows by entries of their cells, in ascending order."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row["cell"][name] for name in names)

    return [(x, list(group)) for x, group in itertools.groupby(sorted(rows, key=key), key)]


def _summary(pair: tuple[Any, ...], rows: Sequence[Row], kind: str) -> Row:
    """Summarises the cells of one kind of errors: wins, and the range of the differences."""
    found: Row = {"c": pair[0], "ρ": pair[1], "cells": len(rows)}
    for name in SHOWN:
        some = [x for row in rows if (x := row["searches"].get(name))]
        values = [least(x, kind)[0] for x in some]
        wins = sum(beats_both(x, kind) for x in some)
        found[name] = f"{wins}: {min(values):+.1f} to {max(values):+.1f}" if some else ""
    return found


def _change(row: Row, first: Row, kind: str) -> Row:
    """Describes a cell by the entry in which it differs from the first one."""
    found: Row = {"change": change_of(row["cell"], first["cell"])}
    for name in SHOWN:
        if x := row["searches"].get(name):
            found[name] = "{:+.1f} ± {:.1f}".format(*least(x, kind))
    return found


def change_of(cell: Row, first: Row) -> str:
    """Names the entries of a cell that differ from those of another one, and its options."""
    texts = [f"{x} {y}" for x, y in cell.items() if y != first[x] and x != "options"]
    return ", ".join(texts + [f"{x} {y}" for x, y in cell["options"]]) or "none"


def draw_map(rows: Sequence[Row], kind: str) -> Figure:
    """Draws the smallest budget with the largest noise: a row per search, a column per kind."""
    shown = _shown(rows)
    rows = [x for x in rows if (x["cell"]["budget"], x["cell"]["noise"]) == shown]
    kinds = _groups(rows, *_KIND)
    figure = Figure(figsize=(3 * len(kinds) + 1.2, 2.4 * len(_NAMES) + 1.2), layout="constrained")
    axes = figure.subplots(len(_NAMES), len(kinds), squeeze=False)
    for column, (pair, group) in enumerate(kinds):
        for line, name in enumerate(_NAMES):
            last = line == len(_NAMES) - 1
            _draw_panel(axes[line][column], group, name, kind, is_first=column == 0, is_last=last)
        axes[0][column].set_title(
            f"{_KINDS.get(pair, '')}\nc = {pair[0]:g}, ρ = {pair[1]:g}", fontsize=9
        )
    return figure


def _shown(rows: Sequence[Row]) -> tuple[int, float]:
    """Returns the budget and the noise of the cells that are drawn."""
    cells = [row["cell"] for row in rows]
    return min(x["budget"] for x in cells), max(x["noise"] for x in cells)


def _draw_panel(
    axes: Axes, rows: Sequence[Row], name: str, kind: str, *, is_first: bool, is_last: bool
) -> None:
    """Draws the differences of a search by the cost and the noise of the early head."""
    costs = sorted({row["cell"]["r"] for row in rows}, reverse=True)
    ratios = sorted({row["cell"]["ratio"] for row in rows})
    image = np.full((len(ratios), len(costs)), np.nan)
    for row in rows:
        if name not in row["searches"]:
            continue
        found = row["searches"]
        pair = least(found[name], kind)
        y, x = ratios.index(row["cell"]["ratio"]), costs.index(row["cell"]["r"])
        image[y, x] = pair[0]
        better = "E" if found["early"][kind] >= found["final"][kind] else "F"
        color = "white" if abs(pair[0]) > 0.6 * _LIMIT else "black"
        text = f"{pair[0]:+.1f} {better}"
        axes.text(x, y, text, ha="center", va="center", fontsize=7, color=color)
        if beats_both(found[name], kind):
            axes.add_patch(_frame(x, y))
    axes.imshow(image, cmap="RdBu", vmin=-_LIMIT, vmax=_LIMIT, aspect="auto", origin="lower")
    axes.set_xticks(range(len(costs)), [f"1/{1 / x:g}" for x in costs] if is_last else [])
    axes.set_yticks(range(len(ratios)), [f"{x:g}" for x in ratios] if is_first else [])
    if is_last:
        axes.set_xlabel("cost of the early head", fontsize=8)
    if is_first:
        axes.set_ylabel(f"{_NAMES[name]}\n\nerrors: early / final", fontsize=8)


def _frame(x: int, y: int) -> Rectangle:
    return Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, fill=False, linewidth=1.2)


def show_networks(rows: Sequence[Row], kind: str = "mass") -> None:
    """Prints the errors of the heads, and the predicted and the measured differences."""
    show("Errors of the heads", [_errors(row) for row in rows if row["budget"] == _least(rows)])
    named: list[tuple[str, Callable[[Row], str]]] = [
        ("network", lambda x: x["network"]),
        ("heads", lambda x: "{} of {}".format(*x["depths"])),
        ("cost", lambda x: str(x["budget"])),
    ]
    table = []
    for row in rows:
        line = {name: text(row) for name, text in named}
        for name in (*SHOWN, "final"):
            if name in row["measured"]:
                guess, found = (row[x][name][f"{kind} - early"] for x in ("predicted", "measured"))
                line[name] = f"{found[0]:+.1f} ± {found[1]:.1f} ({guess[0]:+.1f})"
        line["ranks"] = f"{rank_correlation(row, kind):+.2f}"
        table.append(line)
    show(f"Points of {kind} above the early head: measured (predicted)", table)


def _least(rows: Sequence[Row]) -> int:
    return min((row["budget"] for row in rows), default=0)


def _errors(row: Row) -> Row:
    errors, early, final = row["errors"], row["errors"]["early"], row["errors"]["final"]
    found = {"network": row["network"], "heads": "{} of {}".format(*row["depths"])}
    for name in early:
        found[name.replace("_", " ")] = f"{early[name]:.2f} {final[name]:.2f}"
    found["mass of the model"] = "{:.2f} {:.2f}".format(*row["model_masses"])
    kinds = ("value_correlation", "prior_correlation")
    return found | {"c: value, prior": " ".join(f"{errors[name]:.2f}" for name in kinds)}


def rank_correlation(row: Row, kind: str = "mass") -> float:
    """Returns Spearman's correlation of the predicted and the measured shares of the searches."""
    names = [name for name in row["measured"] if name in row["predicted"]]
    values = [[row[x][name][kind] for name in names] for x in ("predicted", "measured")]
    return float(spearmanr(*values).statistic)
