"""Compares two maps of two heads: `python -m benchmarks.two_heads_report FIRST SECOND`.

FIRST and SECOND are the rows of `benchmarks.two_heads --out` with two seeds. The first one chooses:
the better head of a cell, and the best split of Dual. The second one measures, so a choice does not
make a search look better than it is. Cells in which a head keeps more than 0.98 of the wins do not
count, because nothing is left to gain there.

The first table has the mean over the cells of the difference to the better head, in points, with
the half width of its 95 % interval (the cells are fixed; the roots are random), the share of the
cells in which the search beats both heads, and the tenth of the cells in which it loses most. If a
search equals both heads, it beats both by chance in at most 2.3 % of the cells. The second table
counts by the correlation c of the heads' errors, and by whether the first seed has the heads within
5 points of each other. The last tables change one property or option of a cell: each seed chooses
the better head for the other one, and the means of both are shown.

With `--networks`, the rows of `benchmarks.two_heads_networks --out` in Connect Four, a table has
the largest loss of each split of Dual: the most points by which it is behind the better head in a
cell of the map, where each seed names the better head for the other one, and in a row of the
networks. It counts cells and rows whose early head costs half, as in the presets.

The module also draws the map of one seed, for `benchmarks.two_heads --picture`.
"""

import itertools
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from benchmarks.common import Row, ending, make_parser, show
from benchmarks.ledger import write_measurement
from dualmctx import UserError
from dualmctx.reports.plots import save_figure
from dualmctx.runs.journal import read_rows

CONTROL = "root"
SHOWN = (CONTROL, "dual 1", "dual 15%", "dual 40%", "dual paper", "average")
SPLITS = ("dual paper", "dual 15%", "dual 1")
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
KIND = "kept"
MOST = 0.98
HEADS = ("early", "final")
LEVEL = 1.96
# Points between two heads that are nearly equally good.
CLOSE = 5.0


def is_above(pair: Sequence[float]) -> bool:
    """Returns whether a difference, given with its standard error, is clearly positive."""
    return pair[0] > ERRORS * pair[1] and pair[0] > 0


def differences(found: Row, kind: str) -> list[Sequence[float]]:
    """Returns the differences of a search to both single heads."""
    return [found[f"{kind} - {head}"] for head in HEADS]


def beats_both(found: Row) -> bool:
    """Returns whether a search is clearly better than either head alone.

    Two comparisons need no choice of the better head, which would be biased.
    """
    return all(map(is_above, differences(found, KIND)))


def least(found: Row, kind: str) -> Sequence[float]:
    """Returns the smaller one of the differences to the two heads, with its standard error."""
    return min(differences(found, kind), key=lambda pair: pair[0])


def change_of(cell: Row, first: Row) -> str:
    """Names the entries of a cell that differ from those of another one, and its options."""
    texts = [f"{x} {y}" for x, y in cell.items() if y != first[x] and x != "options"]
    return ", ".join(texts + [f"{x} {y}" for x, y in cell["options"]]) or "none"


def draw_map(rows: Sequence[Row], picture: pathlib.Path) -> None:
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
            _draw_panel(axes[line][column], group, name, is_first=column == 0, is_last=last)
        title = f"{_KINDS.get((c, rho), '')}\nc = {c:g}, ρ = {rho:g}"
        axes[0][column].set_title(title, fontsize=9)
    save_figure(figure, _TITLE.format(budget=budget, noise=noise), picture)


def _draw_panel(
    axes: Axes, rows: Sequence[Row], name: str, *, is_first: bool, is_last: bool
) -> None:
    """Draws the differences of a search by the cost and the noise of the early head."""
    costs = sorted({row["cell"]["r"] for row in rows}, reverse=True)
    ratios = sorted({row["cell"]["ratio"] for row in rows})
    image = np.full((len(ratios), len(costs)), np.nan)
    for row in rows:
        if name not in row["searches"]:
            continue
        found = row["searches"]
        pair = least(found[name], KIND)
        y, x = ratios.index(row["cell"]["ratio"]), costs.index(row["cell"]["r"])
        image[y, x] = pair[0]
        better = "E" if found["early"][KIND] >= found["final"][KIND] else "F"
        color = "white" if abs(pair[0]) > 0.6 * _LIMIT else "black"
        text = f"{pair[0]:+.1f} {better}"
        axes.text(x, y, text, ha="center", va="center", fontsize=7, color=color)
        if beats_both(found[name]):
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


class Pair(NamedTuple):
    """A cell: its place on the map, its roots, and the searches of both seeds by name."""

    cell: Row
    number: int
    first: Row
    second: Row

    @property
    def head(self) -> str:
        """The head that was better with the first seed."""
        return max(HEADS, key=lambda head: self.first[head][KIND])

    @property
    def split(self) -> str:
        """The split of Dual that was best with the first seed."""
        names = [name for name in self.first if name.startswith("dual")]
        return max(names, key=lambda name: self.first[name][KIND])

    def gain(self, name: str) -> tuple[float, float]:
        """Returns the difference of a search to the better head, with its standard error."""
        return tuple(self.second[name][f"{KIND} - {self.head}"])

    @property
    def turned(self) -> "Pair":
        """The same cell, in which the second seed chooses and the first one measures."""
        return self._replace(first=self.second, second=self.first)


def counted(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the cells of the map that count."""
    return [x for x in pairs if x.cell["part"] == "map" and x.first[x.head][KIND] <= MOST]


def read_pairs(first: pathlib.Path, second: pathlib.Path) -> list[Pair]:
    """Returns all cells.

    Raises:
      UserError: if a file has no rows of `benchmarks.two_heads`, both have the same seed, or they
        have other cells.
    """
    files = [_read(path, "cell", "two_heads") for path in (first, second)]
    seeds = {str(row["seed"]) for row in [*files[0], *files[1]]}
    if len(seeds) != 2:
        raise UserError(f"{first} and {second} must have two seeds; they have {', '.join(seeds)}")
    known = {_key(row): row["searches"] for row in files[1]}
    if {*map(_key, files[0])} != known.keys():
        raise UserError(f"{first} and {second} have different cells; finish both runs")
    return [Pair(row["cell"], row["number"], row["searches"], known[_key(row)]) for row in files[0]]


def read_networks(path: pathlib.Path) -> list[Row]:
    """Returns the rows of networks whose early head costs half.

    Raises:
      UserError: if there is none, or one lacks a split of Dual.
    """
    rows = _read(path, "measured", "two_heads_networks")
    rows = [row for row in rows if 2 * row["depths"][0] == row["depths"][1]]
    if not rows or any({*SPLITS} - row["measured"].keys() for row in rows):
        needed = f"must have rows whose early head costs half, each with {', '.join(SPLITS)}"
        raise UserError(f"{path} {needed}")
    return rows


def _key(row: Row) -> str:
    return json.dumps([row["cell"], row["number"]])


def _read(path: pathlib.Path, entry: str, program: str) -> list[Row]:
    rows = read_rows(path)
    if not rows or any(entry not in row for row in rows):
        raise UserError(f"{path} has no rows of benchmarks.{program}")
    return rows


def summaries(pairs: Sequence[Pair]) -> Iterator[Row]:
    """Yields a row for each search that every cell has, and for the best split of each cell."""
    names = [x for x in pairs[0].first if all(x in pair.second for pair in pairs)]
    choices: dict[str, Callable[[Pair], str]] = {
        name: (lambda _, name=name: name) for name in names
    }
    choices["best split of Dual"] = lambda pair: pair.split
    for title, choose in choices.items():
        gains = [pair.gain(choose(pair)) for pair in pairs]
        values, errors = np.array(gains).T
        wins = [beats_both(pair.second[choose(pair)]) for pair in pairs]
        yield {
            "search": title,
            "mean": f"{values.mean():+.2f} ± {LEVEL * np.sqrt((errors**2).sum()) / len(pairs):.2f}",
            "beats both": f"{np.mean(wins):.1%}",
            "largest": f"{values.max():+.1f}",
            "worst tenth": f"{np.quantile(values, 0.1):+.1f}",
        }


def places(pairs: Sequence[Pair]) -> Iterator[Row]:
    """Yields, by the correlation of the heads and their distance, how often searches beat both."""
    names: dict[str, Callable[[Pair], str]] = {"best split of Dual": lambda pair: pair.split}
    names |= {x: lambda _, x=x: x for x in ("dual paper", "average", "root")}
    for correlation in sorted({pair.cell["correlation"] for pair in pairs}):
        for is_close in (True, False):
            some = [
                pair
                for pair in pairs
                if pair.cell["correlation"] == correlation
                and (abs(pair.first["final"][f"{KIND} - early"][0]) <= CLOSE) == is_close
            ]
            found = {
                name: sum(beats_both(x.second[choose(x)]) for x in some)
                for name, choose in names.items()
            }
            heads = "within" if is_close else "beyond"
            yield {"c": correlation, "heads": heads, "cells": len(some), **found}


def changes(pairs: Sequence[Pair]) -> Iterator[tuple[str, list[Row]]]:
    """Yields, for each cell that is changed, its name and a row for each change."""
    others = [x for x in pairs if x.cell["part"] != "map"]
    for part, group in itertools.groupby(others, key=lambda x: x.cell["part"]):
        cells, rows = [*group], list[Row]()
        for pair in cells:
            row: Row = {"change": change_of(pair.cell, cells[0].cell)}
            for name in ("final", *SHOWN):
                if name in pair.second:
                    values, errors = np.array([x.gain(name) for x in (pair, pair.turned)]).T
                    half = LEVEL * np.sqrt((errors**2).sum()) / 2
                    row[name] = f"{values.mean():+.1f} ± {half:.1f}"
            rows.append(row)
        yield part, rows


def losses(pairs: Sequence[Pair], networks: Sequence[Row]) -> Iterator[Row]:
    """Yields the largest losses of each split, in points; see the module."""
    both = [*counted(pairs), *counted([pair.turned for pair in pairs])]
    cells = [pair for pair in both if pair.cell["r"] == 0.5]
    for name in SPLITS:
        yield {
            "split": name,
            "largest loss in a cell of the map": round(-min(x.gain(name)[0] for x in cells), 1),
            "largest loss in a row of the networks": round(
                -min(least(row["measured"][name], "mass")[0] for row in networks), 1
            ),
        }


def main(arguments: list[str] | None = None) -> None:
    """Prints the tables."""
    parser = make_parser(__doc__)
    for name in ("first", "second"):
        parser.add_argument(name, type=pathlib.Path, metavar=name.upper())
    text = "rows of benchmarks.two_heads_networks, for the largest losses"
    parser.add_argument("--networks", type=pathlib.Path, metavar="FILE", help=text)
    options = parser.parse_args(arguments)
    with ending(parser, "stopped"):
        known = read_pairs(options.first, options.second)
        pairs = counted(known)
        if not pairs:
            raise UserError(f"a head keeps more than {MOST} in every cell")
        networks = read_networks(options.networks) if options.networks else []
    tables = {
        f"Difference to the better head, in points, over {len(pairs)} cells": [*summaries(pairs)],
        f"Cells in which a search beats both heads; heads {CLOSE:g} points apart": [*places(pairs)],
    }
    parts = dict(changes(known))
    for part, rows in parts.items():
        tables[f"Changes of one cell, {part}: difference to the better head"] = rows
    names = ["rows", "places", *(f"changes_{part}" for part in parts)]
    if networks:
        tables["Largest losses in points, early heads of half of the cost"] = [
            *losses(known, networks)
        ]
        names.append("losses")
    for title, rows in tables.items():
        show(title, rows)
    found = dict(zip(names, tables.values(), strict=True))
    write_measurement(options.json, found.pop("rows"), cells=len(pairs), **found)


if __name__ == "__main__":
    main()
