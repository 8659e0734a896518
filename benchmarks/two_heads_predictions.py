"""Which predictions about the map held: `python -m benchmarks.two_heads_predictions FIRST SECOND`.

FIRST and SECOND are the rows of `benchmarks.two_heads --out` with two seeds. The first one chooses:
the better head of a cell, and the best split of Dual. The second one measures, so a choice does not
make a search look better than it is. Cells in which a head keeps more than 0.98 of the wins do not
count, because nothing is left to gain there.

The first table has the mean over the cells of the difference to the better head, in points, with
the half width of its 95 % interval (the cells are fixed; the roots are random), the share of the
cells in which the search beats both heads, and the tenth of the cells in which it loses most. If a
search equals both heads, it beats both by chance in at most 2.3 % of the cells. The second table
has the numbers of docs/findings.md, "Predictions".
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import make_parser, show, write_rows
from benchmarks.two_heads_report import beats_both, is_above
from dualmctx import UserError
from dualmctx.runs.journal import read_rows

KIND = "kept"
MOST = 0.98
HEADS = ("early", "final")
LEVEL = 1.96
Row = dict[str, Any]


class Pair(NamedTuple):
    """A cell: its place on the map, and the searches of both seeds by name."""

    cell: Row
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


def read_pairs(first: pathlib.Path, second: pathlib.Path) -> list[Pair]:
    """Returns the cells of the map that count.

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
    pairs = [Pair(row["cell"], row["searches"], known[_key(row)]) for row in files[0]]
    return [x for x in pairs if x.cell["part"] == "map" and x.first[x.head][KIND] <= MOST]


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
    for budget in (16, 64):
        some = [x for x in pairs if (x.cell["budget"], x.cell["noise"]) == (budget, 1.0)]
        found = [beats_both(pair.second[pair.split], KIND) for pair in some]
        named.append((f"4: beats both heads with {budget} evaluations, noise 1", _count(found)))
    named.append(("5: the paper's split beats the control", _share(len(above), len(pairs))))
    named.append(
        (
            "5: of these, the final head is the better one",
            _count([x.head == "final" for x in above]),
        )
    )
    return ({"prediction": text, "found": found} for text, found in named)


def _count(found: Sequence[Any]) -> str:
    return _share(int(sum(found)), len(found))


def _share(some: int, number: int) -> str:
    return f"{some} of {number}" + (f" ({some / number:.0%})" if number else "")


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = make_parser(__doc__)
    for name in ("first", "second"):
        parser.add_argument(name, type=pathlib.Path, metavar=name.upper())
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Prints the tables."""
    options = read_options(arguments)
    try:
        pairs = read_pairs(options.first, options.second)
    except (UserError, OSError) as error:
        sys.exit(f"two_heads_predictions: {error}")
    if not pairs:
        sys.exit(f"two_heads_predictions: a head keeps more than {MOST} in every cell")
    tables = [*summaries(pairs)], [*predictions(pairs)]
    show(f"Difference to the better head, in points, over {len(pairs)} cells", tables[0])
    show("Predictions", tables[1])
    write_rows(options.json, [*tables[0], *tables[1]])


if __name__ == "__main__":
    main()
