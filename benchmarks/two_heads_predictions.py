"""Which predictions about the map held: `python -m benchmarks.two_heads_predictions FIRST SECOND`.

FIRST and SECOND are the rows of `benchmarks.two_heads --out` with two seeds. The first one chooses:
the better head of a cell, and the best split of Dual. The second one measures, so a choice does not
make a search look better than it is. Cells in which a head keeps more than 0.98 of the wins do not
count, because nothing is left to gain there.

The first table has the mean over the cells of the difference to the better head, in points, with
the half width of its 95 % interval (the cells are fixed; the roots are random), the share of the
cells in which the search beats both heads, and the tenth of the cells in which it loses most. If a
search equals both heads, it beats both by chance in at most 2.3 % of the cells. The second table
has the numbers of docs/findings.md, "Predictions". Cells with 64 evaluations have fewer roots, so
fewer of them can pass a test by two standard errors; a row counts the cells with 16 evaluations
with standard errors as large as those. The third table counts by the correlation c of the heads'
errors, and by whether the first seed has the heads within 5 points of each other. The last tables
change one property or option of a cell: each seed chooses the better head for the other one, and
the means of both are shown.
"""

import itertools
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import ending, make_parser, show
from benchmarks.ledger import write_measurement
from benchmarks.two_heads_report import SHOWN, beats_both, change_of, is_above
from dualmctx import UserError
from dualmctx.runs.journal import read_rows

KIND = "kept"
MOST = 0.98
HEADS = ("early", "final")
LEVEL = 1.96
# Points between two heads that are nearly equally good.
CLOSE = 5.0
Row = dict[str, Any]


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

    @property
    def best(self) -> str:
        """The search that was best with the first seed."""
        return max(self.first, key=lambda name: self.first[name][KIND])

    def gain(self, name: str) -> tuple[float, float]:
        """Returns the difference of a search to the better head, with its standard error."""
        return tuple(self.second[name][f"{KIND} - {self.head}"])


def counted(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the cells of the map that count."""
    return [x for x in pairs if x.cell["part"] == "map" and x.first[x.head][KIND] <= MOST]


def read_pairs(first: pathlib.Path, second: pathlib.Path) -> list[Pair]:
    """Returns all cells.

    Raises:
      UserError: if a file has no rows of `benchmarks.two_heads`, both have the same seed, or they
        have other cells.
    """
    files = [_read(path) for path in (first, second)]
    seeds = {str(row["seed"]) for row in [*files[0], *files[1]]}
    if len(seeds) != 2:
        raise UserError(f"{first} and {second} must have two seeds; they have {', '.join(seeds)}")
    known = {_key(row): row["searches"] for row in files[1]}
    if {*map(_key, files[0])} != known.keys():
        raise UserError(f"{first} and {second} have different cells; finish both runs")
    return [Pair(row["cell"], row["number"], row["searches"], known[_key(row)]) for row in files[0]]


def _key(row: Row) -> str:
    return json.dumps([row["cell"], row["number"]])


def _read(path: pathlib.Path) -> list[Row]:
    rows = read_rows(path)
    if not rows or any("cell" not in row for row in rows):
        raise UserError(f"{path} has no rows of benchmarks.two_heads")
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
        wins = [beats_both(pair.second[choose(pair)], KIND) for pair in pairs]
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
                name: sum(beats_both(x.second[choose(x)], KIND) for x in some)
                for name, choose in names.items()
            }
            heads = "within" if is_close else "beyond"
            yield {"c": correlation, "heads": heads, "cells": len(some), **found}


def predictions(pairs: Sequence[Pair]) -> Iterator[Row]:
    """Yields the number that each prediction is about."""
    wins = [pair for pair in pairs if beats_both(pair.second[pair.split], KIND)]
    gains = [min(pair.second[pair.split][f"{KIND} - {x}"][0] for x in HEADS) for pair in wins]
    behind = [pair.second["average"][KIND] - pair.second[pair.split][KIND] < -0.01 for pair in wins]
    close = [pair.second["final"][KIND] > pair.second[pair.best][KIND] - 0.01 for pair in pairs]
    above = [pair for pair in pairs if is_above(pair.second["dual paper"][f"{KIND} - root"])]
    named = [
        ("1: the best split of Dual beats both heads", _share(len(wins), len(pairs))),
        ("1: by at most, in points", f"{max(gains, default=0):.1f}"),
        ("2: the mean of both heads is behind it by more than 1 point", _count(behind)),
        ("3: the final head is within 1 point of the best search", _count(close)),
    ]
    named += _by_budget(pairs)
    named.append(("5: the paper's split beats the control", _share(len(above), len(pairs))))
    named.append(
        (
            "5: of these, the final head is the better one",
            _count([x.head == "final" for x in above]),
        )
    )
    return ({"prediction": text, "found": found} for text, found in named)


def _by_budget(pairs: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    """Yields the numbers of the fourth prediction."""
    small, large = (
        [x for x in pairs if (x.cell["budget"], x.cell["noise"]) == (budget, 1.0)]
        for budget in (16, 64)
    )
    for budget, some in ((16, small), (64, large)):
        found = [beats_both(pair.second[pair.split], KIND) for pair in some]
        yield f"4: beats both heads with {budget} evaluations, noise 1", _count(found)
    if not small or not large:
        return
    times = (small[0].number / large[0].number) ** 0.5
    found = [beats_both(_widened(pair.second[pair.split], times), KIND) for pair in small]
    yield "4: with 16 evaluations, if the roots were as few as with 64", _count(found)
    places = {json.dumps(x.cell | {"budget": 64}): x for x in small}
    matched = [(places[y], x) for x in large if (y := json.dumps(x.cell)) in places]
    gains = np.array([[x.gain(x.split) for x in pair] for pair in matched])
    change = gains[:, 1, 0] - gains[:, 0, 0]
    error = np.sqrt((gains[:, :, 1] ** 2).sum()) / len(matched)
    text = f"4: change of the mean difference to the better head, in {len(matched)} places"
    yield text, f"{change.mean():+.2f} ± {LEVEL * error:.2f}"


def _widened(found: Row, times: float) -> Row:
    """Returns the differences of a search with larger standard errors."""
    names = [f"{KIND} - {head}" for head in HEADS]
    return {name: (found[name][0], times * found[name][1]) for name in names}


def changes(pairs: Sequence[Pair]) -> Iterator[tuple[str, list[Row]]]:
    """Yields, for each cell that is changed, its name and a row for each change."""
    others = [x for x in pairs if x.cell["part"] != "map"]
    for part, group in itertools.groupby(others, key=lambda x: x.cell["part"]):
        cells, rows = [*group], list[Row]()
        for pair in cells:
            turned = pair._replace(first=pair.second, second=pair.first)
            row: Row = {"change": change_of(pair.cell, cells[0].cell)}
            for name in ("final", *SHOWN):
                if name in pair.second:
                    values, errors = np.array([x.gain(name) for x in (pair, turned)]).T
                    half = LEVEL * np.sqrt((errors**2).sum()) / 2
                    row[name] = f"{values.mean():+.1f} ± {half:.1f}"
            rows.append(row)
        yield part, rows


def _count(found: Sequence[Any]) -> str:
    return _share(int(sum(found)), len(found))


def _share(some: int, number: int) -> str:
    return f"{some} of {number}" + (f" ({some / number:.0%})" if number else "")


def main(arguments: list[str] | None = None) -> None:
    """Prints the tables."""
    parser = make_parser(__doc__)
    for name in ("first", "second"):
        parser.add_argument(name, type=pathlib.Path, metavar=name.upper())
    options = parser.parse_args(arguments)
    with ending(parser):
        known = read_pairs(options.first, options.second)
        pairs = counted(known)
        if not pairs:
            raise UserError(f"a head keeps more than {MOST} in every cell")
    tables = {
        f"Difference to the better head, in points, over {len(pairs)} cells": [*summaries(pairs)],
        "Predictions": [*predictions(pairs)],
        f"Cells in which a search beats both heads; heads {CLOSE:g} points apart": [*places(pairs)],
    }
    parts = dict(changes(known))
    for part, rows in parts.items():
        tables[f"Changes of one cell, {part}: difference to the better head"] = rows
    for title, rows in tables.items():
        show(title, rows)
    found, predicted, places_ = [*tables.values()][:3]
    more = {"predictions": predicted, "places": places_} | {
        f"changes_{x}": y for x, y in parts.items()
    }
    write_measurement(options.json, found, cells=len(pairs), **more)


if __name__ == "__main__":
    main()
