"""The picture of `benchmarks.two_heads`, and what it calls a clear difference."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

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


def change_of(cell: Row, first: Row) -> str:
    """Names the entries of a cell that differ from those of another one, and its options."""
    texts = [f"{x} {y}" for x, y in cell.items() if y != first[x] and x != "options"]
    return ", ".join(texts + [f"{x} {y}" for x, y in cell["options"]]) or "none"


def draw_map(rows: Sequence[Row], picture: pathlib.Path, kind: str = "kept") -> None:
    """Draws the smallest budget with the largest noise: a row per search, a column per kind."""
    rows = [row for row in rows if row["cell"]["part"] == "map"]
    budget = min(row["cell"]["budget"] for row in rows)
    noise = max(row["cell"]["noise"] for row in rows)
    rows = [x for x in rows if (x["cell"]["budget"], x["cell"]["noise"]) == (budget, noise)]
    kinds = sorted({(row["cell"]["correlation"], row["cell"]["persistence"]) for row in rows})
    figure = Figure(figsize=(3 * len(kinds) + 1.2, 2.4 * len(_NAMES) + 1.2), layout="constrained")
    axes = figure.subplots(len(_NAMES), len(kinds), squeeze=False)
    for column, (c, rho) in enumerate(kinds):
        cells = [(row["cell"]["correlation"], row["cell"]["persistence"]) for row in rows]
        group = [row for row, cell in zip(rows, cells, strict=True) if cell == (c, rho)]
        for line, name in enumerate(_NAMES):
            last = line == len(_NAMES) - 1
            _draw_panel(axes[line][column], group, name, kind, is_first=column == 0, is_last=last)
        title = f"{_KINDS.get((c, rho), '')}\nc = {c:g}, ρ = {rho:g}"
        axes[0][column].set_title(title, fontsize=9)
    save_figure(figure, _TITLE.format(budget=budget, noise=noise), picture)


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
